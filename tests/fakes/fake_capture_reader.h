// FakeCaptureReader is a capture in memory, made line by line:
//
//   FakeCaptureReader reader;
//   const uint32_t main = reader.AddThread(100, "main");
//   reader.Range(main, "forward", 0, 50).Range(main, "matmul", 10, 30).Step(0, 0, 100);
//
// Ranges may be added in any order: they are given in order of their end, with depths from
// how they nest; what is known of operators comes in that order, too. GPU rows, tensor uses,
// notes and blocks are given in the order that they were added. Columns that were
// not asked for are empty, as the real reader's are.
//
// Threads: one.
#ifndef PROFD_TESTS_FAKES_FAKE_CAPTURE_READER_H_
#define PROFD_TESTS_FAKES_FAKE_CAPTURE_READER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/capture/ports.h"
#include "daemon/store/file/capture_reader.h"

namespace profd {

struct FakeRange {
  std::optional<uint16_t> depth;  // nullopt: from how the ranges nest
  uint8_t category = 0;
  uint8_t flags = 0;
};

struct FakeMemory {
  bool is_free = false;
  int64_t total_allocated_bytes = -1;
  int64_t total_reserved_bytes = -1;
  uint8_t device_type = 0;
  int16_t device_index = 0;
  uint8_t category = 0;
};

struct FakeApiCall {
  uint32_t cbid = 0;
  int32_t result = 0;
  bool is_driver = false;
};

// What a GPU row has beside its times, name and correlation.
struct FakeGpu {
  uint16_t device = 0;
  uint32_t context = 1;
  uint32_t stream = 7;
  uint8_t flags = 0;
  uint32_t graph_id = 0;
  uint64_t graph_node_id = 0;
  // Copies and memsets.
  uint64_t bytes = 0;
  uint8_t copy_kind = 0;
  uint8_t source_kind = 0;
  uint8_t destination_kind = 0;
  uint16_t source_device = kNoGpuDevice;
  uint16_t destination_device = kNoGpuDevice;
  // Kernels.
  int64_t queued_ns = kNoGpuTime;
  int64_t submitted_ns = kNoGpuTime;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::array<uint16_t, 3> cluster = {};
  uint16_t registers_per_thread = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
};

struct FakeSync {
  uint16_t device = 0;
  uint32_t context = 1;
  uint32_t stream = UINT32_MAX;
  uint32_t event_id = 0;
};

// What an operator has beside its range.
struct FakeOperator {
  uint8_t scope = 0;
  int64_t sequence = -1;
  uint64_t forward_thread = 0;
  uint32_t torch_thread = 0;
  uint32_t inputs = 0;   // Of FakeCaptureReader::Inputs.
  uint32_t scalars = 0;  // Of FakeCaptureReader::Scalars.
  uint32_t stack = 0;    // Of FakeCaptureReader::Stack.
};

struct FakeTensorUse {
  uint16_t depth = 0;  // Of the operator.
  uint8_t scope = 0;
  uint8_t input = 0;
};

struct FakeBlock {
  std::string_view name;
  uint8_t category = 0;
  uint8_t device_type = 0;
  int16_t device_index = 0;
};

class FakeCaptureReader : public store::CaptureReader {
 public:
  FakeCaptureReader();

  // ---- arranging ----
  CaptureRecord& mutable_record() { return record_; }
  uint32_t AddThread(int64_t os_thread, std::string_view name);
  uint32_t Name(std::string_view text);        // The same text gives the same index.
  uint32_t SecondName(std::string_view text);  // A new index, whatever the text.
  FakeCaptureReader& Range(uint32_t thread, std::string_view name, int64_t start_ns, int64_t end_ns,
                           const FakeRange& range = {});
  FakeCaptureReader& RangeById(uint32_t thread, uint32_t name, int64_t start_ns, int64_t end_ns,
                               const FakeRange& range = {});
  FakeCaptureReader& Instant(uint32_t thread, std::string_view name, int64_t time_ns);
  FakeCaptureReader& Counter(uint32_t thread, std::string_view name, int64_t time_ns, double value);
  FakeCaptureReader& Allocate(uint32_t thread, int64_t time_ns, uint64_t address, int64_t bytes,
                              FakeMemory memory = {});
  FakeCaptureReader& Free(uint32_t thread, int64_t time_ns, uint64_t address, int64_t bytes,
                          FakeMemory memory = {});
  // ---- GPU ----
  FakeCaptureReader& ApiCall(uint32_t thread, std::string_view name, int64_t start_ns,
                             int64_t end_ns, uint32_t correlation, const FakeApiCall& call = {});
  FakeCaptureReader& Kernel(std::string_view name, int64_t start_ns, int64_t end_ns,
                            uint32_t correlation, const FakeGpu& gpu = {});
  FakeCaptureReader& Copy(int64_t start_ns, int64_t end_ns, uint32_t correlation,
                          const FakeGpu& gpu = {});
  FakeCaptureReader& Memset(int64_t start_ns, int64_t end_ns, uint32_t correlation,
                            const FakeGpu& gpu = {});
  FakeCaptureReader& GraphLaunch(int64_t start_ns, int64_t end_ns, uint32_t correlation,
                                 const FakeGpu& gpu = {});
  // Work without a name of its own: of any kind but a kernel.
  FakeCaptureReader& GpuWork(GpuRowKind kind, int64_t start_ns, int64_t end_ns,
                             uint32_t correlation, const FakeGpu& gpu = {}) {
    return AddGpu(kind, 0, start_ns, end_ns, correlation, gpu);
  }
  // `kind` as CUPTI numbers them.
  FakeCaptureReader& Sync(uint32_t kind, int64_t start_ns, int64_t end_ns, uint32_t correlation,
                          const FakeSync& sync = {});
  FakeCaptureReader& Overhead(uint32_t kind, int64_t start_ns, int64_t end_ns,
                              uint32_t os_thread = 0, uint32_t correlation = 0);
  FakeCaptureReader& CudaEvent(uint32_t event_id, uint32_t correlation, uint32_t context = 1,
                               uint32_t stream = 7);

