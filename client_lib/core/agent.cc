#include "client_lib/core/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/agent_wake.h"
#include "client_lib/core/capture_listener.h"
#include "client_lib/core/connection.h"
#include "client_lib/core/direct_calls.h"
#include "client_lib/core/gpu_part.h"
#include "client_lib/core/helper.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"
#include "client_lib/core/metadata.h"
#include "client_lib/core/own_files.h"
#include "client_lib/core/quiesce.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/core/torch_hooks.h"
#include "client_lib/include/profd/profd.h"

namespace profd::client {
namespace {

using wire::FrameType;

// Room for the thread's own frames and for the static TLS of every library in the
// process, which glibc takes from the same piece of memory. Only touched pages count.
#ifdef PROFD_SANITIZED
constexpr size_t kStackBytes = 2u << 20;
#else
constexpr size_t kStackBytes = 256u << 10;
#endif
// Little enough to give way to the program, not so much that a loaded machine keeps a capture
// waiting to be armed.
constexpr int kNiceness = 5;
constexpr int kFirstBackoffMs = 100;
constexpr int kLongestBackoffMs = 30'000;
// A connection that held this long starts the next back-off anew.
constexpr uint64_t kSteadyConnectionNs = 5'000'000'000;
constexpr uint32_t kQuiesceTimeoutMs = 1000;
constexpr uint64_t kPrefaultSliceBytes = 1u << 20;
constexpr int kLongestFillWaitMs = 512;
constexpr uint64_t kNsPerMs = 1'000'000;
// For an ARM that names no limit: a first attach to CUPTI may take 15 s.
constexpr uint64_t kGpuArmTimeoutMs = 60'000;
constexpr uint64_t kArmingPeriodNs = 1'000'000'000;
// The GPU thread's own limits add up to less, so only a CUPTI that hangs takes this long.
constexpr uint64_t kGpuDrainTimeoutNs = 12'000'000'000;
// Python looks through the program's objects for some tenths of a second, once it has the GIL.
constexpr uint64_t kTorchDrainTimeoutNs = 3'000'000'000;

// The agent is not connected, and was not woken since its last try to connect began.
constinit std::atomic<bool> g_would_connect{false};
constinit std::atomic<bool> g_connected{false};
constinit std::atomic<bool> g_was_registered{false};
constinit std::atomic<uint64_t> g_capture_count{0};

// What the agent thread alone uses.
constinit Connection g_connection;
constinit Session* g_session = nullptr;
constinit uint32_t g_stuck_writers = 0;
constinit bool g_draining = false;  // STOP came.
constinit int g_fill_wait_ms = 1;   // See PrefaultSlice().
constinit uint64_t g_sent_metadata = 0;

// What the daemon asked for and gets its answer to when the GPU's part is ready; its STOP, when
// PyTorch's is ready too.
struct GpuWait {
  enum class For { kNothing, kArm, kDrain };
  For what;
  bool has_started;  // kArm: the GPU's part has been started.
  bool in_use;       // The capture has a GPU part, armed or not.
  uint32_t request_id;
  uint64_t begin_ns;
  uint64_t deadline_ns;
  uint64_t next_report_ns;
  wire::ArmBody arm;
};
constinit GpuWait g_gpu{};

// PyTorch's part in the capture.
struct TorchPart {
  const TorchHooks* hooks;  // Null: it has none, or none yet.
  bool is_wanted;
  bool is_written;  // All that there was to say after the window.
  uint64_t deadline_ns;
  wire::ArmTorchField wanted;
};
constinit TorchPart g_torch{};

constinit FrameBuilder* g_frame = nullptr;

enum class Next { kGoOn, kDisconnect };

Next Violation(const char* what) {
  Log(LogLevel::kError, "the daemon sent %s; disconnecting", what);
  return Next::kDisconnect;
}

// Calls of PyTorch's part that run functions of torch. Those must see the program's descriptors.
void ArmTorchOnHelper() {
  RunOnHelper([](void*) { g_torch.hooks->on_arm(g_torch.wanted); }, nullptr);
}
void LeaveTorchOnHelper() {
  RunOnHelper([](void*) { g_torch.hooks->on_leave(); }, nullptr);
}

// The same for what starts the GPU's thread.
void StartGpuOnHelper() {
  RunOnHelper([](void*) { g_gpu.has_started = gpu_part::Start(g_session, g_gpu.arm); }, nullptr);
}

Next SendFrame() { return g_connection.Send(*g_frame) ? Next::kGoOn : Next::kDisconnect; }

Next SendHello() {
  wire::HelloBody hello{};
  hello.version_min = wire::kProtocolVersionMin;
  hello.version_max = wire::kProtocolVersionMax;
  hello.clock_kind = static_cast<uint32_t>(g_clock);
  hello.own_pid = static_cast<uint32_t>(getpid());
  hello.parent_pid = RegisteredParentPid();
  hello.step_mark_count = StepMarkCount();
  g_frame->Begin(FrameType::kHello, 1, hello);
  const char* version = PROFD_LIBRARY_VERSION;
  g_frame->AddField(wire::FieldTag::kLibraryVersion, version, strlen(version));
  g_sent_metadata = AddMetadataFields(*g_frame);
  return SendFrame();
}

Next SendMetadataIfChanged() {
  if (MetadataVersion() == g_sent_metadata) return Next::kGoOn;
  g_frame->Begin(FrameType::kMetadata, 0);
  g_sent_metadata = AddMetadataFields(*g_frame);
  return SendFrame();
}

// No thread records from here on; returns once no thread is inside a write. The daemon's memory
// stays mapped.
void StopRecording() {
  // In this order: see OpenCycle() in steps.cc, and HotState.
  g_hot.session.store(nullptr, std::memory_order_seq_cst);
  g_hot.flag.store(kFlagOff, std::memory_order_seq_cst);
  g_hot.session_for_names.store(nullptr, std::memory_order_seq_cst);
  const uint64_t end_ticks = ReadTicks();
  g_hot.detour.fetch_and(~kDetourMarker, std::memory_order_relaxed);
  TellCaptureListener();
  g_stuck_writers = Quiesce(kQuiesceTimeoutMs);
  TellTorchOfFlag();
  // A writer that is stuck may still change its stack.
  if (g_stuck_writers == 0) EndClosedRanges(*g_session);
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; i < limit; ++i) g_session->CountUnhousedRanges(ThreadPool::At(i));
  EndPlan(g_session, end_ticks);
  g_draining = true;
}

// The GPU's part writes to the daemon's memory no more.
void ParkGpu() {
  if (!g_gpu.in_use) return;
  g_gpu.in_use = false;
  gpu_part::LeaveSession();
  g_stuck_writers = Quiesce(kQuiesceTimeoutMs);
}

void DropSession() {
  if (g_session == nullptr) return;
  if (!g_draining) StopRecording();
  if (g_torch.hooks != nullptr) LeaveTorchOnHelper();
  g_torch = {};
  ParkGpu();
  g_gpu.what = GpuWait::For::kNothing;
  StuckWriters stuck{};
  if (g_stuck_writers != 0) g_stuck_writers = Quiesce(kQuiesceTimeoutMs, &stuck);
  if (g_stuck_writers == 0) {
    g_session->Unmap();
  } else {
    Log(LogLevel::kError, "%u threads are stuck inside a write; their capture stays mapped",
        g_stuck_writers);
    g_session->Abandon(stuck);
  }
  g_session = nullptr;
  g_draining = false;
  KeepStepNumbers(false);
}

Next OnWelcome(const ReceivedFrame& frame) {
  wire::WelcomeBody welcome;
  if (g_connected.load(std::memory_order_relaxed)) return Violation("WELCOME twice");
  if (!frame.Read(&welcome)) return Violation("a short WELCOME");
  if (welcome.version < wire::kProtocolVersionMin || welcome.version > wire::kProtocolVersionMax) {
    return Violation("WELCOME with a version we did not offer");
  }
  if (frame.fd < 0 || !ShareStatusPage(frame.fd)) return Violation("WELCOME without a status page");
  // First, so that a program which ends as soon as it is connected has the line, too.
  Log(LogLevel::kInfo, "registered as target %llu",
      static_cast<unsigned long long>(welcome.target_number));
  g_was_registered.store(true, std::memory_order_relaxed);
  g_connected.store(true, std::memory_order_release);
  return SendMetadataIfChanged();
}

Next OnRefuse(const ReceivedFrame& frame) {
  wire::RefuseBody refuse;
  if (!frame.Read(&refuse)) return Violation("a short REFUSE");
  Log(LogLevel::kError,
      "the daemon refuses this process (reason %u; it speaks versions %u to %u, we %u to %u)",
      refuse.reason, refuse.version_min, refuse.version_max, wire::kProtocolVersionMin,
      wire::kProtocolVersionMax);
  return Next::kDisconnect;
}

Next SendArmFailed(uint32_t request_id, uint64_t capture_number, wire::ArmFailedReason reason,
                   const char* text = "") {
  Log(LogLevel::kWarning, "capture %llu: not armed (reason %u) %s",
      static_cast<unsigned long long>(capture_number), static_cast<uint32_t>(reason), text);
  g_frame->Begin(FrameType::kArmFailed, request_id,
                 wire::ArmFailedBody{capture_number, static_cast<uint32_t>(reason), 0});
  if (text[0] != '\0') g_frame->AddField(wire::FieldTag::kText, text, strlen(text));
  return SendFrame();
}

Next SendArmed(uint32_t request_id) {
  g_capture_count.fetch_add(1, std::memory_order_relaxed);
  g_frame->Begin(FrameType::kArmed, request_id,
                 wire::ArmedBody{g_session->capture_number, StepMarkCount()});
  return SendFrame();
}

Next SendDrained(uint32_t request_id) {
  g_frame->Begin(FrameType::kDrained, request_id,
                 wire::DrainedBody{g_session->capture_number, g_stuck_writers, 0});
  return SendFrame();
}

Next FailGpuArm(wire::ArmFailedReason reason, const char* text) {
  const uint64_t capture_number = g_session->capture_number;
  DropSession();
  return SendArmFailed(g_gpu.request_id, capture_number, reason, text);
}

Next ReportArming(uint64_t now_ns) {
  if (now_ns < g_gpu.next_report_ns) return Next::kGoOn;
  g_gpu.next_report_ns = now_ns + kArmingPeriodNs;
  char text[128];
  const int length =
      snprintf(text, sizeof(text), "%s, %llu s", gpu_part::Stage(),
               static_cast<unsigned long long>((now_ns - g_gpu.begin_ns) / (1000 * kNsPerMs)));
  g_frame->Begin(FrameType::kArming, 0, wire::ArmingBody{g_session->capture_number});
  if (length > 0) g_frame->AddField(wire::FieldTag::kText, text, strlen(text));
  return SendFrame();
}

Next CheckGpuArm(uint64_t now_ns) {
  if (!g_gpu.has_started) {
    if (gpu_part::IsStuck()) {
      return FailGpuArm(wire::ArmFailedReason::kGpuTimeout,
                        "CUPTI has not come back from an earlier capture; the GPU can be traced "
                        "again when the program has been restarted");
    }
    // The last capture's thread may still be putting CUPTI back in order.
    StartGpuOnHelper();
  }
  if (g_gpu.has_started) {
    switch (gpu_part::GetState()) {
      case gpu_part::State::kArmed:
      case gpu_part::State::kDrained:
        g_gpu.what = GpuWait::For::kNothing;
        return SendArmed(g_gpu.request_id);
      case gpu_part::State::kFailed:
        return FailGpuArm(gpu_part::FailureReason(), gpu_part::FailureText());
      case gpu_part::State::kNone:
      case gpu_part::State::kArming:
        break;
    }
  }
  if (now_ns < g_gpu.deadline_ns) return ReportArming(now_ns);
  char text[192];
  snprintf(text, sizeof(text),
           "CUPTI did not answer within %.1f s (%s); try again, with a longer limit if the node is "
           "busy",
           static_cast<double>(now_ns - g_gpu.begin_ns) / 1e9, gpu_part::Stage());
  return FailGpuArm(wire::ArmFailedReason::kGpuTimeout, text);
}

// For a GPU part without a thread that could say it.
void WriteGpuStatus(uint32_t flags) {
  wire::GpuStatusEvent status{};
  status.header = {sizeof(status), static_cast<uint8_t>(wire::EventKind::kGpuStatus), 0, 0};
  status.flags = flags;
  WriteBehindWindow(g_session, &status, sizeof(status));
}

bool GpuIsDrained(uint64_t now_ns) {
  if (!g_gpu.in_use || !g_gpu.has_started) return true;
  if (gpu_part::GetState() == gpu_part::State::kDrained) return true;
  if (now_ns < g_gpu.deadline_ns) return false;
  Log(LogLevel::kError, "CUPTI hangs (%s); its part of the capture is given up", gpu_part::Stage());
  ParkGpu();
  WriteGpuStatus(wire::kGpuStatusAbandoned);
  return true;
}

bool TorchIsDrained(uint64_t now_ns) {
  if (g_torch.hooks == nullptr || g_torch.is_written) return true;
  if (!g_torch.hooks->is_ready() && now_ns < g_torch.deadline_ns) return false;
  g_torch.is_written = true;
  g_torch.hooks->write_behind(g_session);
  return true;
}

Next CheckDrain(uint64_t now_ns) {
  const bool torch_is_drained = TorchIsDrained(now_ns);
  if (!GpuIsDrained(now_ns) || !torch_is_drained) return Next::kGoOn;
  g_gpu.what = GpuWait::For::kNothing;
  return SendDrained(g_gpu.request_id);
}

// Ends the window, and has the parts write what belongs after it.
void BeginDrain(uint64_t now_ns) {
  StopRecording();
  if (g_torch.hooks != nullptr) g_torch.hooks->on_stop();
  g_torch.deadline_ns = now_ns + kTorchDrainTimeoutNs;
}

Next CheckParts() {
  if (g_session != nullptr && !g_draining && g_gpu.in_use && g_gpu.has_started &&
      gpu_part::HasLeft()) {
    BeginDrain(wire::ReadMonotonicNs());
  }
  if (g_gpu.what == GpuWait::For::kNothing) return Next::kGoOn;
  const uint64_t now_ns = wire::ReadMonotonicNs();
  return g_gpu.what == GpuWait::For::kArm ? CheckGpuArm(now_ns) : CheckDrain(now_ns);
}

// How long poll() may wait for the parts; -1: for ever, they wake the agent themselves.
int PartsWaitMs() {
  if (g_gpu.what == GpuWait::For::kNothing) return -1;
  const uint64_t now_ns = wire::ReadMonotonicNs();
  uint64_t until_ns = g_gpu.deadline_ns;
  if (g_gpu.what == GpuWait::For::kArm) {
    if (!g_gpu.has_started) return 5;
    if (g_gpu.next_report_ns < until_ns) until_ns = g_gpu.next_report_ns;
  } else if (g_torch.hooks != nullptr && !g_torch.is_written && g_torch.deadline_ns < until_ns) {
    until_ns = g_torch.deadline_ns;
  }
  return until_ns <= now_ns ? 0 : static_cast<int>((until_ns - now_ns) / kNsPerMs) + 1;
}

Next ArmGpu(uint32_t request_id, const wire::ArmBody& arm) {
  const uint64_t now_ns = wire::ReadMonotonicNs();
  const uint64_t timeout_ms =
      arm.gpu_arm_timeout_ms != 0 ? arm.gpu_arm_timeout_ms : kGpuArmTimeoutMs;
  g_gpu = {.what = GpuWait::For::kArm,
           .has_started = false,
           .in_use = true,
           .request_id = request_id,
           .begin_ns = now_ns,
           .deadline_ns = now_ns + timeout_ms * kNsPerMs,
           .next_report_ns = now_ns + kArmingPeriodNs,
           .arm = arm};
  if (gpu_part::IsCudaLoaded()) return CheckParts();
  g_gpu.what = GpuWait::For::kNothing;
  g_gpu.in_use = false;
  if ((arm.flags & wire::kArmGpuRequired) != 0) {
    return FailGpuArm(wire::ArmFailedReason::kNoCuda, gpu_part::kNoCudaText);
  }
  WriteGpuStatus(wire::kGpuStatusNoCuda);
  return SendArmed(request_id);
}

// Before any thread can see the session.
void SetStepMarker(Session* session, const ReceivedFrame& frame) {
  const char* name;
  size_t length;
  if (!frame.FindField(sizeof(wire::ArmBody), wire::FieldTag::kStepMarker, &name, &length) ||
      length == 0) {
    return;
  }
  const uint32_t name_id = InternName(name, length);
  // Where the process can have no more names, no range has this one.
  session->step_marker = name_id != wire::kOtherNameId ? name_id : wire::kMaxNames;
  g_hot.detour.fetch_or(kDetourMarker, std::memory_order_relaxed);
}

void ReadTorchField(Session* session, const ReceivedFrame& frame) {
  const char* bytes;
  size_t length;
  if (!frame.FindField(sizeof(wire::ArmBody), wire::FieldTag::kTorch, &bytes, &length) ||
      length < sizeof(g_torch.wanted)) {
    return;
  }
  memcpy(&g_torch.wanted, bytes, sizeof(g_torch.wanted));
  g_torch.is_wanted = true;
  const uint32_t source = g_torch.wanted.step_source;
  if (source <= wire::kMaxStepSource) session->step_source = static_cast<wire::StepSource>(source);
}

// A torch that the program imports while a capture is armed takes part from then on. Called when
// torch's wake-up comes, and before a window may open: the wake-up goes through the helper, so a
// FIRE that was sent after torch had joined may overtake it.
void JoinTorch() {
  if (!g_torch.is_wanted || g_torch.hooks != nullptr || g_session == nullptr || g_draining) return;
  g_torch.hooks = g_torch_hooks.load(std::memory_order_acquire);
  if (g_torch.hooks == nullptr) return;
  ArmTorchOnHelper();
  g_torch.hooks->on_flag();
}

Next OnArm(const ReceivedFrame& frame) {
  wire::ArmBody arm;
  if (!frame.Read(&arm)) return Violation("a short ARM");
  if (arm.capture_number == 0) return Violation("ARM of capture 0");
  if (g_session != nullptr) {
    return SendArmFailed(frame.header.request_id, arm.capture_number, wire::ArmFailedReason::kBusy);
  }
  Session* session = NewSession();
  if (session == nullptr) {
    return SendArmFailed(frame.header.request_id, arm.capture_number,
                         wire::ArmFailedReason::kStuckWriters);
  }
  if (frame.fd < 0 || !session->Open(frame.fd, arm)) {
    return SendArmFailed(frame.header.request_id, arm.capture_number,
                         wire::ArmFailedReason::kMemory);
  }
  g_session = session;
  KeepStepNumbers(true);
  session->PrefaultFirst(arm.prefault_bytes);
  g_fill_wait_ms = 1;
  g_hot.detour.fetch_and(~(kDetourNames | kDetourMarker), std::memory_order_relaxed);
  SetStepMarker(session, frame);
  ReadTorchField(session, frame);
  JoinTorch();
  session->SetPhase(wire::Phase::kArmed);
  g_hot.session_for_names.store(session, std::memory_order_seq_cst);
  session->PublishAllNames();
  g_hot.session.store(session, std::memory_order_seq_cst);
  TellCaptureListener();
  if (arm.gpu_mode == static_cast<uint32_t>(wire::GpuMode::kOff)) {
    return SendArmed(frame.header.request_id);
  }
  return ArmGpu(frame.header.request_id, arm);
}

Next OnFire(const ReceivedFrame& frame) {
  wire::FireBody plan;
  if (!frame.Read(&plan)) return Violation("a short FIRE");
  if (g_session == nullptr || g_session->capture_number != plan.capture_number || g_draining ||
      g_session->has_plan.load(std::memory_order_relaxed) != 0) {
    return Next::kGoOn;
  }
  if (!IsValidPlan(plan)) return Violation("FIRE with a plan out of bounds");
  JoinTorch();
  StartPlan(g_session, plan);
  if (g_gpu.in_use) gpu_part::OnPlan();
  return Next::kGoOn;
}

Next OnStop(const ReceivedFrame& frame) {
  wire::StopBody stop;
  if (!frame.Read(&stop)) return Violation("a short STOP");
  if (g_session == nullptr || g_session->capture_number != stop.capture_number) {
    return Next::kGoOn;
  }
  const uint64_t now_ns = wire::ReadMonotonicNs();
  if (!g_draining) BeginDrain(now_ns);
  if (g_gpu.what != GpuWait::For::kDrain) {
    g_gpu.what = GpuWait::For::kDrain;
    g_gpu.deadline_ns = now_ns + kGpuDrainTimeoutNs;
  }
  g_gpu.request_id = frame.header.request_id;
  if (g_gpu.in_use && g_gpu.has_started) gpu_part::RequestStop();
  return CheckParts();
}

Next OnRelease(const ReceivedFrame& frame) {
  wire::ReleaseBody release;
  if (!frame.Read(&release)) return Violation("a short RELEASE");
  if (g_session == nullptr || g_session->capture_number != release.capture_number) {
    return Next::kGoOn;
  }
  Next next = Next::kGoOn;
  if (g_gpu.what == GpuWait::For::kDrain) {
    // The daemon has given up on what is still to come, and counts on the answer all the same.
    ParkGpu();
    next = SendDrained(g_gpu.request_id);
  }
  DropSession();
  return next;
}

Next Dispatch(const ReceivedFrame& frame) {
  const auto type = static_cast<FrameType>(frame.header.type);
  if (type == FrameType::kWelcome) return OnWelcome(frame);
  if (type == FrameType::kRefuse) return OnRefuse(frame);
  if (!g_connected.load(std::memory_order_relaxed)) return Violation("a frame before WELCOME");
  switch (type) {
    case FrameType::kArm:
      return OnArm(frame);
    case FrameType::kFire:
      return OnFire(frame);
    case FrameType::kStop:
      return OnStop(frame);
    case FrameType::kRelease:
      return OnRelease(frame);
    default:
      Log(LogLevel::kDebug, "skipped a frame of type %u", frame.header.type);
      return Next::kGoOn;
  }
}

Next ReceiveAll() {
  ReceivedFrame frame;
  for (;;) {
    switch (g_connection.Receive(&frame)) {
      case Connection::Got::kNothing:
        return Next::kGoOn;
      case Connection::Got::kClosed:
        return Next::kDisconnect;
      case Connection::Got::kFrame: {
        const Next next = Dispatch(frame);
        g_connection.DropFile();  // Mapped, it is needed no more.
        if (next == Next::kDisconnect) return next;
      }
    }
  }
}

// How long poll() may wait before the next call; -1: there is nothing left to touch.
int PrefaultSlice() {
  if (g_session == nullptr || g_draining) return -1;
  const uint64_t done = g_session->prefaulted_bytes;
  if (done >= g_session->layout.total_bytes) return -1;
  const uint64_t filled = g_session->FilledBytes();
  if (filled <= done) {
    // The daemon is behind; one that has no memory left, for good.
    if (g_fill_wait_ms < kLongestFillWaitMs) return g_fill_wait_ms *= 2;
    return -1;
  }
  g_fill_wait_ms = 1;
  g_session->Prefault(filled - done < kPrefaultSliceBytes ? filled : done + kPrefaultSliceBytes);
  return 0;
}

// The earlier of two times to wait; -1: for ever.
int Earlier(int one_ms, int other_ms) {
  if (one_ms < 0) return other_ms;
  return other_ms >= 0 && other_ms < one_ms ? other_ms : one_ms;
}

// From HELLO until the connection is over.
void Serve() {
  Next next = SendHello();
  int prefault_wait_ms = -1;
  while (next == Next::kGoOn) {
    pollfd waited[] = {{g_connection.fd(), POLLIN, 0}, {agent_wake::Fd(), POLLIN, 0}};
    if (waited[0].fd < 0) return;  // The program has closed it.
    int wait_ms = Earlier(PartsWaitMs(), prefault_wait_ms);
    if (FilesAreShared()) wait_ms = Earlier(wait_ms, agent_wake::kSharedCheckMs);
    if (poll(waited, 2, wait_ms) < 0 && errno != EINTR) return;
    if (waited[1].revents != 0) {
      agent_wake::Drain();
      if (g_connected.load(std::memory_order_relaxed)) next = SendMetadataIfChanged();
      if (MustThreadsEnd()) return;
      JoinTorch();
    }
    if (next == Next::kGoOn && waited[0].revents != 0) next = ReceiveAll();
    if (next == Next::kGoOn) next = CheckParts();
    if (next == Next::kGoOn) prefault_wait_ms = PrefaultSlice();
  }
}

void EndConnection() {
  g_connected.store(false, std::memory_order_release);
  DropSession();
  KeepStatusPagePrivate();
  g_connection.Close();
  Log(LogLevel::kInfo, "not connected");
}

bool Connect() {
  for (uint32_t i = 0; i < SocketPathCount(); ++i) {
    if (g_connection.Open(SocketPath(i))) return true;
  }
  return false;
}

void WaitToConnect(int backoff_ms) {
  pollfd waited{agent_wake::Fd(), POLLIN, 0};
  // Ranks that lost their daemon together do not come back in the same millisecond.
  poll(&waited, 1, backoff_ms + getpid() % 64);
  agent_wake::Drain();
}

void SetUpThread() {
  direct::SetThreadName("profd");
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (getpriority(PRIO_PROCESS, thread) < kNiceness) setpriority(PRIO_PROCESS, thread, kNiceness);
  PrepareQuiescence();
  ThreadPool::PrepareThread();
}

// False: profiling is off in this process.
bool SetUpFiles() {
  LeaveProgramFiles();
  if (agent_wake::Open()) return true;
  StayOff(FilesAreShared() ? "socketpair()" : "signalfd() or tgkill()", errno);
  return false;
}

// Until profiling is turned off, which is for good.
void ConnectAndServe() {
  int backoff_ms = kFirstBackoffMs;
  while (!MustThreadsEnd()) {
    // Before the try, so that a call of WakeAgentToConnect() during a try that fails counts.
    g_would_connect.store(true, std::memory_order_seq_cst);
    if (Connect()) {
      g_would_connect.store(false, std::memory_order_seq_cst);
      const uint64_t start_ns = wire::ReadMonotonicNs();
      Serve();
      g_would_connect.store(true, std::memory_order_seq_cst);
      EndConnection();
      if (wire::ReadMonotonicNs() - start_ns > kSteadyConnectionNs) backoff_ms = kFirstBackoffMs;
    }
    if (!MustThreadsEnd()) WaitToConnect(backoff_ms);
    backoff_ms = backoff_ms * 2 < kLongestBackoffMs ? backoff_ms * 2 : kLongestBackoffMs;
  }
}

// What the kernel says of the main thread; all false and 0 where that is not known.
struct MainThreadState {
  bool has_ended = false;  // Or is ending in the kernel.
  int status = 0;          // Its argument of SYS_exit; 0 after pthread_exit().
};

MainThreadState ReadMainThread() {
  // A filter may end the process for what follows.
  if (HasSeccompFilter()) return {};
  char path[48];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", static_cast<int>(getpid()));
  const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (file < 0) return {};
  char text[1024];
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0) return {};
  text[length] = '\0';
  // After the name: "S 1 2 3 0 -1 FLAGS ..."; the last field is the exit code, as wait() has it.
  const char* const name_end = strrchr(text, ')');
  const char* const last = strrchr(text, ' ');
  if (name_end == nullptr || last < name_end || name_end[1] != ' ') return {};
  const char state = name_end[2];
  const char* at = name_end + 2;
  for (int field = 0; field < 6 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  const unsigned long flags = at != nullptr ? strtoul(at, nullptr, 10) : 0;
  constexpr unsigned long kIsExiting = 0x4;  // PF_EXITING of the kernel's sched.h.
  return {.has_ended = state == 'Z' || state == 'X' || (flags & kIsExiting) != 0,
          .status = static_cast<int>(strtol(last, nullptr, 10)) >> 8 & 0xff};
}

void* RunAgent(void* frame) {
  EnterLibraryThread(LibraryThread::kAgent);
  g_frame = static_cast<FrameBuilder*>(frame);
  SetUpThread();
  const bool has_files = SetUpFiles();
  // Another thread may have started the library after the main thread's end.
  if (!MainThreadIsKnown() && ReadMainThread().has_ended) {
    SetMainThreadGone();
    EndWithMainThread();
  }
  if (has_files) ConnectAndServe();
  agent_wake::Close();
  const int status = MainThreadHasEnded() ? ReadMainThread().status : 0;
  StopHelper(status);
  EndLibraryThread(LibraryThread::kAgent);
  return nullptr;
}

}  // namespace

