// TorchRows collects the rows of torch's operator table, event by event. A name has separate rows
// for the CPU and the GPU.
//
// Threads: one.
// Memory:  rows and distinct names, and 48 bytes per event.
#ifndef PROFD_DAEMON_REPORT_OPS_TORCH_ROWS_H_
#define PROFD_DAEMON_REPORT_OPS_TORCH_ROWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/report/ops/torch_table.h"
#include "daemon/report/ops/torch_tree.h"

namespace profd::report {

class TorchRows {
 public:
  explicit TorchRows(const TorchClock& clock) : clock_(clock) {}

  // The row of an event that has none.
  static constexpr uint32_t kNoRow = UINT32_MAX;
  enum class Kind : uint8_t { kCpu, kDevice, kDeviceAnnotation };

  // Returns the same number for equal texts.
  uint32_t NameOf(std::string_view text);
  // `name` comes from NameOf(); `shapes` is any number that identifies the shapes.
  uint32_t RowOf(uint32_t name, Kind kind, uint32_t shapes = 0);

  void Add(uint32_t row, int64_t start_ns, int64_t end_ns, const TorchMeasures& measures);
  // Adds a GPU event: all of its time is self time.
  void AddDevice(uint32_t row, int64_t start_ns, int64_t end_ns);

  // Returns the rows in the order of their first event (the earliest; if equal, the longest).
  // `shapes_texts` is indexed by the numbers passed to RowOf(). Rows without events are left out.
  std::vector<TorchRow> Take(std::span<const std::string> shapes_texts);

 private:
  struct Row {
    uint32_t name;
    uint32_t shapes;
    Kind kind;
    int64_t first_start_ns = 0;
    int64_t first_end_ns = 0;
    bool has_parent = false;  // Of the first event.
    // Unsigned, so that no number in a hostile file causes signed overflow.
    uint64_t calls = 0;
    uint64_t self_cpu_ns = 0;
    uint64_t cpu_total_ns = 0;
    uint64_t self_device_ns = 0;
    uint64_t device_total_ns = 0;
    double self_cpu_us = 0;
    double cpu_total_us = 0;
    double self_device_us = 0;
    double device_total_us = 0;
    TorchMemory memory;
    TorchMemory self_memory;
  };
  // Times that are summed in torch's order, across threads and streams.
  struct Times {
    int64_t start_ns;
    int64_t end_ns;
    double self_cpu_us;
    double self_device_us;
    double device_total_us;
    uint32_t row;
  };
  void SumUp();
  TorchRow Shown(const Row& row, std::span<const std::string> shapes_texts) const;

  absl::flat_hash_map<std::string, uint32_t> names_;
  std::vector<std::string> texts_;  // By name.
  absl::flat_hash_map<std::tuple<uint32_t, Kind, uint32_t>, uint32_t> numbers_;
  std::vector<Row> rows_;
  std::vector<Times> times_;
  TorchClock clock_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_ROWS_H_
