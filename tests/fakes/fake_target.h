// FakeTarget speaks the wire protocol as libprofd_client does, but on command, well or
// badly. It shares no code with the real library, so that both ends are checked against
// proto/wire and not against each other.
//
//   FakeTarget target(socket_dir);
//   target.Register();
//   target.AnswerInBackground();             // ARM, FIRE, STOP, RELEASE from here on
//   ... the daemon arms and fires ...
//   target.OpenWindow(0, 7);
//   FakeThread thread(target);
//   thread.Begin("forward"); thread.End();
//   target.CloseWindow(0, 9);
//
// Threads:   one, beside the one of AnswerInBackground(). FakeThreads may live on others.
// Ownership: owns its socket and mappings; a FakeThread must not outlive its target.
// Errors:    what cannot happen in a test that works aborts with a message.
#ifndef PROFD_TESTS_FAKES_FAKE_TARGET_H_
#define PROFD_TESTS_FAKES_FAKE_TARGET_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/unique_fd.h"
#include "proto/wire/capture_memory.h"
#include "proto/wire/clock.h"
#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"

namespace profd {

// A frame as it came, with the descriptor that came with it.
struct ReceivedFrame {
  wire::FrameType type{};
  uint32_t request_id = 0;
  std::vector<std::byte> body;
  UniqueFd fd;

  template <typename Body>
  Body As() const {
    Body value{};
    memcpy(&value, body.data(), std::min(sizeof(value), body.size()));
    return value;
  }
};

struct FakeHello {
  uint16_t version_min = wire::kProtocolVersionMin;
  uint16_t version_max = wire::kProtocolVersionMax;
  wire::ClockKind clock = wire::DetectClockKind();
  uint64_t step_mark_count = 0;
  std::string library_version = "0.1.0-fake";
  std::vector<std::string> metadata;  // "key=value"
};

class FakeTarget {
 public:
  // Connects to `socket_dir`/agent/agent.sock.
  explicit FakeTarget(const std::filesystem::path& socket_dir);
  ~FakeTarget();
  FakeTarget(const FakeTarget&) = delete;
  FakeTarget& operator=(const FakeTarget&) = delete;

  // ---- the conversation, frame by frame ----
  void SendHello(const FakeHello& hello = {});
  // HELLO and WELCOME; maps the status page. Returns the daemon's number.
  uint64_t Register(const FakeHello& hello = {});
  template <typename Body>
  void Send(wire::FrameType type, const Body& body, uint32_t request_id = 0) {
    SendBody(static_cast<uint16_t>(type), &body, sizeof(body), request_id);
  }
  void SendBody(uint16_t type, const void* body, size_t bytes, uint32_t request_id = 0);
  // Any bytes as one packet, and descriptors with it. False: the daemon closed.
  bool SendPacket(std::span<const std::byte> packet, std::span<const int> fds = {});
  // The next frame; nullopt: the daemon closed. Waits.
  std::optional<ReceivedFrame> Receive();
  // The next frame, which must be of that type.
  ReceivedFrame Expect(wire::FrameType type);
  // Waits until the daemon has closed, skipping what it says before.
  void ExpectClosed();

  // ARM: maps the memory. ARMED is not sent.
  void TakeArm(ReceivedFrame arm);
  void SendArmed();
  void SendArming(std::string_view text);
  void SendArmFailed(wire::ArmFailedReason reason, std::string_view text);
  void SendDrained(uint32_t stuck_writer_count = 0);

  // Answers ARM by ARMED, notes FIRE, answers STOP by closing the open window and DRAINED,
  // and lets go at RELEASE, until the daemon or CloseSocket() closes.
  void AnswerInBackground();
  void WaitFired();
  void WaitReleased();
  // With AnswerInBackground(): STOP is not answered.
  void IgnoreStop() { answer_stop_ = false; }
  // As exec or a crashed library would: the process lives, the connection does not.
  void CloseSocket();
  // What the daemon sends from now on fails; it is not notified.
  void StopReading();

  // ---- what it shares ----
  wire::StatusPage& page() { return *page_; }
  wire::CaptureMemoryHeader& header() {
    return *reinterpret_cast<wire::CaptureMemoryHeader*>(mapping().memory);
  }
  std::byte* memory() { return mapping().memory; }
  const wire::CaptureMemoryLayout& layout() const { return mapping().layout; }
  wire::ChunkControl& control(uint32_t chunk);
  wire::ChunkHeader& chunk(uint32_t chunk);
  uint64_t capture_number() const { return mapping().capture_number; }
  // The ARM that was taken last, and its fields kStepMarker and kTorch.
  const wire::ArmBody& arm() const { return mapping().arm; }
  const std::string& step_marker() const { return mapping().step_marker; }
  const std::optional<wire::ArmTorchField>& torch() const { return mapping().torch; }
  wire::FireBody plan() const;
  uint64_t Now() const { return wire::ReadTicks(clock_); }
  wire::ClockKind clock() const { return clock_; }

