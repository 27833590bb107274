// OpDevice sums GPU work by the ranges that launched it: the device columns of the operator table,
// as op_table.h defines them. Work that was launched before the window is not in them.
//
// Threads: one.
// Memory:  24 bytes per GPU row, plus the kinds (and steps).
#ifndef PROFD_DAEMON_REPORT_OPS_DEVICE_H_
#define PROFD_DAEMON_REPORT_OPS_DEVICE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class OpDevice {
 public:
  struct Options {
    bool by_step = false;
    std::optional<int64_t> step;  // Only launches in the step of this number.
  };
  struct Row {
    uint32_t kind = 0;  // The first of the kinds of calls that share the row.
    int32_t step = -1;  // With by_step: position in the attribution's steps(); -1: in none.
    // Unsigned, so that no number in a hostile file causes signed overflow.
    uint64_t self_ns = 0;
    uint64_t total_ns = 0;
    uint64_t busy_ns = 0;
  };

  // `attribution` must be built with `kinds`. Both must outlive this.
  OpDevice(const GpuAttribution& attribution, const OpKinds& kinds, const Options& options)
      : attribution_(attribution), kinds_(kinds), options_(options) {}

  absl::Status Read(store::CaptureReader& reader);

  // One row per kind (and step) that launched work, or encloses one that did.
  std::span<const Row> rows() const { return rows_; }
  uint64_t total_ns() const { return total_ns_; }  // Including work of no range.
  uint64_t unattributed_ns() const { return unattributed_ns_; }

 private:
  struct Work {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t path;
    int32_t step;
  };
  struct Covered {  // Of one row: its last device, and the end of its busy time there.
    size_t device = std::numeric_limits<size_t>::max();
    int64_t until_ns = 0;
    const Work* last = nullptr;  // That was added: in a recursive range it would count again.
  };

  void AddBatch(const GpuBatch& batch);
  void SumDevice(size_t device, std::vector<Work>& work);
  size_t RowOf(uint32_t kind, int32_t step);

  const GpuAttribution& attribution_;
  const OpKinds& kinds_;
  const Options options_;
  absl::flat_hash_map<uint16_t, std::vector<Work>> work_;  // By device.
  absl::flat_hash_map<uint64_t, size_t> row_of_;           // (kind, step) -> position in rows_
  std::vector<Row> rows_;
  std::vector<Covered> covered_;  // By position in rows_.
  uint64_t total_ns_ = 0;
  uint64_t unattributed_ns_ = 0;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_DEVICE_H_
