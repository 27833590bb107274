// FakeDaemon plays the daemon's side of proto/wire for tests of the client library, step
// by step, on the test's own thread: nothing happens that the test did not ask for.
//
//   FakeDaemon daemon;                              // listens below a temporary directory
//   setenv("PROFD_SOCKET_DIR", daemon.directory())  // before the target starts
//   auto target = daemon.WaitTarget();              // HELLO came, WELCOME is sent
//   auto capture = target->Arm();                   // ARMED came
//   capture->Fire(Steps(5));
//   capture->WaitPhase(wire::Phase::kEnded);
//   CaptureContents contents = capture->Finish();   // STOP, DRAINED, read, RELEASE
//
// Threads: one at a time.
// Errors:  what does not come within kDeadlineMs, or breaks the protocol, aborts the
//          process with a message: the test has failed.
#ifndef PROFD_TESTS_FAKES_FAKE_DAEMON_H_
#define PROFD_TESTS_FAKES_FAKE_DAEMON_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/wire/capture_memory.h"
#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"

namespace profd::testing {

inline constexpr int kDeadlineMs = 120'000;  // Only ever waited out by a test that fails.

// Everything that one capture's memory holds.
struct CaptureContents {
  struct Range {
    std::string name;
    uint64_t start_ticks;
    uint64_t duration_ticks;
    uint32_t depth;
    uint32_t category;
    uint32_t thread_serial;
    uint32_t window;
    uint32_t lane;  // EventHeader.thread; 0: on the thread itself.
    uint8_t flags;  // EventHeader.flags
  };
  struct Step {
    uint64_t step;
    uint64_t ticks;
    uint32_t thread_serial;
    uint32_t window;
  };
  struct Instant {
    std::string name;
    uint64_t ticks;
  };
  struct Counter {
    std::string name;
    double value;
  };
  struct OpenRange {
    std::string name;
    uint64_t start_ticks;
    uint32_t thread_serial;
    uint32_t window;
  };
  struct Window {
    uint64_t start_ticks;
    uint64_t end_ticks;
    uint64_t first_step;
    uint64_t end_step;
  };

  // A GPU event, with its name where it has one.
  template <typename Event>
  struct Named {
    std::string name;
    Event event;
  };

  std::vector<Named<wire::ApiCallEvent>> api_calls;
  std::vector<Named<wire::KernelEvent>> kernels;
  std::vector<wire::MemcpyEvent> copies;
  std::vector<wire::MemsetEvent> memsets;
  std::vector<wire::MemDecompressEvent> decompressions;
  std::vector<wire::GraphLaunchEvent> graph_launches;
  std::vector<wire::SyncEvent> syncs;
  std::vector<wire::OverheadEvent> overheads;
  std::vector<wire::CudaEventEvent> cuda_events;
  std::vector<wire::DeviceMemoryEvent> device_memory;
  std::vector<Named<wire::DeviceEvent>> devices;
  std::vector<wire::ContextEvent> contexts;
  std::vector<wire::StreamEvent> streams;
  std::vector<wire::GpuStatusEvent> gpu_statuses;

  struct Operator {
    wire::OperatorEvent event;
    std::vector<std::string> inputs;  // As InputsAsText() has them.
    uint32_t thread_serial;
    uint32_t window;
  };
  struct Note {
    std::string subject;  // "" for none
    std::string text;
    wire::NoteEvent event;
  };
  struct StackFrame {
    std::string file;
    std::string name;
    std::string class_name;  // "" for none
    wire::StackFrameEvent event;
    uint32_t thread_serial;
  };
  std::vector<Operator> operators;
  struct Module {
    std::string path;  // "" for a root
    std::string class_name;
    wire::ModuleEvent event;
  };
  std::vector<StackFrame> stack_frames;
  std::vector<Module> modules;
  std::vector<Note> notes;
  std::vector<Named<wire::BlockEvent>> blocks;
  std::vector<wire::TorchStatusEvent> torch_statuses;

  std::vector<Range> ranges;
  std::vector<Step> steps;
  std::vector<Instant> instants;
  std::vector<Counter> counters;
  std::vector<wire::MemoryEvent> memory;
  std::vector<OpenRange> open_ranges;
  std::vector<Window> windows;
  std::map<uint32_t, std::vector<std::string>> thread_names;  // By thread serial.
  std::map<uint32_t, std::vector<std::string>> lane_names;    // By EventHeader.thread.
  std::map<uint32_t, uint32_t> os_threads;                    // By thread serial.
  uint64_t drops[wire::kDropCauseCount] = {};
  uint64_t warmup_drops[wire::kDropCauseCount] = {};
  uint64_t other_name_events = 0;
  uint64_t foreign_step_marks = 0;
  uint64_t current_step = 0;
  wire::Phase phase = wire::Phase::kIdle;