  // ---- frameworks ----
  uint32_t Inputs(std::string_view dims, std::string_view types, std::string_view strides = "");
  uint32_t Scalars(std::string_view json);
  // A range of an operator, and what is known of it.
  FakeCaptureReader& Operator(uint32_t thread, std::string_view name, int64_t start_ns,
                              int64_t end_ns, const FakeOperator& op = {});
  // An operator whose range is not in the capture, behind all others.
  FakeCaptureReader& LooseOperator(uint32_t thread, const OperatorRow& row);
  // The operator that began at `time_ns` had a tensor at `address`.
  FakeCaptureReader& TensorUse(uint32_t thread, int64_t time_ns, uint64_t address,
                               const FakeTensorUse& use = {});
  // `kind`: wire::NoteKind, or any other. An empty text is none.
  FakeCaptureReader& Note(uint32_t thread, int64_t time_ns, uint16_t kind, std::string_view subject,
                          std::string_view text, int64_t value);
  // A stack whose innermost frame is FILE(LINE): FUNCTION; returns its number. `caller`: of
  // another.
  uint32_t Stack(uint32_t caller, std::string_view file, uint32_t line, std::string_view function);
  uint32_t Stack(const StackRow& row) { return PutStack(row); }
  // The same, calling the module at that address.
  uint32_t ModuleStack(uint32_t caller, uint64_t module, std::string_view class_name);
  // An empty path is none: the outermost module.
  FakeCaptureReader& Module(uint64_t address, uint64_t root, std::string_view path,
                            std::string_view class_name);
  FakeCaptureReader& Argument(const ArgumentRow& row);
  FakeCaptureReader& Block(uint64_t address, int64_t bytes, const FakeBlock& block = {});

  FakeCaptureReader& Step(int64_t index, int64_t start_ns, int64_t duration_ns);
  FakeCaptureReader& StepThread(uint32_t thread);
  // Rows per batch; batches of different threads take turns.
  FakeCaptureReader& BatchRows(size_t rows);
  // Every reading of events fails after this many batches.
  FakeCaptureReader& FailAfter(size_t batches, absl::Status status);

  // ---- asserting ----
  // The columns of each reading of ranges so far.
  const std::vector<uint32_t>& range_readings() const { return range_readings_; }
  // The columns of each reading of GPU rows so far.
  const std::vector<uint32_t>& gpu_readings() const { return gpu_readings_; }

  // ---- CaptureReader ----
  const CaptureRecord& record() const override { return record_; }
  std::span<const std::string> names() const override { return names_; }
  std::span<const store::ReaderThread> threads() const override { return threads_; }
  std::span<const StepRecord> steps() const override { return steps_; }
  int64_t step_thread() override { return step_thread_; }
  std::span<const OperatorInputs> inputs() const override { return inputs_; }
  std::span<const std::string> scalars() const override { return scalars_; }
  int64_t RowsOf(RowKind kind) const override;
  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override;

 private:
  // A range before its depth is known.
  struct PendingRange {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t name;
    FakeRange range;
    uint16_t depth;
    size_t order;
    std::optional<FakeOperator> op;
  };
  // By thread; kinds without threads have one.
  template <typename Row>
  struct Rows {
    std::vector<std::vector<Row>> threads = std::vector<std::vector<Row>>(1);
  };

  static void PutInEndOrder(std::vector<PendingRange>& ranges);
  // Makes the rows of ranges and operators from the pending ranges.
  void MakeRanges();
  uint32_t PutStack(const StackRow& row);
  template <typename Row>
  void Put(uint32_t thread, const Row& row);
  template <typename Row>
  absl::Status ScanRows(uint32_t columns, const store::TimeFilter& filter,
                        absl::FunctionRef<absl::Status(const EventBatch&)> fn);
  FakeCaptureReader& AddGpu(GpuRowKind kind, uint32_t name, int64_t start_ns, int64_t end_ns,
                            uint32_t correlation, const FakeGpu& gpu);

  CaptureRecord record_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, uint32_t> name_ids_;
  std::vector<store::ReaderThread> threads_;
  std::vector<std::vector<PendingRange>> ranges_;
  std::vector<std::vector<OperatorRow>> loose_operators_;
  EventTypes::Tuple<Rows> rows_;
  std::vector<OperatorInputs> inputs_ = std::vector<OperatorInputs>(1);
  std::vector<std::string> scalars_ = std::vector<std::string>(1);
  std::vector<StepRecord> steps_;
  int64_t step_thread_ = -1;
  size_t batch_rows_ = 65536;
  std::optional<std::pair<size_t, absl::Status>> fail_after_;
  std::vector<uint32_t> range_readings_;
  std::vector<uint32_t> gpu_readings_;
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_CAPTURE_READER_H_
