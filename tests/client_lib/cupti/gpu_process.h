// GpuProcess is a process with the client library and a GPU of software, which a test makes do
// things, one command at a time:
//
//   GpuProcess process({.version = "12.4"});
//   auto capture = process.target().ArmGpu(wire::GpuMode::kDefault);
//   capture->Fire(ByTime());
//   process.Run("launch 100 5; sync");
//   CaptureContents contents = capture->Finish();
//   for (const Truth& truth : process.TruthOf(kKindConcurrentKernel)) ...
//
// Commands, separated by ';':
//   launch N US [NAME]   N launches by cudaLaunchKernel of US microseconds each
//   paced-launch N US [NAME]         the same, by calls that take as long as the kernels
//   driver-launch N [US NAME]        by cuLaunchKernelEx, with no runtime call around it
//   paced-driver-launch N US NAME    the same, by calls that take as long as the kernels
//   noise N              calls of cudaGetDevice and cuCtxGetCurrent
//   host-function US     a function of the program's that the stream waits for
//   copy BYTES, memset BYTES, sync, events, graph N (launches of one of 3 kernels),
//   decompress BYTES [N]             N times (1)
//   make-graph           makes this graph, with a memset as a fourth node, without a launch
//   memory, step N, range NAME N (N launches in a range), threads T N (N launches on each of T)
//   flood N              N launches of no time, as fast as they go, on their own thread
//   load NAME, run N, unload HOW     a module of one kernel, launches of it, sgpu_unload
//   set KEY VALUE, fail SPEC, rival NAME, rival-gone, steal, clock-step NS, settle,
//   return-lost, truth-clear
//   join NAME, leave     another tool subscribes by CUPTI's interface for several subscribers
//   enable KIND          another tool turns on a kind, without subscribing
//   queries N            N times whether an event is done
//   attribute ID VALUE   another tool sets an activity attribute of CUPTI
//   kineto-load, kineto-use GPU      torch with its profiler (fake_kineto.cc), and its first use:
//                        GPU is 1 if it must get CUPTI, and 0 if it must not
//   kineto-start, kineto-stop N      torch.profiler records; fails if it did not record N kernels;
//                        N may be "any"
//   kineto-prepare, kineto-leave     torch.profiler says that it begins, and that it has ended
//   load-cuda            the driver, and no CUPTI
//   contexts             fails if the library holds a context, or has left one current
//   fork                 a child that uses the GPU and the library, and ends well or not
//   exit HOW             exit, thread, quick_exit, _exit, or SIGTERM; with code 7 where it has one
//   print FILE TEXT      to FILE by way of stdout, which is flushed at exit
//
// Errors: a command that fails ends the test process.
#ifndef PROFD_TESTS_CLIENT_LIB_CUPTI_GPU_PROCESS_H_
#define PROFD_TESTS_CLIENT_LIB_CUPTI_GPU_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/cupti_standin/sgpu.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {

// What the stand-in says has happened.
struct Truth {
  sgpu_truth_rec record;  // Its `name` is none.
  std::string name;
};

// The wire::kGpuStatus* of `status` that tell of something that went wrong.
inline uint32_t ProblemsOf(const wire::GpuStatusEvent& status) {
  return status.flags & ~(wire::kGpuStatusSimulated | wire::kGpuStatusStays);
}

// The path of the stand-in of `version`, "13.0".
std::string StandinPath(const std::string& version);

class GpuProcess {
 public:
  struct Options {
    std::string version = "13.0";  // "": no GPU, and no CUDA, at all.
    bool virtual_time = false;
    std::vector<std::pair<std::string, std::string>> environment = {};
  };

  explicit GpuProcess(const Options& options);
  GpuProcess() : GpuProcess(Options{}) {}
  ~GpuProcess();
  GpuProcess(const GpuProcess&) = delete;
  GpuProcess& operator=(const GpuProcess&) = delete;

  void Run(const std::string& commands);
  // Returns before it is done; Wait() before the next.
  void Begin(const std::string& commands);
  void Wait();

  FakeTarget& target() { return *target_; }
  FakeDaemon& daemon() { return daemon_; }
  Child& child() { return *child_; }
  // Closes the connection; the process finds this daemon again.
  void Reconnect();

  std::vector<Truth> AllTruth();
  std::vector<Truth> TruthOf(uint32_t kind);
  sgpu_stats_rec Stats();
  // Threads of the process called `name`.
  int CountThreads(const std::string& name);
  // The niceness of each.
  std::vector<int> NicenessOf(const std::string& name);

 private:
  struct Shared;

  FakeDaemon daemon_;
  Shared* shared_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<FakeTarget> target_;
};

// What the process answers to an ARM that it refuses.
struct Refusal {
  wire::ArmFailedReason reason;
  std::string text;
};
Refusal ArmThatFails(GpuProcess& process, wire::ArmBody arm = GpuArm(wire::GpuMode::kDefault));

// A capture that has begun to record.
std::unique_ptr<FakeCapture> StartRecording(GpuProcess& process,
                                            wire::GpuMode mode = wire::GpuMode::kDefault,
                                            uint32_t flags = 0);

// The process answers, and records what has no need of the GPU.
void ExpectGoesOn(GpuProcess& process);

}  // namespace profd::testing

#endif  // PROFD_TESTS_CLIENT_LIB_CUPTI_GPU_PROCESS_H_
