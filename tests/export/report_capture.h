// A capture with something for every part of the HTML report: twenty steps of training on two GPUs,
// collectives, copies, waits, memory by category, a graph break, modules, and names that would
// break a page which took them for markup.
#ifndef PROFD_TESTS_EXPORT_REPORT_CAPTURE_H_
#define PROFD_TESTS_EXPORT_REPORT_CAPTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/export/gpu_capture.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd {

inline constexpr int64_t kReportSteps = 20;
inline constexpr int64_t kReportFirstStep = 100;
inline constexpr int64_t kReportStepNs = 10'000'000;
// As an operator and as a kernel.
inline constexpr char kMarkupName[] = "</script><img src=x onerror=document.title='owned'>";

class ReportCapture {
 public:
  ReportCapture() : main_(reader_.AddThread(4242, "main")) {
    CaptureRecord& record = reader_.mutable_record();
    record.id = "01J00000000000000000000000";
    record.node = "gpu001";
    record.spec.steps = kReportSteps;
    record.state = CaptureState::kComplete;
    record.ended_by = EndedBy::kSteps;
    record.start_unix_ns = 1'790'000'000'000'000'000;
    record.covered_steps = kReportSteps;
    record.covered_ns = kReportSteps * kReportStepNs;
    record.windows = {{.end_ns = record.covered_ns,
                       .first_step = kReportFirstStep,
                       .end_step = kReportFirstStep + kReportSteps}};
    record.target.pid = 4242;
    record.target.command = "python train.py <b>";
    record.target.metadata = {{"rank", "3"}};
    record.gpu = RecordedGpu();
    record.gpu.simulated = true;
    record.gpu.devices.push_back(H200());
    record.gpu.devices.back().number = 1;
    reader_.StepThread(main_);
    inputs_ = reader_.Inputs("[[64,64],[64,64]]", R"(["float","float"])");
    reader_.Module(0x10, 0x10, "", "Net")
        .Module(0x20, 0x10, "encoder", "Encoder")
        .Module(0x30, 0x10, "head", "Linear");
    train_ = reader_.Stack(0, "train.py", 12, "train");
    const uint32_t net = reader_.ModuleStack(train_, 0x10, "Net");
    encoder_ = reader_.ModuleStack(net, 0x20, "Encoder");
    head_ = reader_.ModuleStack(net, 0x30, "Linear");
    reader_.Allocate(main_, 1'000, kParameters, 40 << 20, Memory(1, 40 << 20));
    for (int64_t step = 0; step < kReportSteps; ++step) AddStep(step);
  }
  FakeCaptureReader& reader() { return reader_; }

 private:
  static constexpr uint64_t kParameters = 0x7f00'0000'0000;
  static constexpr int64_t kLayers = 12;

  FakeMemory Memory(uint8_t category, int64_t change) {
    allocated_ += change;
    return {.total_allocated_bytes = allocated_,
            .total_reserved_bytes = 256 << 20,
            .device_type = 1,
            .category = category};
  }

  void Launch(const std::string& op, const char* kernel, int64_t at, const FakeGpu& gpu,
              int64_t duration_ns, uint32_t stack) {
    reader_.Operator(main_, op, at, at + 60'000, {.inputs = inputs_, .stack = stack});
    reader_.ApiCall(main_, "cudaLaunchKernel", at + 10'000, at + 20'000, ++correlation_,
                    {.cbid = 211});
    int64_t& free_ns = gpu_free_ns_[gpu.device];
    const int64_t start = std::max(free_ns + 1'000, at + 25'000);
    free_ns = start + duration_ns;
    reader_.Kernel(kernel, start, free_ns, correlation_, gpu);
  }

  void AddStep(int64_t step) {
    const int64_t at = step * kReportStepNs;
    // The eighth step waits for its data.
    const int64_t late = step == 7 ? 3'000'000 : 300'000;
    FakeGpu second = kGemm;
    second.device = 1;
    reader_.Step(kReportFirstStep + step, at, kReportStepNs)
        .Range(main_, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 1'000,
               at + late);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const int64_t begin = at + late + layer * 200'000;
      const std::string name = layer == 5 ? kMarkupName : "aten::op_" + std::to_string(layer);
      const uint32_t stack = layer < kLayers / 2 ? encoder_ : head_;
      Launch(name, layer == 5 ? kMarkupName : kMangledGemm, begin, kGemm, 350'000 + layer * 10'000,
             stack);
      Launch("aten::mirrored", "mirror", begin + 100'000, second, 40'000, stack);
      reader_.Allocate(main_, begin + 5'000, Block(layer), 8 << 20, Memory(4, 8 << 20));
    }
    Launch("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING", at + 6'000'000, kGemm,
           800'000, train_);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      reader_.Free(main_, at + 6'200'000 + layer * 50'000, Block(layer), 8 << 20,
                   Memory(4, -(8 << 20)));
    }
    reader_.Operator(main_, "aten::item", at + 9'000'000, at + 9'500'000, {});
    reader_.ApiCall(main_, "cudaStreamSynchronize", at + 9'100'000, at + 9'400'000, ++correlation_,
                    {.cbid = 131});
    reader_.Sync(report::kStreamSync, at + 9'100'100, at + 9'399'900, correlation_, {.stream = 7});
    reader_.ApiCall(main_, "cudaMemcpyAsync", at + 9'600'000, at + 9'610'000, ++correlation_,
                    {.cbid = 41});
    reader_.Copy(at + 9'620'000, at + 9'700'000, correlation_,
                 {.bytes = 1 << 20, .copy_kind = 1, .source_kind = 1, .destination_kind = 3});
    gpu_free_ns_[0] = at + 9'700'000;
  }

  static uint64_t Block(int64_t layer) {
    return kParameters + (uint64_t{64} << 20) + static_cast<uint64_t>(layer) * (uint64_t{8} << 20);
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
  uint32_t inputs_ = 0;
  uint32_t train_ = 0;
  uint32_t encoder_ = 0;
  uint32_t head_ = 0;
  uint32_t correlation_ = 0;
  int64_t allocated_ = 0;
  int64_t gpu_free_ns_[2] = {0, 0};
};

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_REPORT_CAPTURE_H_
