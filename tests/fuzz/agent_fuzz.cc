// Bytes as a session of a hostile daemon with the client library, in one process: the daemon's
// frames and files, what it writes to the capture's memory at any time, and what the program does
// meanwhile. The library must neither crash, write outside of the capture's memory, nor keep the
// program or the session waiting.
//
// Both mappings of the memory lie between pages that nobody may touch (Guarded*), so that an index
// out of bounds is seen.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/core/recorder.h"
#include "client_lib/include/profd/profd.h"
#include "proto/wire/capture_memory.h"
#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd {
namespace {

constexpr uint64_t kMemoryBytes = wire::kMinCaptureMemoryBytes;
constexpr size_t kGuardBytes = 256u << 10;
constexpr int kDeadlineMs = 60'000;
constexpr uint32_t kMostNames = 64;

[[noreturn]] void Die(const char* what) {
  fprintf(stderr, "agent_fuzz: %s\n", what);
  __builtin_trap();
}

void Require(bool holds, const char* what) {
  if (!holds) Die(what);
}

int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void Pause() {
  const timespec pause{0, 50'000};
  nanosleep(&pause, nullptr);
}

// The input, read from the front; behind its end it is zeros.
class Input {
 public:
  explicit Input(std::span<const uint8_t> data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  template <typename Number>
  Number Next() {
    Number value = 0;
    const size_t bytes = std::min(sizeof(value), data_.size());
    memcpy(&value, data_.data(), bytes);
    data_ = data_.subspan(bytes);
    return value;
  }
  std::string Bytes(size_t count) {
    const size_t bytes = std::min(count, data_.size());
    std::string text(reinterpret_cast<const char*>(data_.data()), bytes);
    data_ = data_.subspan(bytes);
    return text;
  }

 private:
  std::span<const uint8_t> data_;
};

int MakeMemfd(uint64_t bytes, bool is_sealed) {
  const int fd = memfd_create("agent-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Require(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0, "no memfd");
  if (is_sealed) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

// A capture's memory as an honest daemon makes it.
class Memory {
 public:
  explicit Memory(uint64_t capture_number) : fd_(MakeMemfd(kMemoryBytes, true)) {
    bytes_ = static_cast<std::byte*>(
        mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    Require(bytes_ != MAP_FAILED, "no mapping");
    wire::CaptureMemoryHeader& header = *reinterpret_cast<wire::CaptureMemoryHeader*>(bytes_);
    header.magic = wire::kCaptureMemoryMagic;
    header.version = wire::kCaptureMemoryVersion;
    header.capture_number = capture_number;
    header.total_bytes = layout_.total_bytes;
    header.chunk_bytes = wire::kChunkBytes;
    header.chunk_count = layout_.chunk_count;
    header.name_capacity = layout_.name_capacity;
    header.name_area_bytes = layout_.name_area_bytes;
    header.chunk_table_offset = layout_.chunk_table_offset;
    header.name_index_offset = layout_.name_index_offset;
    header.name_area_offset = layout_.name_area_offset;
    header.chunks_offset = layout_.chunks_offset;
    auto* chunks = reinterpret_cast<wire::ChunkControl*>(bytes_ + layout_.chunk_table_offset);
    for (uint32_t i = 0; i < layout_.chunk_count; ++i) {
      chunks[i].next_free.store(i + 1 < layout_.chunk_count ? i + 2 : 0);
    }
    header.free_head.store(1);
  }
  ~Memory() {
    StopScribbling();
    munmap(bytes_, kMemoryBytes);
    close(fd_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int fd() const { return fd_; }

  // Overwrites one word: of the header, the free list's head, a chunk's control or header, the
  // index of the names, or the count of bytes that they use.
  void Patch(uint8_t what, uint16_t where, uint64_t value) {
    uint64_t at = 0;
    switch (what % 7) {
      case 0:
        at = where % sizeof(wire::CaptureMemoryHeader);
        break;
      case 1:
        at = offsetof(wire::CaptureMemoryHeader, free_head);
        break;
      case 2:
        at =
            layout_.chunk_table_offset + where % (layout_.chunk_count * sizeof(wire::ChunkControl));
        break;
      case 3:
        at = layout_.chunks_offset + where % layout_.chunk_count * wire::kChunkBytes +
             (where >> 8) * 8 % sizeof(wire::ChunkHeader);
        break;
      case 4:
        at = layout_.name_index_offset + where * sizeof(uint32_t) % 4096;
        break;
      case 5:
        at = offsetof(wire::CaptureMemoryHeader, name_area_used);
        break;
      default:
        at = uint64_t{where} * 8 * 7 % kMemoryBytes;
    }
    __atomic_store_n(reinterpret_cast<uint64_t*>(bytes_ + at / 8 * 8), value, __ATOMIC_RELAXED);
  }

  // The same all the time, on a thread of its own.
  void Scribble(uint64_t seed) {
    StopScribbling();
    stop_.store(false);
    scribbler_ = std::thread([this, seed] {
      uint64_t random = seed | 1;
      while (!stop_.load(std::memory_order_relaxed)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const uint64_t value = random % 3 == 0 ? random >> 32 : random % 20;
        Patch(static_cast<uint8_t>(random >> 8), static_cast<uint16_t>(random >> 16), value);
      }
    });
  }
  void StopScribbling() {
    stop_.store(true);
    if (scribbler_.joinable()) scribbler_.join();
  }

 private:
  const wire::CaptureMemoryLayout layout_ = wire::LayoutFor(kMemoryBytes);
  const int fd_;
  std::byte* bytes_;
  std::atomic<bool> stop_{true};
  std::thread scribbler_;
};

profd_status Status() {
  profd_status status{};
  status.size_bytes = sizeof(status);
  profd_get_status(&status);
  return status;
}

// Where the library finds the daemon, for the whole process.
int Listener() {
  static const int listener = [] {
    static char directory[] = "/tmp/profd-agent-fuzz-XXXXXX";
    Require(mkdtemp(directory) != nullptr, "no directory");
    const std::string agent = std::string(directory) + "/agent";
    mkdir(agent.c_str(), 0700);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/agent.sock", agent.c_str());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    Require(
        bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 4) == 0,
        "no socket");
    setenv("PROFD_SOCKET_DIR", directory, 1);
    atexit([] {
      const std::string folder = std::string(directory) + "/agent";
      unlink((folder + "/agent.sock").c_str());
      rmdir(folder.c_str());
      rmdir(directory);
    });
    return fd;
  }();
  return listener;
}

class Session {
 public:
  Session() {
    const int listener = Listener();
    const int64_t deadline_ms = NowMs() + kDeadlineMs;
    for (;;) {
      profd_init();  // Ends the agent's wait between two tries.
      pollfd waited{listener, POLLIN, 0};
      if (poll(&waited, 1, 1) == 1) break;
      Require(NowMs() < deadline_ms, "the library does not connect");
    }
    fd_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Require(fd_ >= 0, "no connection");
    Receive();
  }
  ~Session() {
    memory_.reset();
    close(fd_);
    const int64_t deadline_ms = NowMs() + kDeadlineMs;
    while (Status().connected != 0 || Status().recording != 0) {
      Require(NowMs() < deadline_ms, "the library does not see the end of the session");
      Pause();
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool is_open() const { return is_open_; }
  Memory& memory() {
    if (memory_ == nullptr) memory_ = std::make_unique<Memory>(kCapture);
    return *memory_;
  }

  void SendFrame(uint16_t type, const std::string& body, int file) {
    const wire::FrameHeader header{wire::kFrameMagic, type, 0,
                                   static_cast<uint32_t>(sizeof(header) + body.size()), 7};
    SendRaw(std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + body, file);
  }
  template <typename Body>
  void Send(wire::FrameType type, const Body& body, int file = -1, const std::string& fields = "") {
    SendFrame(static_cast<uint16_t>(type),
              std::string(reinterpret_cast<const char*>(&body), sizeof(body)) + fields, file);
  }
  void SendRaw(const std::string& packet, int file) {
    iovec part{const_cast<char*>(packet.data()), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (file >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      memcpy(CMSG_DATA(rights), &file, sizeof(file));
    }
    ssize_t sent;
    do {
      sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) is_open_ = false;
    Settle();
  }

  // Returns when the library has taken in all frames, or has hung up.
  void Settle() {
    if (!is_open_) return;
    const int64_t deadline_ms = NowMs() + kDeadlineMs;
    while (Status().connected == 0) {
      pollfd waited{fd_, POLLIN, 0};
      if (poll(&waited, 1, 1) == 1 && !Receive()) return;
      Require(NowMs() < deadline_ms, "the library neither accepts a WELCOME nor hangs up");
    }
    // Its answer to the first change may come before the frames; that to the second does not.
    for (int i = 0; i < 2 && is_open_; ++i) {
      static uint32_t changes = 0;
      profd_set_metadata("round", std::to_string(++changes).c_str());
      while (Receive() && last_type_ != static_cast<uint16_t>(wire::FrameType::kMetadata)) {
      }
    }
  }

  static constexpr uint64_t kCapture = 9;

 private:
  // False: the library has hung up.
  bool Receive() {
    pollfd waited{fd_, POLLIN, 0};
    int ready;
    do {  // libFuzzer has a timer.
      ready = poll(&waited, 1, kDeadlineMs);
    } while (ready < 0 && errno == EINTR);
    Require(ready == 1, "the library does not answer");
    static std::array<char, wire::kMaxFrameBytes> packet;
    const ssize_t got = recv(fd_, packet.data(), packet.size(), 0);
    is_open_ = got > 0;
    if (!is_open_) return false;
    wire::FrameHeader header;
    Require(static_cast<size_t>(got) >= sizeof(header), "the library sent a short frame");
    memcpy(&header, packet.data(), sizeof(header));
    Require(header.magic == wire::kFrameMagic && header.length_bytes == static_cast<size_t>(got),
            "the library sent a frame with a wrong header");
    last_type_ = header.type;
    return true;
  }

  int fd_ = -1;
  bool is_open_ = true;
  uint16_t last_type_ = 0;
  std::unique_ptr<Memory> memory_;
};

int PageFile() {
  static const int fd = [] {
    const int made = MakeMemfd(wire::kStatusPageBytes, true);
    const uint32_t head[2] = {wire::kStatusPageMagic, wire::kStatusPageVersion};
    Require(pwrite(made, head, sizeof(head), 0) == sizeof(head), "no status page");
    return made;
  }();
  return fd;
}

int FileOfKind(Session* session, uint8_t kind) {
  static const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  static const int unsealed = MakeMemfd(kMemoryBytes, false);
  static const int empty = MakeMemfd(kMemoryBytes, true);
  static const int too_short = MakeMemfd(kMemoryBytes / 2, true);
  static const int blank_page = MakeMemfd(wire::kStatusPageBytes, true);
  switch (kind % 8) {
    case 0:
      return -1;
    case 1:
      return session->memory().fd();
    case 2:
      return PageFile();
    case 3:
      return null;
    case 4:
      return unsealed;
    case 5:
      return empty;
    case 6:
      return too_short;
    default:
      return blank_page;
  }
}

wire::ArmBody ArmOf(Input* input) {
  wire::ArmBody arm{.capture_number = Session::kCapture, .memory_bytes = kMemoryBytes};
  const auto odd = input->Next<uint8_t>();
  if ((odd & 1) != 0) arm.capture_number = input->Next<uint8_t>();
  if ((odd & 2) != 0) arm.memory_bytes = input->Next<uint64_t>();
  if ((odd & 4) != 0) arm.prefault_bytes = input->Next<uint64_t>();
  if ((odd & 8) != 0) arm.gpu_mode = input->Next<uint8_t>();
  if ((odd & 16) != 0) arm.gpu_buffer_bytes = input->Next<uint64_t>();
  if ((odd & 32) != 0) arm.flags = input->Next<uint32_t>();
  if ((odd & 64) != 0) arm.gpu_arm_timeout_ms = input->Next<uint32_t>();
  return arm;
}

wire::FireBody PlanOf(Input* input) {
  wire::FireBody plan{.capture_number = Session::kCapture,
                      .base_step = wire::kNextStep,
                      .active_steps = input->Next<uint8_t>() % 5u,
                      .repeat = 1};
  const auto odd = input->Next<uint8_t>();
  if ((odd & 1) != 0) plan.base_step = input->Next<uint64_t>();
  if ((odd & 2) != 0) plan.active_steps = input->Next<uint64_t>();
  if ((odd & 4) != 0) plan.wait_steps = input->Next<uint32_t>();
  if ((odd & 8) != 0) plan.warmup_steps = input->Next<uint32_t>();
  if ((odd & 16) != 0) plan.repeat = input->Next<uint32_t>();
  return plan;
}

// A field behind an ARM: the step marker, torch's, or anything.
std::string FieldOf(Input* input) {
  const auto tag = input->Next<uint8_t>();
  const std::string bytes = input->Bytes(input->Next<uint8_t>() % 40);
  const auto length = static_cast<uint16_t>(bytes.size() + input->Next<uint8_t>() % 3);
  const wire::FieldHeader header{static_cast<uint16_t>(tag % 8), length};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + bytes;
}

uint32_t NameOf(uint32_t number) {
  const std::string name =
      "name " + std::to_string(number % kMostNames) + std::string(number % kMostNames * 13, 'x');
  return profd_intern(name.data(), name.size());
}

// What the program does: `what` says which events, `count` how many.
void Annotate(uint8_t what, uint32_t count) {
  const uint32_t name = NameOf(what);
  uint64_t span = 0;
  client::OperatorBegin begin;
  for (uint32_t i = 0; i < count; ++i) {
    switch (what % 9) {
      case 0:
        profd_range_begin_id(name);
        profd_range_end_id();
        break;
      case 1:
        profd_range_begin_id(name);  // Deeper and deeper.
        break;
      case 2:
        profd_range_end_id();
        break;
      case 3:
        profd_instant_id(name);
        profd_counter_id(name, 1.0);
        break;
      case 4: {
        const profd_memory_event event{i, 8, -1, -1, 0, 0, 0, 0};
        profd_alloc(&event);
        break;
      }
      case 5:
        client::BeginRangeOn(static_cast<uint16_t>(1 + i % 3), name);
        if (i % 5 == 4) client::EndRangeOn(static_cast<uint16_t>(1 + i % 2));
        break;
      case 6:
        if (span != 0) client::EndSpan(span);
        span = client::BeginSpan(name);
        break;
      case 7:
        if (client::StartOperator(name, &begin)) {
          *begin.record = {};
          client::FinishOperator(&begin, name, wire::RangeCategory{}, sizeof(*begin.record));
          client::EndOperator();
        }
        break;
      default:
        profd_thread_name("program");
        NameOf(i);
    }
  }
}

void Act(Session* session, Input* input) {
  using wire::FrameType;
  switch (input->Next<uint8_t>() % 14) {
    case 0:
      return session->Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1}, PageFile());
    case 1: {
      const wire::ArmBody arm = ArmOf(input);
      return session->Send(FrameType::kArm, arm, session->memory().fd());
    }
    case 2: {
      const wire::ArmBody arm = ArmOf(input);
      return session->Send(FrameType::kArm, arm, session->memory().fd(), FieldOf(input));
    }
    case 3:
      return session->Send(FrameType::kFire, PlanOf(input));
    case 4:
      return session->Send(FrameType::kStop, wire::StopBody{Session::kCapture});
    case 5:
      return session->Send(FrameType::kRelease, wire::ReleaseBody{Session::kCapture});
    case 6: {
      const auto type = input->Next<uint8_t>();
      const int file = FileOfKind(session, input->Next<uint8_t>());
      return session->SendFrame(type % 14, input->Bytes(input->Next<uint8_t>()), file);
    }
    case 7: {
      const int file = FileOfKind(session, input->Next<uint8_t>());
      return session->SendRaw(input->Bytes(1 + input->Next<uint8_t>() % 64), file);
    }
    case 8:
    case 9: {
      const auto what = input->Next<uint8_t>();
      const auto where = input->Next<uint16_t>();
      return session->memory().Patch(what, where, input->Next<uint64_t>());
    }
    case 10:
      return session->memory().Scribble(input->Next<uint64_t>());
    case 11: {
      const uint32_t steps = 1u + input->Next<uint8_t>() % 8;
      for (uint32_t i = 0; i < steps; ++i) profd_step();
      return;
    }
    case 12: {
      const auto what = input->Next<uint8_t>();
      const uint32_t count = input->Next<uint8_t>() * 32u;
      return Annotate(what, count);
    }
    default: {
      // A thread that comes and goes, with its chunk.
      const auto what = input->Next<uint8_t>();
      const uint32_t count = input->Next<uint8_t>();
      std::thread([&] { Annotate(what, count); }).join();
    }
  }
}

// ---- Guarded mappings

std::mutex g_guarded_mutex;
// Never destroyed: the library's agent may unmap while the process ends.
std::vector<void*>& g_guarded = *new std::vector<void*>;

}  // namespace
}  // namespace profd

// The linker has every mmap() and munmap() of this binary come here (--wrap).
extern "C" {
void* __real_mmap(void* address, size_t bytes, int rights, int flags, int fd, off_t offset);
int __real_munmap(void* address, size_t bytes);

void* __wrap_mmap(void* address, size_t bytes, int rights, int flags, int fd, off_t offset);
void* __wrap_mmap(void* address, size_t bytes, int rights, int flags, int fd, off_t offset) {
  const bool is_guarded =
      address == nullptr && (flags & MAP_SHARED) != 0 && fd >= 0 && bytes == profd::kMemoryBytes;
  if (!is_guarded) return __real_mmap(address, bytes, rights, flags, fd, offset);
  void* reserved = __real_mmap(nullptr, bytes + 2 * profd::kGuardBytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return reserved;
  void* inside = static_cast<char*>(reserved) + profd::kGuardBytes;
  void* mapped = __real_mmap(inside, bytes, rights, flags | MAP_FIXED, fd, offset);
  if (mapped == MAP_FAILED) {
    __real_munmap(reserved, bytes + 2 * profd::kGuardBytes);
    return mapped;
  }
  const std::lock_guard lock(profd::g_guarded_mutex);
  profd::g_guarded.push_back(mapped);
  return mapped;
}

int __wrap_munmap(void* address, size_t bytes);
int __wrap_munmap(void* address, size_t bytes) {
  {
    const std::lock_guard lock(profd::g_guarded_mutex);
    const auto found = std::find(profd::g_guarded.begin(), profd::g_guarded.end(), address);
    if (found != profd::g_guarded.end()) {
      profd::g_guarded.erase(found);
      address = static_cast<char*>(address) - profd::kGuardBytes;
      bytes += 2 * profd::kGuardBytes;
    }
  }
  return __real_munmap(address, bytes);
}
}  // extern "C"

// One action after the other, each a byte and what it needs; see Act(). An even first byte: the
// session begins with an honest WELCOME, ARM, and a plan by time, so that more inputs get that far.
PROFD_FUZZ_TARGET(FuzzAgent)(std::span<const uint8_t> data) {
  using profd::wire::FrameType;
  constexpr int kMostActions = 40;
  profd::Input input(data);
  profd::Session session;
  if (input.Next<uint8_t>() % 2 == 0) {
    session.Send(FrameType::kWelcome, profd::wire::WelcomeBody{1, 0, 0, 1}, profd::PageFile());
    session.Send(FrameType::kArm,
                 profd::wire::ArmBody{.capture_number = profd::Session::kCapture,
                                      .memory_bytes = profd::kMemoryBytes},
                 session.memory().fd());
    session.Send(FrameType::kFire, profd::wire::FireBody{.capture_number = profd::Session::kCapture,
                                                         .base_step = profd::wire::kNextStep,
                                                         .repeat = 1});
  }
  for (int i = 0; i < kMostActions && !input.empty(); ++i) profd::Act(&session, &input);
}
