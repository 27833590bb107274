// Writes traces of a made-up capture with a GPU, for readers that are not ours:
//
//   write_gpu_trace FILE...        .json, .json.gz or .pftrace
//
// Six steps of training on two threads: eight matrix products each on stream 7 from `forward` and
// from `backward`, which also reduces gradients on stream 20, a copy, and waits for both. The
// products are operators with inputs, each forward one linked to its backward one; what is
// allocated for each is freed; the first step finds a graph break.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "daemon/export/sink/byte_sink.h"
#include "daemon/export/trace_export.h"
#include "tests/export/gpu_capture.h"

namespace profd {
namespace {

constexpr int64_t kStepNs = 1'000'000;
constexpr int64_t kLayers = 8;
constexpr uint64_t kAddress = 0x7f00'0000'0000;
constexpr uint16_t kGraphBreak = 1;  // wire::NoteKind
constexpr char kAllReduce[] = "_Z35ncclDevKernel_AllReduce_Sum_f32_RING24ncclDevKernelArgsStorage";

class Program {
 public:
  Program() : main_(reader_.AddThread(4242, "main")), backward_(reader_.AddThread(4300, "bw")) {
    reader_.mutable_record().target.metadata = {{"rank", "0"}, {"world_size", "2"}};
    reader_.mutable_record().gpu = RecordedGpu();
    reader_.mutable_record().gpu.simulated = true;
    reader_.StepThread(main_);
    inputs_ = reader_.Inputs("[[64,64],[64,64]]", R"(["float","float"])", "[[64,1],[64,1]]");
    reduced_ = reader_.Inputs("[[[64,64]],[],[],[],[],[],[],[],[],[]]",
                              R"(["TensorList","Scalar","","Scalar","",)"
                              R"("ScalarList","ScalarList","Scalar","Scalar","Scalar"])");
    no_scalars_ = reader_.Scalars(R"(["",""])");
    collective_ = reader_.Scalars(R"(["","12","","0","allreduce","[]","[]","0","1","2"])");
    reader_.Note(main_, 15'000, kGraphBreak, "train.py:19 in forward", "print() was called", 0);
    for (int64_t step = 0; step < 6; ++step) AddStep(step);
  }
  store::CaptureReader& reader() { return reader_; }

 private:
  // An operator that launches a product; returns when that ends.
  int64_t Multiply(uint32_t thread, const char* name, int64_t at, FakeOperator op) {
    op.inputs = inputs_;
    op.scalars = no_scalars_;
    reader_.Operator(thread, name, at, at + 20'000, op);
    reader_.Allocate(thread, at + 2'000, kAddress, 16'384, {.device_type = 1})
        .Free(thread, at + 18'000, kAddress, 16'384, {.device_type = 1});
    reader_.ApiCall(thread, "cudaLaunchKernel", at + 5'000, at + 10'000, ++correlation_,
                    {.cbid = 211});
    const int64_t start = std::max(gpu_free_ns_ + 2'000, at + 12'000);
    gpu_free_ns_ = start + 40'000;
    reader_.Kernel(kMangledGemm, start, gpu_free_ns_, correlation_, kGemm);
    return gpu_free_ns_;
  }

  void AddStep(int64_t step) {
    const int64_t at = step * kStepNs;
    reader_.Step(step, at, kStepNs)
        .Range(main_, "forward", at + 10'000, at + 300'000)
        .Range(backward_, "backward", at + 310'000, at + 600'000);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      Multiply(main_, "aten::mm", at + 20'000 + layer * 30'000,
               {.sequence = step * kLayers + layer, .torch_thread = 1});
    }
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const int64_t op = at + 320'000 + layer * 30'000;
      const int64_t ready = Multiply(backward_, "MmBackward0", op,
                                     {.scope = 1,
                                      .sequence = step * kLayers + kLayers - 1 - layer,
                                      .forward_thread = 1,
                                      .torch_thread = 2});
      reader_.Operator(backward_, "record_param_comms", op + 11'000, op + 16'000,
                       {.inputs = reduced_, .scalars = collective_});
      reader_.ApiCall(backward_, "cudaLaunchKernelExC", op + 12'000, op + 15'000, ++correlation_,
                      {.cbid = 430});
      reader_.Kernel(kAllReduce, ready + 1'000, ready + 31'000, correlation_, {.stream = 20});
    }
    reader_.ApiCall(main_, "cudaMemcpyAsync", at + 700'000, at + 710'000, ++correlation_,
                    {.cbid = 41});
    // Alone: the last reduction has ended.
    gpu_free_ns_ = std::max(gpu_free_ns_ + 40'000, at + 715'000);
    reader_.Copy(gpu_free_ns_, gpu_free_ns_ + 8'000, correlation_,
                 {.bytes = 65'536, .copy_kind = 1, .source_kind = 2, .destination_kind = 3});
    gpu_free_ns_ += 8'000;
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + 720'000, at + 950'000, ++correlation_,
                    {.cbid = 131});
    reader_.Sync(report::kStreamSync, at + 720'100, at + 949'900, correlation_, {.stream = 7});
    reader_.ApiCall(main_, "cudaDeviceSynchronize", at + 960'000, at + 990'000, ++correlation_,
                    {.cbid = 165});
    reader_.Sync(report::kContextSync, at + 960'100, at + 989'900, correlation_);
    reader_.Overhead(65'536, at + 1'000, at + 5'000);
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
  const uint32_t backward_;
  uint32_t inputs_ = 0;
  uint32_t reduced_ = 0;
  uint32_t no_scalars_ = 0;
  uint32_t collective_ = 0;
  uint32_t correlation_ = 100;
  int64_t gpu_free_ns_ = 0;
};

absl::Status Write(const char* path) {
  const std::optional<exporter::TraceFormat> format = exporter::TraceFormatFromPath(path);
  if (!format.has_value()) return absl::InvalidArgumentError("a name without a format's suffix");
  absl::StatusOr<std::unique_ptr<exporter::ByteSink>> sink = exporter::OpenFileSink(path);
  if (!sink.ok()) return sink.status();
  Program program;
  return exporter::ExportTrace(program.reader(), *format, **sink);
}

}  // namespace
}  // namespace profd

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::Status status = profd::Write(argv[i]);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
