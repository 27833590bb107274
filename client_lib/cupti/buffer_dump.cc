#include "client_lib/cupti/buffer_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/log.h"
#include "client_lib/core/safe_memory.h"

namespace profd::client {
namespace {

constexpr size_t kTextBytes = 4096;
constexpr uint64_t kTextPageBytes = 4096;

// Dumps of this process so far. A child counts on from its parent, under a process ID of its own.
constinit std::atomic<uint32_t> g_dump_count{0};

// Copies the string at `address`, which may not be there. Returns its length, at most
// kTextBytes - 1; 0: nothing can be read.
size_t CopyDumpText(uint64_t address, char* into) {
  size_t length = 0;
  while (length < kTextBytes - 1) {
    // Not past the end of a page, as the next one may not exist.
    const uint64_t from = address + length;
    size_t bytes = kTextPageBytes - from % kTextPageBytes;
    if (bytes > kTextBytes - 1 - length) bytes = kTextBytes - 1 - length;
    if (!CopyFromPage(from, into + length, bytes)) break;
    const void* end = memchr(into + length, '\0', bytes);
    if (end != nullptr) return static_cast<size_t>(static_cast<const char*>(end) - into);
    length += bytes;
  }
  return length;
}

bool WriteAll(int file, const std::byte* bytes, size_t count) {
  while (count != 0) {
    const ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

DumpResult ReadDumpResult(RecordDecoder* decoder) {
  const uint64_t* counts = decoder->counts();
  return {.event_count = decoder->event_count(),
          .untimed = counts[wire::kGpuUntimed],
          .corrupt = counts[wire::kGpuCorrupt],
          .unknown_kind = counts[wire::kGpuUnknownKind],
          .over_cap = counts[wire::kGpuOverCap],
          .before_window = counts[wire::kGpuBeforeWindow],
          .unfinished = counts[wire::kGpuUnfinished],
          .filtered_api = counts[wire::kGpuFilteredApi],
          .later_launch = counts[wire::kGpuLaterLaunch],
          .no_chunk = counts[wire::kGpuNoChunk]};
}

void BufferDump::Begin(const CuptiLibrary& library, uint32_t driver_version,
                       const RecordDecoder::Setup& setup) {
  const char* path = secure_getenv("PROFD_CUPTI_DUMP");
  if (path == nullptr || path[0] == '\0') return;
  const uint32_t number = g_dump_count.fetch_add(1, std::memory_order_relaxed) + 1;
  const int length = snprintf(path_, sizeof(path_), "%s.%d.%u", path, getpid(), number);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path_)) {
    Log(LogLevel::kWarning, "PROFD_CUPTI_DUMP is too long; CUPTI's buffers are not kept");
    return;
  }
  void* memory = mmap(nullptr, kDumpBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    Log(LogLevel::kWarning, "no memory for PROFD_CUPTI_DUMP; CUPTI's buffers are not kept");
    return;
  }
  madvise(memory, kDumpBytes, MADV_DONTFORK);
  memory_ = static_cast<std::byte*>(memory);
  used_bytes_ = sizeof(DumpHeader);
  callback_name_ = setup.callback_name;
  DumpHeader* head = header();
  memcpy(head->magic, kDumpMagic, sizeof(kDumpMagic));
  head->cupti_version = library.version;
  head->driver_version = driver_version;
  head->is_simulated = library.simulated ? 1 : 0;
  head->api_filter = static_cast<uint8_t>(setup.api_filter);
  head->max_records = setup.max_records;
  head->begin_ticks = setup.begin_ticks;
  memcpy(head->record_bytes, library.record_bytes, sizeof(head->record_bytes));
}

// Returns the place of a payload; null: there is no room for it, and from now on for no other.
void* BufferDump::Reserve(DumpBlockType type, size_t bytes) {
  const size_t padded = (bytes + 7) / 8 * 8;
  if (header()->is_truncated != 0 || padded > kDumpBytes ||
      used_bytes_ + sizeof(DumpBlock) > kDumpBytes - padded) {
    header()->is_truncated = 1;
    return nullptr;
  }
  const DumpBlock block{static_cast<uint32_t>(type), static_cast<uint32_t>(bytes)};
  memcpy(memory_ + used_bytes_, &block, sizeof(block));
  void* payload = memory_ + used_bytes_ + sizeof(block);
  used_bytes_ += sizeof(block) + padded;
  return payload;
}

void BufferDump::Append(DumpBlockType type, const void* payload, size_t bytes) {
  if (void* at = Reserve(type, bytes)) memcpy(at, payload, bytes);
}

void BufferDump::KeepApiName(uint32_t domain, uint32_t cbid) {
  if (cbid >= kApiLimit) return;
  bool& has_name = has_api_name_[domain == cupti::kDomainDriverApi ? 1 : 0][cbid];
  if (has_name) return;
  has_name = true;
  const char* name = nullptr;
  if (callback_name_(domain, cbid, &name) != cupti::kSuccess || name == nullptr) return;
  const DumpApiName function{domain, cbid};
  const size_t length = strnlen(name, kTextBytes);
  auto* at = static_cast<std::byte*>(Reserve(DumpBlockType::kApiName, sizeof(function) + length));
  if (at == nullptr) return;
  memcpy(at, &function, sizeof(function));
  memcpy(at + sizeof(function), name, length);
}

// Names may be replaced at their address when a module is unloaded, so each buffer has its own.
void BufferDump::KeepText(uint64_t address) {
  TextSlot& slot = texts_[(address >> 3) % kTextSlots];
  if (slot.address == address && slot.buffer_number == buffer_number_) return;
  slot = {address, buffer_number_};
  char text[kTextBytes];
  const size_t length = CopyDumpText(address, text);
  if (length == 0) return;
  auto* at = static_cast<std::byte*>(Reserve(DumpBlockType::kText, sizeof(address) + length));
  if (at == nullptr) return;
  memcpy(at, &address, sizeof(address));
  memcpy(at + sizeof(address), text, length);
}

void BufferDump::KeepBuffer(const RecordDecoder& decoder, const std::byte* buffer, uint64_t bytes) {
  ++buffer_number_;
  uint64_t at = 0;
  while (at + sizeof(cupti::Activity) <= bytes) {
    cupti::Kind kind;
    memcpy(&kind, buffer + at, sizeof(kind));
    const uint64_t size = kind < cupti::kKindLimit ? header()->record_bytes[kind] : 0;
    if (size == 0 || size > bytes - at) break;
    if (CanDecode(kind, static_cast<uint16_t>(size))) {
      if (kind == cupti::kKindConcurrentKernel || kind == cupti::kKindKernel) {
        uint64_t name;
        memcpy(&name, buffer + at + offsetof(cupti::KernelRecord, name), sizeof(name));
        if (name != 0) KeepText(name);
      } else if (kind == cupti::kKindRuntime || kind == cupti::kKindDriver) {
        uint32_t cbid;
        memcpy(&cbid, buffer + at + offsetof(cupti::ApiRecord, cbid), sizeof(cbid));
        KeepApiName(kind == cupti::kKindDriver ? cupti::kDomainDriverApi : cupti::kDomainRuntimeApi,
                    cbid);
      }
    }
    at += size;
  }
  const RecordDecoder::Settings settings = decoder.settings();
  Append(DumpBlockType::kState, &settings, sizeof(settings));
  Append(DumpBlockType::kBuffer, buffer, bytes);
  events_before_ = decoder.event_count();
}

void BufferDump::KeepResult(RecordDecoder* decoder) {
  event_count_ += decoder->event_count() - events_before_;
  DumpResult result = ReadDumpResult(decoder);
  result.event_count = event_count_;
  Append(DumpBlockType::kResult, &result, sizeof(result));
}

void BufferDump::Finish() {
  if (memory_ == nullptr) return;
  // A new file and no link: the path comes from the environment, and may be in a folder that all
  // users can write to.
  const int file = open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    Log(LogLevel::kWarning, "PROFD_CUPTI_DUMP: cannot create %s: %s", path_, strerror(errno));
  } else {
    if (!WriteAll(file, memory_, used_bytes_)) {
      Log(LogLevel::kWarning, "PROFD_CUPTI_DUMP: cannot write %s: %s", path_, strerror(errno));
    }
    close(file);
  }
  munmap(memory_, kDumpBytes);
  memory_ = nullptr;
}

}  // namespace profd::client
