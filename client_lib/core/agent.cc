#include "client_lib/core/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/capture_listener.h"
#include "client_lib/core/connection.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/log.h"
#include "client_lib/core/metadata.h"
#include "client_lib/core/quiesce.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/include/profd/profd.h"

namespace profd::client {
namespace {

using wire::FrameType;

// Room for the thread's own frames and for the static TLS of every library in the
// process, which glibc takes from the same piece of memory. Only touched pages count.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
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

constinit std::atomic<int> g_wake_fd{-1};
constinit std::atomic<bool> g_waiting_to_connect{false};
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
constinit FrameBuilder* g_frame = nullptr;

enum class Next { kGoOn, kDisconnect };

Next Violation(const char* what) {
  Log(LogLevel::kError, "the daemon sent %s; disconnecting", what);
  return Next::kDisconnect;
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

// Nobody records from here on; returns once nobody is inside a write. The daemon's memory
// stays mapped.
void StopRecording() {
  g_hot.flag.store(kFlagOff, std::memory_order_seq_cst);
  g_hot.session.store(nullptr, std::memory_order_seq_cst);
  const uint64_t end_ticks = ReadTicks();
  g_hot.detour.fetch_and(~kDetourMarker, std::memory_order_relaxed);
  TellCaptureListener();
  g_stuck_writers = Quiesce(kQuiesceTimeoutMs);
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; i < limit; ++i) g_session->CountUnhousedRanges(ThreadPool::At(i));
  EndPlan(g_session, end_ticks);
  g_draining = true;
}

void DropSession() {
  if (g_session == nullptr) return;
  if (!g_draining) StopRecording();
  if (g_stuck_writers != 0) g_stuck_writers = Quiesce(kQuiesceTimeoutMs);
  if (g_stuck_writers == 0) {
    g_session->Unmap();
  } else {
    Log(LogLevel::kError, "%u threads are stuck inside a write; their capture stays mapped",
        g_stuck_writers);
  }
  g_session = nullptr;
  g_draining = false;
}

Next OnWelcome(const ReceivedFrame& frame) {
  wire::WelcomeBody welcome;
  if (g_connected.load(std::memory_order_relaxed)) return Violation("WELCOME twice");
  if (!frame.Read(&welcome)) return Violation("a short WELCOME");
  if (welcome.version < wire::kProtocolVersionMin || welcome.version > wire::kProtocolVersionMax) {
    return Violation("WELCOME with a version we did not offer");
  }
  if (frame.fd < 0 || !ShareStatusPage(frame.fd)) return Violation("WELCOME without a status page");
  g_was_registered.store(true, std::memory_order_relaxed);
  g_connected.store(true, std::memory_order_release);
  Log(LogLevel::kInfo, "registered as target %llu",
      static_cast<unsigned long long>(welcome.target_number));
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

Next SendArmFailed(const ReceivedFrame& frame, uint64_t capture_number,
                   wire::ArmFailedReason reason) {
  Log(LogLevel::kWarning, "capture %llu: not armed (reason %u)",
      static_cast<unsigned long long>(capture_number), static_cast<uint32_t>(reason));
  g_frame->Begin(FrameType::kArmFailed, frame.header.request_id,
                 wire::ArmFailedBody{capture_number, static_cast<uint32_t>(reason), 0});
  return SendFrame();
}

// Before anybody can see the session.
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

Next OnArm(const ReceivedFrame& frame) {
  wire::ArmBody arm;
  if (!frame.Read(&arm)) return Violation("a short ARM");
  if (arm.capture_number == 0) return Violation("ARM of capture 0");
  if (g_session != nullptr) {
    return SendArmFailed(frame, arm.capture_number, wire::ArmFailedReason::kBusy);
  }
  Session* session = NewSession();
  if (session == nullptr || frame.fd < 0 || !session->Open(frame.fd, arm)) {
    return SendArmFailed(frame, arm.capture_number, wire::ArmFailedReason::kMemory);
  }
  g_session = session;
  session->Prefault(arm.prefault_bytes);
  session->PrefaultFirstChunks();
  g_fill_wait_ms = 1;
  g_hot.detour.fetch_and(~(kDetourNames | kDetourMarker), std::memory_order_relaxed);
  SetStepMarker(session, frame);
  session->SetPhase(wire::Phase::kArmed);
  g_hot.session.store(session, std::memory_order_seq_cst);
  session->PublishAllNames();
  TellCaptureListener();
  g_capture_count.fetch_add(1, std::memory_order_relaxed);
  g_frame->Begin(FrameType::kArmed, frame.header.request_id,
                 wire::ArmedBody{arm.capture_number, StepMarkCount()});
  return SendFrame();
}

Next OnFire(const ReceivedFrame& frame) {
  wire::FireBody plan;
  if (!frame.Read(&plan)) return Violation("a short FIRE");
  if (g_session == nullptr || g_session->capture_number != plan.capture_number || g_draining ||
      g_session->has_plan.load(std::memory_order_relaxed) != 0) {
    return Next::kGoOn;
  }
  if (!IsValidPlan(plan)) return Violation("FIRE with a plan out of bounds");
  StartPlan(g_session, plan);
  return Next::kGoOn;
}

Next OnStop(const ReceivedFrame& frame) {
  wire::StopBody stop;
  if (!frame.Read(&stop)) return Violation("a short STOP");
  if (g_session == nullptr || g_session->capture_number != stop.capture_number) {
    return Next::kGoOn;
  }
  if (!g_draining) StopRecording();
  g_frame->Begin(FrameType::kDrained, frame.header.request_id,
                 wire::DrainedBody{stop.capture_number, g_stuck_writers, 0});
  return SendFrame();
}

Next OnRelease(const ReceivedFrame& frame) {
  wire::ReleaseBody release;
  if (!frame.Read(&release)) return Violation("a short RELEASE");
  if (g_session != nullptr && g_session->capture_number == release.capture_number) DropSession();
  return Next::kGoOn;
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
      case Connection::Got::kFrame:
        if (Dispatch(frame) == Next::kDisconnect) return Next::kDisconnect;
    }
  }
}

void DrainWakeUps() {
  uint64_t count;
  while (read(g_wake_fd.load(std::memory_order_relaxed), &count, sizeof(count)) > 0) {
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

// From HELLO until the connection is over.
void Serve() {
  Next next = SendHello();
  int prefault_wait_ms = -1;
  while (next == Next::kGoOn) {
    pollfd waited[] = {{g_connection.fd(), POLLIN, 0},
                       {g_wake_fd.load(std::memory_order_relaxed), POLLIN, 0}};
    if (poll(waited, 2, prefault_wait_ms) < 0 && errno != EINTR) return;
    if (waited[1].revents != 0) {
      DrainWakeUps();
      if (g_connected.load(std::memory_order_relaxed)) next = SendMetadataIfChanged();
    }
    if (next == Next::kGoOn && waited[0].revents != 0) next = ReceiveAll();
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
  g_waiting_to_connect.store(true, std::memory_order_seq_cst);
  pollfd waited{g_wake_fd.load(std::memory_order_relaxed), POLLIN, 0};
  // Ranks that lost their daemon together do not come back in the same millisecond.
  poll(&waited, 1, backoff_ms + getpid() % 64);
  g_waiting_to_connect.store(false, std::memory_order_seq_cst);
  DrainWakeUps();
}

void SetUpThread() {
  prctl(PR_SET_NAME, "profd", 0, 0, 0);
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (getpriority(PRIO_PROCESS, thread) < kNiceness) setpriority(PRIO_PROCESS, thread, kNiceness);
  PrepareQuiescence();
}

void* RunAgent(void* frame) {
  g_frame = static_cast<FrameBuilder*>(frame);
  SetUpThread();
  int backoff_ms = kFirstBackoffMs;
  for (;;) {
    if (Connect()) {
      const uint64_t start_ns = wire::ReadMonotonicNs();
      Serve();
      EndConnection();
      if (wire::ReadMonotonicNs() - start_ns > kSteadyConnectionNs) backoff_ms = kFirstBackoffMs;
    }
    WaitToConnect(backoff_ms);
    backoff_ms = backoff_ms * 2 < kLongestBackoffMs ? backoff_ms * 2 : kLongestBackoffMs;
  }
  return nullptr;
}

bool StartThread() {
  static constinit FrameBuilder frame;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Inherited by the thread: no signal of the program is handled in it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int result = pthread_create(&thread, &attributes, RunAgent, &frame);
  if (result == EINVAL) {
    // Static TLS alone is larger than our stack.
    pthread_attr_t defaults;
    pthread_attr_init(&defaults);
    pthread_attr_setdetachstate(&defaults, PTHREAD_CREATE_DETACHED);
    result = pthread_create(&thread, &defaults, RunAgent, &frame);
    pthread_attr_destroy(&defaults);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return result == 0;
}

void Wake() {
  const uint64_t one = 1;
  const ssize_t ignored = write(g_wake_fd.load(std::memory_order_relaxed), &one, sizeof(one));
  static_cast<void>(ignored);
}

}  // namespace

bool StartAgent() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return false;
  g_wake_fd.store(fd, std::memory_order_relaxed);
  if (StartThread()) return true;
  g_wake_fd.store(-1, std::memory_order_relaxed);
  close(fd);
  return false;
}

void WakeAgent() {
  if (AgentIsConnected()) Wake();
}

void WakeAgentToConnect() {
  if (g_waiting_to_connect.exchange(false, std::memory_order_seq_cst)) Wake();
}

bool AgentIsConnected() { return g_connected.load(std::memory_order_acquire); }
bool AgentWasRegistered() { return g_was_registered.load(std::memory_order_relaxed); }
uint64_t ArmedCaptureCount() { return g_capture_count.load(std::memory_order_relaxed); }

void AgentResetInChild() {
  g_connection.ResetInChild();
  const int wake = g_wake_fd.exchange(-1, std::memory_order_relaxed);
  if (wake >= 0) close(wake);
  g_waiting_to_connect.store(false, std::memory_order_relaxed);
  g_connected.store(false, std::memory_order_relaxed);
  g_was_registered.store(false, std::memory_order_relaxed);
  g_capture_count.store(0, std::memory_order_relaxed);
  g_session = nullptr;
  g_stuck_writers = 0;
  g_draining = false;
  g_sent_metadata = 0;
}

}  // namespace profd::client
