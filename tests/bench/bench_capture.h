// A large stored capture for benchmarks, and the clocks they share.
#ifndef PROFD_TESTS_BENCH_BENCH_CAPTURE_H_
#define PROFD_TESTS_BENCH_BENCH_CAPTURE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::bench {

[[noreturn]] void Die(const absl::Status& status);
inline void Must(const absl::Status& status) {
  if (!status.ok()) Die(status);
}
template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) Die(result.status());
  return *std::move(result);
}

struct BenchCapture {
  std::filesystem::path path;
  int64_t ranges = 0;
  int64_t memory_events = 0;
  int64_t steps = 0;
  int64_t gpu_rows = 0;
};

// Writes a capture of at least `ranges` ranges on two threads into `folder`: training steps
// of about 3,000 ranges whose times vary by 10 %, as the store's own benchmark has them; one
// thread marks the steps. With `memory`, an allocation or free for every eighth range.
BenchCapture WriteBenchCapture(const std::filesystem::path& folder, int64_t ranges, bool memory);

// The same steps on one thread, until at least `gpu_rows` kernels and copies: each of the
// innermost ranges makes an API call that launches one, on one of two streams.
BenchCapture WriteGpuBenchCapture(const std::filesystem::path& folder, int64_t gpu_rows);

// As WriteBenchCapture; every range is an operator with inputs, the first thread's of the
// forward, the second's of the backward, and every third of them has a sequence number. With
// `memory`, each uses two of the blocks that its step allocates.
BenchCapture WriteOperatorBenchCapture(const std::filesystem::path& folder, int64_t ranges,
                                       bool memory = false);

std::unique_ptr<store::CaptureReader> OpenCapture(const BenchCapture& capture);

// As after a reboot: the next reading comes from the disk.
void DropPageCache(const std::filesystem::path& path);

struct Timing {
  double wall_s = 1e30;
  double cpu_s = 1e30;  // Of this thread; on a shared machine it says more.
};
// The least of `rounds` runs, each after `prepare`.
Timing Best(int rounds, const std::function<void()>& prepare, const std::function<void()>& run);
Timing Best(int rounds, const std::function<void()>& run);

void Print(const char* what, double value, const char* unit);

}  // namespace profd::bench

#endif  // PROFD_TESTS_BENCH_BENCH_CAPTURE_H_