  uint64_t CountRanges(const std::string& name) const;
  uint64_t dropped() const;  // In and outside of windows.
  // The last word on the GPU; the test fails without one.
  const wire::GpuStatusEvent& gpu_status() const;
  // The last word on torch; the test fails without one.
  const wire::TorchStatusEvent& torch_status() const;
  // The operator whose record goes with `range`; the test fails without one.
  const Operator& OperatorOf(const Range& range) const;
  // GPU events but the descriptions of devices, contexts and streams.
  uint64_t CountGpuEvents() const;
};

// The inputs behind an operator's event, whose record is at `record`, one text each:
//
//   tensor 6 [16,64]          of c10::ScalarType 6; with "strides [64,1]" and "at 0x7f00" if given
//   tensors 2                 a list of two tensors, which follow
//   int 7   double 0.25   bool 1   ints [1,2]   doubles [0.5]   bools [1,0]
//   string abc                none              other
//
// "cut" stands behind what was longer in truth. What cannot be read aborts the test.
std::vector<std::string> InputsAsText(const std::byte* record);

// A received frame.
struct Frame {
  wire::FrameHeader header;
  std::vector<std::byte> body;

  wire::FrameType type() const { return static_cast<wire::FrameType>(header.type); }
  template <typename Body>
  Body As() const {
    Body value{};
    __builtin_memcpy(&value, body.data(), body.size() < sizeof(Body) ? body.size() : sizeof(Body));
    return value;
  }
  // (tag, bytes) of the fields behind a body of `body_bytes`.
  std::vector<std::pair<uint16_t, std::string>> Fields(size_t body_bytes) const;
};

class FakeTarget;

// A capture from ARMED on. Must not outlive its target.
class FakeCapture {
 public:
  // Makes the memory; FakeTarget::Arm() hands it over.
  FakeCapture(FakeTarget& target, uint64_t capture_number, uint64_t memory_bytes);
  ~FakeCapture();
  FakeCapture(const FakeCapture&) = delete;
  FakeCapture& operator=(const FakeCapture&) = delete;

  void Fire(wire::FireBody plan);
  // STOP; returns what DRAINED said.
  wire::DrainedBody Stop();
  void Release();
  // All three, with Read() before RELEASE.
  CaptureContents Finish();

  wire::Phase phase() const;
  void WaitPhase(wire::Phase phase) const;

  // Gives back every full chunk; what was in it is kept for Read(), or dropped.
  void RecycleFullChunks(bool keep = true);

  // What is in the memory now, with what was recycled. Checks every record on the way.
  CaptureContents Read();

  wire::CaptureMemoryHeader& header() { return *header_; }
  const wire::CaptureMemoryLayout& layout() const { return layout_; }
  std::byte* memory() { return memory_; }
  wire::ChunkControl& chunk_control(uint32_t index);
  wire::ChunkHeader& chunk(uint32_t index);
  uint64_t number() const { return number_; }
  int fd() const { return fd_; }

 private:
  struct Thread;
  // Chunks that are full, in the order of each thread's: {thread, number} -> index.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> FullChunks();
  std::string NameOf(uint32_t id) const;
  void ReadChunk(uint32_t index, CaptureContents* into) const;
  template <typename Event>
  void TakeNamed(const std::byte* record, uint32_t size,
                 std::vector<CaptureContents::Named<Event>>* into) const;
  // False: it is none.
  bool ReadGpuEvent(const wire::EventHeader& header, const std::byte* record,
                    CaptureContents* into) const;
  bool ReadFrameworkEvent(const wire::ChunkHeader& chunk, const std::byte* record,
                          CaptureContents* into) const;

  FakeTarget& target_;
  const uint64_t number_;
  const wire::CaptureMemoryLayout layout_;
  int fd_ = -1;
  std::byte* memory_ = nullptr;
  wire::CaptureMemoryHeader* header_ = nullptr;
  CaptureContents recycled_;
};

// A process that is connected.
class FakeTarget {
 public:
  FakeTarget(int fd, int page_fd);
  ~FakeTarget();  // Closes the connection.
  FakeTarget(const FakeTarget&) = delete;
  FakeTarget& operator=(const FakeTarget&) = delete;

  // Reads HELLO; nothing is answered.
  void ReadHello();
  void SendWelcome(uint16_t version = wire::kProtocolVersionMax);

