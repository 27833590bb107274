#include "tests/fakes/fake_target.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

using wire::FrameType;

// Only ever waited out by a test that fails.
constexpr int kDeadlineMs = 60'000;

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "FakeTarget: %s (%s)\n", what.c_str(), strerror(errno));
  abort();
}

// The first field of that tag; empty: there is none.
std::string FieldOf(std::span<const std::byte> body, size_t fixed_bytes, wire::FieldTag tag) {
  body = body.subspan(std::min(fixed_bytes, body.size()));
  while (body.size() >= sizeof(wire::FieldHeader)) {
    wire::FieldHeader field;
    memcpy(&field, body.data(), sizeof(field));
    body = body.subspan(sizeof(field));
    if (field.length_bytes > body.size()) Die("the daemon sent half a field");
    if (field.tag == static_cast<uint16_t>(tag)) {
      return {reinterpret_cast<const char*>(body.data()), field.length_bytes};
    }
    body = body.subspan(field.length_bytes);
  }
  return "";
}

}  // namespace

FakeTarget::FakeTarget(const std::filesystem::path& socket_dir)
    : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), clock_(wire::DetectClockKind()) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_dir / "agent" / "agent.sock";
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Die("connect to " + path);
  }
}

FakeTarget::~FakeTarget() {
  CloseSocket();
  if (page_ != nullptr) munmap(page_, wire::kStatusPageBytes);
  for (const auto& mapping : mappings_) munmap(mapping->memory, mapping->layout.total_bytes);
}

void FakeTarget::CloseSocket() {
  if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
  if (answering_.joinable()) answering_.join();
  socket_.Reset();
}

void FakeTarget::StopReading() { shutdown(socket_.get(), SHUT_RD); }

void FakeTarget::SendHello(const FakeHello& hello) {
  clock_ = hello.clock;
  std::string body(sizeof(wire::HelloBody), '\0');
  wire::HelloBody fixed{};
  fixed.version_min = hello.version_min;
  fixed.version_max = hello.version_max;
  fixed.clock_kind = static_cast<uint32_t>(hello.clock);
  fixed.own_pid = static_cast<uint32_t>(getpid());
  fixed.step_mark_count = hello.step_mark_count;
  memcpy(body.data(), &fixed, sizeof(fixed));
  const auto add = [&body](wire::FieldTag tag, const std::string& text) {
    const wire::FieldHeader field{static_cast<uint16_t>(tag), static_cast<uint16_t>(text.size())};
    body.append(reinterpret_cast<const char*>(&field), sizeof(field)).append(text);
  };
  add(wire::FieldTag::kLibraryVersion, hello.library_version);
  for (const std::string& pair : hello.metadata) add(wire::FieldTag::kMetadata, pair);
  SendBody(static_cast<uint16_t>(FrameType::kHello), body.data(), body.size(), 1);
}

uint64_t FakeTarget::Register(const FakeHello& hello) {
  SendHello(hello);
  const ReceivedFrame welcome = Expect(FrameType::kWelcome);
  void* page = mmap(nullptr, wire::kStatusPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    welcome.fd.get(), 0);
  if (page == MAP_FAILED) Die("map the status page");
  page_ = static_cast<wire::StatusPage*>(page);
  return welcome.As<wire::WelcomeBody>().target_number;
}

void FakeTarget::SendBody(uint16_t type, const void* body, size_t bytes, uint32_t request_id) {
  wire::FrameHeader header{};
  header.magic = wire::kFrameMagic;
  header.type = type;
  header.length_bytes = static_cast<uint32_t>(sizeof(header) + bytes);
  header.request_id = request_id;
  std::vector<std::byte> packet(sizeof(header) + bytes);
  memcpy(packet.data(), &header, sizeof(header));
  memcpy(packet.data() + sizeof(header), body, bytes);
  SendPacket(packet);
}

