// Work for the software GPU, and what happened: what its parts hand to each other.
#ifndef PROFD_TESTS_CUPTI_STANDIN_WORK_H_
#define PROFD_TESTS_CUPTI_STANDIN_WORK_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "tests/cupti_standin/names.h"
#include "tests/cupti_standin/records.h"
#include "tests/cupti_standin/sgpu.h"

namespace sgpu {

// Work as it was asked for. The nodes of a graph are such.
struct Work {
  Kind kind = kKernel;
  const Function* function = nullptr;  // Of a kernel.
  sgpu_dim3 grid{};
  sgpu_dim3 block{};
  uint64_t duration_ns = 0;
  uint64_t bytes = 0;
  uint32_t value = 0;       // That a memset writes.
  uint32_t operations = 0;  // Of a batch of decompressions.
  uint8_t copy_kind = 0;
  uint8_t source_kind = 0;  // CUpti_ActivityMemoryKind.
  uint8_t destination_kind = 0;
  bool is_async = false;
  uint32_t source_device = 0;  // Of a copy between devices.
  uint32_t destination_device = 0;
};

// Nothing of sgpu_truth() belongs to it.
constexpr uint32_t kNoTruth = 0xffffffff;

// Work that a device was given, and when it runs.
struct Op {
  Work work;
  uint32_t correlation = 0;
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;  // The handle.
  uint32_t stream_id = 0;
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  uint64_t submitted = 0;
  uint64_t start = 0;  // On the device, by Clock::Now().
  uint64_t end = 0;
  uint64_t recorded_start = 0;  // The same as the device's clock has it.
  uint64_t recorded_end = 0;
  uint32_t truth = kNoTruth;
  bool is_untimed = false;
  bool has_latency_timestamps = false;
  struct Buffer* reserved_in =
      nullptr;  // Where its record goes, if that was settled at its launch.
  size_t reserved_at = 0;
};

// All that happened, exactly, for sgpu_truth().
//
// Threads: any.
class Truth {
 public:
  // The index of the record, or kNoTruth while the setting `truth` is off.
  uint32_t Add(const sgpu_truth_rec& record);
  void SetFate(uint32_t index, sgpu_fate fate);
  // As a record says it.
  void SetTimes(uint32_t index, uint64_t start_ns, uint64_t end_ns);
  uint32_t Copy(sgpu_truth_rec* out, uint32_t max);
  void Clear();

 private:
  std::mutex mu_;
  std::deque<sgpu_truth_rec> records_;  // Guarded by mu_.
  uint32_t cleared_ = 0;                // Guarded by mu_; the index of the first.
};

Truth& truth();

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_WORK_H_