  // Arms a capture and waits for ARMED.
  std::unique_ptr<FakeCapture> Arm(uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes);
  // The same, with steps that are the begins of range `step_marker`.
  std::unique_ptr<FakeCapture> ArmByMarker(
      const std::string& step_marker, uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes);

  // The same, with a part of PyTorch's.
  std::unique_ptr<FakeCapture> ArmTorch(const wire::ArmTorchField& wanted,
                                        uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes);

  // Sends an ARM of `arm`, in which number and memory are filled in; the answer is for
  // ExpectArmed() or Expect(kArmFailed).
  std::unique_ptr<FakeCapture> SendArm(wire::ArmBody arm,
                                       uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes);
  void ExpectArmed(const FakeCapture& capture);
  // The same with a GPU part, armed.
  std::unique_ptr<FakeCapture> ArmGpu(wire::GpuMode mode, uint32_t flags = 0,
                                      uint64_t memory_bytes = wire::kDefaultCaptureMemoryBytes);
  // What the target said in ARMING frames, in order.
  const std::vector<std::string>& arming_texts() const { return arming_texts_; }

  // One frame with `body` behind its header, and `file` unless it is -1.
  void SendBytes(wire::FrameType type, const void* body, size_t body_bytes, int file = -1);
  template <typename Body>
  void Send(wire::FrameType type, const Body& body, int file = -1) {
    SendBytes(type, &body, sizeof(body), file);
  }
  void SendRaw(const void* bytes, size_t size, int file = -1);

  // The next frame, METADATA and ARMING being taken in on the way unless they are `wanted`.
  Frame Expect(wire::FrameType wanted);
  // The same, where a frame of type `perhaps` may come first.
  Frame ExpectAfter(wire::FrameType perhaps, wire::FrameType wanted);
  // Returns once the target has closed the connection; frames before that are dropped.
  void ExpectClosed();

  const wire::HelloBody& hello() const { return hello_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& library_version() const { return library_version_; }
  int peer_pid() const;
  wire::StatusPage& status_page() { return *page_; }
  // Waits until the page shows `count` step marks.
  void WaitStepMarks(uint64_t count) const;

 private:
  bool ReceiveFrame(Frame* frame);
  std::unique_ptr<FakeCapture> ArmWithField(wire::FieldTag tag, const std::string& field,
                                            uint64_t memory_bytes);
  void TakeFields(const Frame& frame, size_t body_bytes);

  const int fd_;
  const int page_fd_;
  wire::StatusPage* page_;
  wire::HelloBody hello_{};
  std::string library_version_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> arming_texts_;
  uint64_t next_capture_ = 1;
};

class FakeDaemon {
 public:
  FakeDaemon();  // In a new temporary directory.
  explicit FakeDaemon(std::string directory);
  // The socket goes; a directory of our own making goes too.
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const std::string& directory() const { return directory_; }

  // The next process that connects, before anything was read from it.
  std::unique_ptr<FakeTarget> Accept();
  // As Accept(), with HELLO read and WELCOME sent.
  std::unique_ptr<FakeTarget> WaitTarget();
  // Whether somebody is waiting to be accepted.
  bool HasCaller() const;

 private:
  void Listen();

  std::string directory_;
  bool own_directory_ = false;
  int listener_ = -1;
};

// A sealed memfd of `bytes` zero bytes.
int MakeSealedMemfd(const char* name, uint64_t bytes);

// ARM with a GPU part: 16 MiB for CUPTI's buffers.
wire::ArmBody GpuArm(wire::GpuMode mode, uint32_t flags = 0);

// Plans, for FakeCapture::Fire().
wire::FireBody ByTime();
wire::FireBody Steps(uint64_t active, uint32_t warmup = 0, uint32_t wait = 0, uint32_t repeat = 1,
                     uint64_t base_step = wire::kNextStep);

// Ends the test process with `message`.
[[noreturn]] void FailTest(const std::string& message);

// Polls `done` until it holds, where there is no event to wait for.
template <typename Predicate>
void WaitUntil(const char* what, const Predicate& done);
void PauseForPoll();
uint64_t PollClockMs();

template <typename Predicate>
void WaitUntil(const char* what, const Predicate& done) {
  const uint64_t deadline_ms = PollClockMs() + kDeadlineMs;
  while (!done()) {
    if (PollClockMs() > deadline_ms) FailTest(std::string("never came: ") + what);
    PauseForPoll();
  }
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_FAKES_FAKE_DAEMON_H_
