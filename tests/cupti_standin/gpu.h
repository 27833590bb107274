// Gpu is the software GPU: devices, contexts, streams, events, graphs and memory. It computes when
// work runs at the moment it is submitted, since durations are known then: a stream runs its work
// in order, a device so many kernels at once, a copy engine one copy.
//
// Threads: any; all under one mutex, which is never held while something is waited for.
// Errors:  CUPTI_ERROR_INVALID_PARAMETER for what does not exist.
#ifndef PROFD_TESTS_CUPTI_STANDIN_GPU_H_
#define PROFD_TESTS_CUPTI_STANDIN_GPU_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tests/cupti_standin/sgpu.h"
#include "tests/cupti_standin/work.h"

namespace sgpu {

constexpr uint32_t kDefaultStreamId = 7;

struct ContextInfo {
  uint32_t id;
  uint32_t device;
  uint32_t default_stream;
};

struct StreamInfo {
  uint32_t handle;
  uint32_t id;  // CUPTI's.
  uint32_t context;
  uint32_t device;
  int32_t priority;
  uint32_t flags;
};

struct EventInfo {
  StreamInfo stream;
  uint64_t time_ns;  // When what was before it on its stream is done.
  uint32_t id;
  uint64_t sync_id;  // Of its latest recording.
};

struct Allocation {
  uint64_t address;
  uint64_t bytes;
  uint32_t device;
  uint32_t context;
  bool is_async;
};

struct Pool {
  uint64_t address;
  uint64_t size;
  uint64_t utilized;
  bool is_new;
};

class Gpu {
 public:
  // False: `options` make no sense. Once; later calls change nothing.
  bool Init(const sgpu_opts& options);
  void Shutdown();
  bool is_initialized() const { return initialized_.load(std::memory_order_acquire); }

  std::optional<ContextInfo> CreateContext(uint32_t device);
  std::optional<ContextInfo> Context(uint32_t id);
  std::optional<StreamInfo> CreateStream(uint32_t context, int32_t priority, uint32_t flags);
  std::optional<StreamInfo> Stream(uint32_t handle);
  std::vector<ContextInfo> Contexts();
  std::vector<StreamInfo> Streams();
  uint32_t device_count();

  // Puts `work` at the end of `stream`, at `now`; fills in the op's place and times. A stream that
  // is being captured takes it as a node instead.
  enum class Placed { kNoSuchStream, kRuns, kCaptured };
  Placed Place(uint32_t stream, const Work& work, uint64_t now, Op& op);

  // When all work that `stream` (the context's streams; all) was given is done.
  std::optional<uint64_t> StreamEnd(uint32_t stream);
  std::optional<uint64_t> ContextEnd(uint32_t context);
  uint64_t End();

  // `event` 0: a new one.
  std::optional<EventInfo> RecordEvent(uint32_t stream, uint32_t event, uint64_t now);
  std::optional<EventInfo> Event(uint32_t event);
  // Nothing after this on `stream` runs before `event`.
  bool WaitEvent(uint32_t stream, const EventInfo& event);

  bool BeginCapture(uint32_t stream);
  std::optional<uint32_t> EndCapture(uint32_t stream);
  struct Exec {
    uint32_t graph = 0;
    bool is_unwatched = false;        // No kernels were recorded when it was made.
    bool is_opaque = false;           // And the setting opaque_graphs was on.
    bool is_graph_traced = false;     // GRAPH_TRACE was on when it was made.
    uint64_t graph_trace_number = 0;  // Tracer::graph_trace_number() when it was made.
  };
  std::optional<uint32_t> Instantiate(const Exec& exec);
  std::optional<Exec> FindExec(uint32_t exec);
  // The nodes, in order, as ops of `stream`.
  std::optional<std::vector<Op>> LaunchGraph(uint32_t exec, uint32_t stream, uint64_t now);

  std::optional<Allocation> Allocate(uint32_t stream, uint64_t bytes, bool is_async);
  std::optional<Allocation> Free(uint64_t address);
  // The pool of `stream`'s device; `is_new` the first time.
  std::optional<Pool> PoolOf(uint32_t stream, int64_t utilized_change, uint64_t trim_to);

 private:
  struct Device {
    std::vector<uint64_t> kernel_slots;  // When each is free.
    std::vector<uint64_t> copy_engines;
    uint64_t next_address = 0;
    Pool pool{};
  };
  struct StreamState {
    StreamInfo info;
    uint64_t end = 0;
    uint32_t slot = 0;     // Of kernel_slots: a stream always uses the same.
    uint32_t capture = 0;  // The graph that takes its work; 0: none.
  };
  StreamState* FindStream(uint32_t handle);  // mu_ held.
  StreamState& AddStream(uint32_t context, int32_t priority, uint32_t flags, uint32_t id);
  void Run(StreamState& stream, const Work& work, uint64_t now, Op& op);  // mu_ held.
  uint64_t DeviceTime(uint64_t time_ns);                                  // mu_ held.

  std::atomic<bool> initialized_{false};
  std::mutex mu_;
  // All below guarded by mu_. Handles and ids are indices plus one.
  sgpu_opts options_{};
  uint64_t began_ns_ = 0;
  uint64_t random_ = 1;
  std::vector<Device> devices_;
  std::vector<ContextInfo> contexts_;
  std::vector<uint32_t> next_stream_id_;  // By context.
  std::vector<StreamState> streams_;
  std::vector<EventInfo> events_;
  uint64_t next_sync_id_ = 1;
  std::vector<std::vector<Work>> graphs_;
  std::vector<Exec> execs_;
  std::unordered_map<uint64_t, Allocation> allocations_;
};

Gpu& gpu();

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_GPU_H_