bool StartAgent() {
  static constinit FrameBuilder frame;
  // The helper first: it stays in the descriptor table that the agent is about to leave.
  if (!StartHelper()) return false;
  if (StartLibraryThread(LibraryThread::kAgent, RunAgent, &frame, kStackBytes)) return true;
  StopHelper();
  return false;
}

void WakeAgent() {
  if (AgentIsConnected()) AskForAgent();
}

void WakeAgentToConnect() {
  if (g_would_connect.exchange(false, std::memory_order_seq_cst)) AskForAgent();
}

void WakeAgentForGpu() { AskForAgent(); }
void WakeAgentForTorch() { AskForAgent(); }

bool AgentIsConnected() { return g_connected.load(std::memory_order_acquire); }
bool AgentWasRegistered() { return g_was_registered.load(std::memory_order_relaxed); }
uint64_t ArmedCaptureCount() { return g_capture_count.load(std::memory_order_relaxed); }

void AgentResetInChild() {
  g_connection.ResetInChild();
  agent_wake::ResetInChild();
  HelperResetInChild();
  g_would_connect.store(false, std::memory_order_relaxed);
  g_connected.store(false, std::memory_order_relaxed);
  g_was_registered.store(false, std::memory_order_relaxed);
  g_capture_count.store(0, std::memory_order_relaxed);
  g_session = nullptr;
  KeepStepNumbers(false);
  g_stuck_writers = 0;
  g_draining = false;
  g_sent_metadata = 0;
  g_gpu = {};
  g_torch = {};
  gpu_part::ResetInChild();
  const TorchHooks* hooks = g_torch_hooks.load(std::memory_order_relaxed);
  if (hooks != nullptr) hooks->reset_in_child();
}

}  // namespace profd::client
