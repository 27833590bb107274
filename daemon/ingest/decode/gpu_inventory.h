// GpuInventory gathers what a target says about its GPUs and about how recording them went,
// and tells it as the GpuRecord of the capture.
//
// Memory:  kMaxDevices, kMaxContexts, kMaxStreams; more are left out.
// Threads: one at a time.
#ifndef PROFD_DAEMON_INGEST_DECODE_GPU_INVENTORY_H_
#define PROFD_DAEMON_INGEST_DECODE_GPU_INVENTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/capture/capture_types.h"
#include "proto/wire/event.h"

namespace profd {

class GpuInventory {
 public:
  // Records keep no longer lists (daemon/store/file/record_codec.cc).
  static constexpr size_t kMaxDevices = 256;
  static constexpr size_t kMaxContexts = 4096;
  static constexpr size_t kMaxStreams = 4096;

  // What was said last of a device, context or stream counts; so does the last status.
  void AddDevice(const wire::DeviceEvent& untrusted, std::string_view untrusted_name);
  void AddContext(uint32_t context, uint32_t device);
  void AddStream(const wire::StreamEvent& untrusted);
  void SetStatus(const wire::GpuStatusEvent& untrusted) { status_ = untrusted; }

  // nullopt: the context was not described yet.
  std::optional<uint16_t> DeviceOf(uint32_t context) const;

  // How recording went that was asked for as `mode` (not kAuto, not kOff). Leaves the counts
  // that the decoder makes itself as they are, but for before_window_count, which it adds to.
  void Describe(GpuMode mode, GpuRecord& record) const;
  // Adds what the target's GPU thread could not keep, but for kGpuNoChunk: what found no chunk
  // is among the drops of the capture memory's header already.
  void AddDrops(DropCounts& drops) const;

 private:
  int64_t Count(wire::GpuCount which) const;

  std::map<uint32_t, GpuDevice> devices_;
  std::map<uint32_t, uint16_t> contexts_;
  std::map<std::pair<uint32_t, uint32_t>, GpuStream> streams_;
  std::optional<wire::GpuStatusEvent> status_;
};

// "graph_trace", as CUPTI_ACTIVITY_KIND_GRAPH_TRACE; "kind 99".
std::string CuptiKindName(uint32_t kind);
// "CUPTI_ERROR_NOT_SUPPORTED (27)"; "CUPTI error 998".
std::string CuptiResultName(uint32_t result);

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_GPU_INVENTORY_H_