bool FakeTarget::SendPacket(std::span<const std::byte> packet, std::span<const int> fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

std::optional<ReceivedFrame> FakeTarget::Receive() {
  pollfd readable{socket_.get(), POLLIN, 0};
  if (poll(&readable, 1, kDeadlineMs) == 0) Die("the daemon says nothing");
  std::vector<std::byte> packet(wire::kMaxFrameBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{packet.data(), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) return std::nullopt;
  wire::FrameHeader header;
  if (static_cast<size_t>(got) < sizeof(header)) Die("the daemon sent half a frame");
  memcpy(&header, packet.data(), sizeof(header));
  ReceivedFrame frame;
  frame.type = static_cast<FrameType>(header.type);
  frame.request_id = header.request_id;
  frame.body.assign(packet.begin() + sizeof(header), packet.begin() + got);
  const cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int fd;
    memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    frame.fd.Reset(fd);
  }
  return frame;
}

ReceivedFrame FakeTarget::Expect(FrameType type) {
  std::optional<ReceivedFrame> frame = Receive();
  if (!frame.has_value()) Die("the daemon closed");
  if (frame->type != type) {
    Die(StrCat("the daemon sent frame ", static_cast<int>(frame->type), " for ",
               static_cast<int>(type)));
  }
  return *std::move(frame);
}

void FakeTarget::ExpectClosed() {
  while (Receive().has_value()) {
  }
}

void FakeTarget::TakeArm(ReceivedFrame arm) {
  const auto body = arm.As<wire::ArmBody>();
  void* memory =
      mmap(nullptr, body.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arm.fd.get(), 0);
  if (memory == MAP_FAILED) Die("map the capture memory");
  const std::string torch = FieldOf(arm.body, sizeof(body), wire::FieldTag::kTorch);
  mappings_.push_back(std::make_unique<Mapping>(
      Mapping{.memory = static_cast<std::byte*>(memory),
              .layout = wire::LayoutFor(body.memory_bytes),
              .capture_number = body.capture_number,
              .arm = body,
              .step_marker = FieldOf(arm.body, sizeof(body), wire::FieldTag::kStepMarker),
              .torch = std::nullopt}));
  if (torch.size() == sizeof(wire::ArmTorchField)) {
    memcpy(&mappings_.back()->torch.emplace(), torch.data(), torch.size());
  }
  mapping_.store(mappings_.back().get(), std::memory_order_release);
  absl::MutexLock lock(&mu_);
  names_.clear();
}

void FakeTarget::SendArmed() {
  SetPhase(wire::Phase::kArmed);
  Send(FrameType::kArmed, wire::ArmedBody{capture_number(), 0});
}

template <typename Body>
void FakeTarget::SendWithText(FrameType type, const Body& body, std::string_view text) {
  const wire::FieldHeader field{static_cast<uint16_t>(wire::FieldTag::kText),
                                static_cast<uint16_t>(text.size())};
  std::string bytes(reinterpret_cast<const char*>(&body), sizeof(body));
  bytes.append(reinterpret_cast<const char*>(&field), sizeof(field)).append(text);
  SendBody(static_cast<uint16_t>(type), bytes.data(), bytes.size());
}

void FakeTarget::SendArming(std::string_view text) {
  SendWithText(FrameType::kArming, wire::ArmingBody{capture_number()}, text);
}

void FakeTarget::SendArmFailed(wire::ArmFailedReason reason, std::string_view text) {
  SendWithText(FrameType::kArmFailed,
               wire::ArmFailedBody{capture_number(), static_cast<uint32_t>(reason), 0}, text);
}

void FakeTarget::SendDrained(uint32_t stuck_writer_count) {
  Send(FrameType::kDrained, wire::DrainedBody{capture_number(), stuck_writer_count, 0});
}

void FakeTarget::AnswerInBackground() {
  answering_ = std::thread([this] { AnswerLoop(); });
}

void FakeTarget::AnswerLoop() {
  for (;;) {
    std::vector<std::byte> ignored;
    pollfd readable{socket_.get(), POLLIN, 0};
    poll(&readable, 1, -1);
    std::optional<ReceivedFrame> frame = Receive();
    if (!frame.has_value()) return;
    switch (frame->type) {
      case FrameType::kArm:
        TakeArm(*std::move(frame));
        SendArmed();
        break;
      case FrameType::kFire: {
        absl::MutexLock lock(&mu_);
        plan_ = frame->As<wire::FireBody>();
        ++fired_count_;
        break;
      }
      case FrameType::kStop:
        if (!answer_stop_) break;
        for (uint32_t i = 0; i < wire::kMaxWindows; ++i) {
          const wire::Window& window = header().windows[i];
          if (window.start_ticks.load() != 0 && window.end_ticks.load() == 0) {
            CloseWindow(i, window.first_step.load());
          }
        }
        SetPhase(wire::Phase::kEnded);
        SendDrained();
        break;
      case FrameType::kRelease: {
        absl::MutexLock lock(&mu_);
        ++released_count_;
        break;
      }
      default:
        break;
    }
  }
}

void FakeTarget::WaitFired() {
  absl::MutexLock lock(&mu_);
  const auto fired = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return fired_count_ > 0; };
  if (!mu_.AwaitWithTimeout(absl::Condition(&fired), absl::Milliseconds(kDeadlineMs))) {
    Die("FIRE did not come");
  }
  --fired_count_;
}

