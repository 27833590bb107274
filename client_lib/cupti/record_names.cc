// The part of RecordDecoder that reads names: of kernels from the memory of their modules, and of
// API functions from CUPTI. It reads a kernel's name once in a batch, and a function's once.
#include <string.h>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/safe_memory.h"
#include "client_lib/cupti/record_decoder.h"
#include "proto/wire/long_names.h"

namespace profd::client {
namespace {

constexpr char kGoneName[] = "(name unloaded with its module)";

}  // namespace

const RecordDecoder::PageCopy& RecordDecoder::PageAt(uintptr_t address) {
  PageCopy& page = pages_[address / sizeof(PageCopy::bytes) % kPageSlots];
  if (page.address == address && page.batch == batch_) return page;
  page.address = address;
  page.batch = batch_;
  page.byte_count = CopyFromPage(address, page.bytes, sizeof(page.bytes)) ? sizeof(page.bytes) : 0;
  return page;
}

ptrdiff_t RecordDecoder::CopyText(const char* text, char* into, size_t capacity) {
  size_t have = 0;
  while (have < capacity) {
    const auto address = reinterpret_cast<uintptr_t>(text) + have;
    const size_t offset = address % sizeof(PageCopy::bytes);
    const PageCopy& page = PageAt(address - offset);
    if (page.byte_count <= offset) return have != 0 ? static_cast<ptrdiff_t>(have) : -1;
    size_t length = page.byte_count - offset;
    if (length > capacity - have) length = capacity - have;
    const char* from = page.bytes + offset;
    const void* nul = memchr(from, '\0', length);
    if (nul != nullptr) length = static_cast<size_t>(static_cast<const char*>(nul) - from);
    memcpy(into + have, from, length);
    have += length;
    if (nul != nullptr) break;
  }
  return static_cast<ptrdiff_t>(have);
}

// `name` has the first wire::kMaxNameBytes of `text`, which may be all of it.
PROFD_NOINLINE ptrdiff_t RecordDecoder::EndLongName(const char* text, char* name) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  wire::LongNameHash hash;
  hash.Add(name, wire::kMaxNameBytes);
  char more[512];
  size_t have = wire::kMaxNameBytes;
  while (have < kMostBytes) {
    const ptrdiff_t length = CopyText(text + have, more, sizeof(more));
    if (length <= 0) break;
    hash.Add(more, static_cast<size_t>(length));
    have += static_cast<size_t>(length);
    if (length < static_cast<ptrdiff_t>(sizeof(more))) break;
  }
  return have == wire::kMaxNameBytes ? wire::kMaxNameBytes : wire::MarkLongName(name, hash);
}

uint32_t RecordDecoder::ReadKernelName(KernelName* entry, const char* text, EventSink* sink) {
  char name[wire::kMaxNameBytes];
  entry->batch = batch_;
  if (text == nullptr) return entry->name_id = sink->intern(sink, kNoName, sizeof(kNoName) - 1);
  ptrdiff_t length = CopyText(text, name, sizeof(name));
  if (length == sizeof(name)) length = EndLongName(text, name);
  if (length > 0) {
    entry->name_id = sink->intern(sink, name, static_cast<size_t>(length));
  } else if (length == 0) {
    entry->name_id = sink->intern(sink, kNoName, sizeof(kNoName) - 1);
  } else if (entry->name_id == wire::kNoNameId) {
    entry->name_id = sink->intern(sink, kGoneName, sizeof(kGoneName) - 1);
  }  // Else what stood there when it could last be read.
  return entry->name_id;
}

PROFD_NOINLINE void RecordDecoder::ReadApiName(const cupti::ApiRecord& record, ApiName* name,
                                               EventSink* sink) {
  const bool is_driver = record.kind == cupti::kKindDriver;
  const char* text = nullptr;
  const uint32_t domain = is_driver ? cupti::kDomainDriverApi : cupti::kDomainRuntimeApi;
  if (record.cbid >= kApiSlots - 1 || setup_.callback_name == nullptr ||
      setup_.callback_name(domain, record.cbid, &text) != cupti::kSuccess || text == nullptr) {
    text = is_driver ? "(unknown driver call)" : "(unknown runtime call)";
  }
  name->name_id = sink->intern(sink, text, ApiNameLength(text));
  name->is_kept = KeepsApi(setup_.api_filter, is_driver, text);
  const bool has_no_record = !records_decompression_ && IsDecompression(text);
  name->launches = has_no_record ? 0 : LaunchesOf(text);
  name->begins_capture = BeginsGraphCapture(text);
  name->ends_capture = EndsGraphCapture(text);
}

}  // namespace profd::client