  // A mark on the status page.
  void MarkStep(uint64_t step, uint64_t ticks);

  // The windows, as the step thread would set them.
  void SetPhase(wire::Phase phase);
  void SetCurrentStep(uint64_t step);
  // Return the tick of the edge.
  uint64_t OpenWindow(uint32_t window, uint64_t first_step);
  uint64_t CloseWindow(uint32_t window, uint64_t end_step);

  // The id of a name whose bytes are in the memory.
  uint32_t Name(std::string_view text);

  // Takes a free chunk as a thread does; nullopt: there is none.
  std::optional<uint32_t> PopFreeChunk();
  void CountDrop(wire::DropCause cause, uint64_t count = 1);

 private:
  // One capture's memory. All stay mapped until the end, for threads that come late.
  struct Mapping {
    std::byte* memory;
    wire::CaptureMemoryLayout layout;
    uint64_t capture_number;
    wire::ArmBody arm;
    std::string step_marker;
    std::optional<wire::ArmTorchField> torch;
  };
  const Mapping& mapping() const { return *mapping_.load(std::memory_order_acquire); }

  void AnswerLoop();
  template <typename Body>
  void SendWithText(wire::FrameType type, const Body& body, std::string_view text);

  UniqueFd socket_;
  wire::ClockKind clock_;
  wire::StatusPage* page_ = nullptr;

  std::vector<std::unique_ptr<Mapping>> mappings_;
  std::atomic<const Mapping*> mapping_{nullptr};  // The newest.

  mutable absl::Mutex mu_;
  std::map<std::string, uint32_t, std::less<>> names_ ABSL_GUARDED_BY(mu_);
  uint64_t fired_count_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t released_count_ ABSL_GUARDED_BY(mu_) = 0;
  wire::FireBody plan_ ABSL_GUARDED_BY(mu_){};
  std::atomic<bool> answer_stop_{true};
  std::thread answering_;
};

// One thread of a FakeTarget, writing as the real library's threads do.
class FakeThread {
 public:
  // The serials of one target's threads must differ.
  FakeThread(FakeTarget& target, uint32_t serial, uint32_t os_thread = 0);

  void set_window(uint32_t window) { window_ = window; }

  void Begin(std::string_view name);
  void End();
  // A whole range at once.
  void Range(std::string_view name, uint64_t start_ticks, uint64_t end_ticks, uint16_t depth = 0);
  void Instant(std::string_view name);
  void Counter(std::string_view name, double value);
  void Memory(uint64_t address, int64_t bytes, bool is_free, int64_t total_allocated = -1);
  void Step(uint64_t step, uint64_t ticks);
  void ThreadName(std::string_view name);
  // Any record. False: no chunk was free; the drop is counted.
  bool Write(const void* record, size_t bytes);
  template <typename Event>
  bool WriteEvent(Event event, wire::EventKind kind, uint8_t flags = 0, uint32_t os_thread = 0) {
    event.header = {sizeof(Event), static_cast<uint8_t>(kind), flags, os_thread};
    return Write(&event, sizeof(event));
  }
  // As the library's GPU thread writes them: a call of another thread, a kernel it launched,
  // and how recording stands.
  void ApiCall(std::string_view name, uint32_t os_thread, uint64_t start_ticks, uint64_t end_ticks,
               uint32_t correlation);
  void Kernel(std::string_view name, uint64_t start_ticks, uint64_t end_ticks, uint32_t correlation,
              uint32_t stream = 7);
  void GpuStatus(const wire::GpuStatusEvent& status) {
    WriteEvent(status, wire::EventKind::kGpuStatus);
  }

  // Gives the chunk up as full, whatever is in it.
  void FinishChunk();
  std::optional<uint32_t> chunk_index() const { return index_; }
  uint32_t next_sequence() const { return sequence_; }
  void set_next_sequence(uint32_t sequence) { sequence_ = sequence; }

 private:
  bool TakeChunk();

  FakeTarget& target_;
  const uint32_t serial_;
  const uint32_t os_thread_;
  uint32_t window_ = 0;
  uint32_t sequence_ = 0;
  uint32_t used_bytes_ = 0;
  std::optional<uint32_t> index_;
  std::vector<wire::OpenRange> open_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_TARGET_H_