void FakeTarget::WaitReleased() {
  absl::MutexLock lock(&mu_);
  const auto released = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return released_count_ > 0; };
  if (!mu_.AwaitWithTimeout(absl::Condition(&released), absl::Milliseconds(kDeadlineMs))) {
    Die("RELEASE did not come");
  }
  --released_count_;
}

wire::ChunkControl& FakeTarget::control(uint32_t chunk) {
  return reinterpret_cast<wire::ChunkControl*>(memory() + layout().chunk_table_offset)[chunk];
}

wire::ChunkHeader& FakeTarget::chunk(uint32_t chunk) {
  return *reinterpret_cast<wire::ChunkHeader*>(memory() + layout().chunks_offset +
                                               uint64_t{chunk} * wire::kChunkBytes);
}

wire::FireBody FakeTarget::plan() const {
  absl::MutexLock lock(&mu_);
  return plan_;
}

void FakeTarget::MarkStep(uint64_t step, uint64_t ticks) {
  wire::StatusStep& slot = page_->steps[step % wire::kStatusPageSteps];
  slot.step_plus_1.store(0);
  slot.ticks.store(ticks);
  slot.step_plus_1.store(step + 1);
  page_->step_mark_count.store(step + 1);
}

void FakeTarget::SetPhase(wire::Phase phase) { header().phase.store(static_cast<uint32_t>(phase)); }

void FakeTarget::SetCurrentStep(uint64_t step) { header().current_step.store(step); }

uint64_t FakeTarget::OpenWindow(uint32_t window, uint64_t first_step) {
  const uint64_t now = Now();
  header().windows[window].first_step.store(first_step);
  header().windows[window].start_ticks.store(now);
  header().window_count.store(window + 1);
  if (first_step != wire::kNextStep) SetCurrentStep(first_step);
  SetPhase(wire::Phase::kRecording);
  return now;
}

uint64_t FakeTarget::CloseWindow(uint32_t window, uint64_t end_step) {
  const uint64_t now = Now();
  header().windows[window].end_step.store(end_step);
  header().windows[window].end_ticks.store(now);
  return now;
}

uint32_t FakeTarget::Name(std::string_view text) {
  absl::MutexLock lock(&mu_);
  const auto known = names_.find(text);
  if (known != names_.end()) return known->second;
  const auto id = static_cast<uint32_t>(wire::kOtherNameId + 1 + names_.size());
  const auto size = static_cast<uint32_t>((sizeof(wire::NameEntry) + text.size() + 7) / 8 * 8);
  const uint64_t offset = layout().name_area_offset + header().name_area_used.fetch_add(size);
  const wire::NameEntry entry{static_cast<uint32_t>(text.size()), 0};
  memcpy(memory() + offset, &entry, sizeof(entry));
  memcpy(memory() + offset + sizeof(entry), text.data(), text.size());
  reinterpret_cast<std::atomic<uint32_t>*>(memory() + layout().name_index_offset)[id].store(
      static_cast<uint32_t>(offset), std::memory_order_release);
  names_.emplace(text, id);
  return id;
}

std::optional<uint32_t> FakeTarget::PopFreeChunk() {
  uint64_t head = header().free_head.load();
  for (;;) {
    const auto first = static_cast<uint32_t>(head);
    if (first == 0 || first > layout().chunk_count) return std::nullopt;
    const uint64_t next = control(first - 1).next_free.load();
    const uint64_t tag = (head >> 32) + 1;
    if (header().free_head.compare_exchange_weak(head, (tag << 32) | next)) return first - 1;
  }
}

void FakeTarget::CountDrop(wire::DropCause cause, uint64_t count) {
  header().drops[cause].fetch_add(count);
}

FakeThread::FakeThread(FakeTarget& target, uint32_t serial, uint32_t os_thread)
    : target_(target),
      serial_(serial),
      os_thread_(os_thread != 0 ? os_thread : static_cast<uint32_t>(syscall(SYS_gettid))) {}

bool FakeThread::TakeChunk() {
  const std::optional<uint32_t> index = target_.PopFreeChunk();
  if (!index.has_value()) return false;
  wire::ChunkHeader& chunk = target_.chunk(*index);
  chunk.published_bytes.store(0);
  chunk.thread_serial = serial_;
  chunk.os_thread = os_thread_;
  chunk.sequence = sequence_++;
  chunk.window = window_;
  std::copy(open_.begin(), open_.end(), chunk.open_ranges);
  chunk.open_depth.store(static_cast<uint32_t>(open_.size()));
  target_.control(*index).state.store(static_cast<uint32_t>(wire::ChunkState::kOwned));
  if (index_.has_value()) {
    target_.chunk(*index_).open_depth.store(0);
    FinishChunk();
  }
  index_ = index;
  used_bytes_ = 0;
  return true;
}

void FakeThread::FinishChunk() {
  if (!index_.has_value()) return;
  target_.control(*index_).state.store(static_cast<uint32_t>(wire::ChunkState::kFull));
  index_.reset();
}

bool FakeThread::Write(const void* record, size_t bytes) {
  if (!index_.has_value() || used_bytes_ + bytes > wire::kChunkDataBytes) {
    if (!TakeChunk()) {
      target_.CountDrop(wire::kDropNoChunk);
      return false;
    }
  }
  wire::ChunkHeader& chunk = target_.chunk(*index_);
  memcpy(reinterpret_cast<std::byte*>(&chunk) + wire::kChunkDataOffset + used_bytes_, record,
         bytes);
  used_bytes_ += static_cast<uint32_t>(bytes);
  chunk.published_bytes.store(used_bytes_);
  return true;
}

void FakeThread::Begin(std::string_view name) {
  if (!index_.has_value()) TakeChunk();
  open_.push_back({target_.Now(), target_.Name(name), 0, 0});
  if (!index_.has_value()) return;
  wire::ChunkHeader& chunk = target_.chunk(*index_);
  chunk.open_ranges[open_.size() - 1] = open_.back();
  chunk.open_depth.store(static_cast<uint32_t>(open_.size()));
}

void FakeThread::End() {
  const wire::OpenRange range = open_.back();
  wire::RangeEvent event{};
  event.start_ticks = range.start_ticks;
  event.duration_ticks = target_.Now() - range.start_ticks;
  event.name_id = range.name_id;
  event.depth = static_cast<uint16_t>(open_.size() - 1);
  WriteEvent(event, wire::EventKind::kRange);
  open_.pop_back();
  if (index_.has_value()) {
    target_.chunk(*index_).open_depth.store(static_cast<uint32_t>(open_.size()));
  }
}

void FakeThread::Range(std::string_view name, uint64_t start_ticks, uint64_t end_ticks,
                       uint16_t depth) {
  wire::RangeEvent event{};
  event.start_ticks = start_ticks;
  event.duration_ticks = end_ticks - start_ticks;
  event.name_id = target_.Name(name);
  event.depth = depth;
  WriteEvent(event, wire::EventKind::kRange);
}

void FakeThread::Instant(std::string_view name) {
  wire::InstantEvent event{};
  event.time_ticks = target_.Now();
  event.name_id = target_.Name(name);
  WriteEvent(event, wire::EventKind::kInstant);
}

void FakeThread::Counter(std::string_view name, double value) {
  wire::CounterEvent event{};
  event.time_ticks = target_.Now();
  event.value = value;
  event.name_id = target_.Name(name);
  WriteEvent(event, wire::EventKind::kCounter);
}

void FakeThread::Memory(uint64_t address, int64_t bytes, bool is_free, int64_t total_allocated) {
  wire::MemoryEvent event{};
  event.time_ticks = target_.Now();
  event.address = address;
  event.bytes = bytes;
  event.total_allocated_bytes = total_allocated;
  event.total_reserved_bytes = -1;
  WriteEvent(event, wire::EventKind::kMemory, is_free ? wire::kEventFlagFree : 0);
}

void FakeThread::Step(uint64_t step, uint64_t ticks) {
  wire::StepEvent event{};
  event.time_ticks = ticks;
  event.step = step;
  WriteEvent(event, wire::EventKind::kStep);
  target_.SetCurrentStep(step);
}

void FakeThread::ApiCall(std::string_view name, uint32_t os_thread, uint64_t start_ticks,
                         uint64_t end_ticks, uint32_t correlation) {
  wire::ApiCallEvent event{};
  event.start_ticks = start_ticks;
  event.duration_ticks = end_ticks - start_ticks;
  event.name_id = target_.Name(name);
  event.correlation = correlation;
  WriteEvent(event, wire::EventKind::kApiCall, 0, os_thread);
}

void FakeThread::Kernel(std::string_view name, uint64_t start_ticks, uint64_t end_ticks,
                        uint32_t correlation, uint32_t stream) {
  wire::KernelEvent event{};
  event.start_ticks = start_ticks;
  event.duration_ticks = end_ticks - start_ticks;
  event.place = {.device = 0, .context = 1, .stream = stream, .correlation = correlation};
  event.name_id = target_.Name(name);
  WriteEvent(event, wire::EventKind::kKernel);
}

void FakeThread::ThreadName(std::string_view name) {
  wire::ThreadNameEvent event{};
  event.name_id = target_.Name(name);
  WriteEvent(event, wire::EventKind::kThreadName);
}

}  // namespace profd
