// Traces of devices whose work profd does not read.
#include "daemon/import/unread_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/capture/quality.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/time/time_report.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

class UnreadDevicesTest : public ImportTest {
 protected:
  void Add(const std::string& event) { StrAppend(&events_, events_.empty() ? "" : ",\n", event); }
  std::unique_ptr<store::CaptureReader> ReadAll() { return ReadEvents(events_); }

 private:
  std::string events_;
};

// As torch_npu writes it: work of the device without categories, in a process of its own.
TEST_F(UnreadDevicesTest, WorkOfADeviceThatIsNotReadIsNamedAndNothingIsConcluded) {
  for (int i = 0; i < 2; ++i) {
    Add(StrCat(R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)", i,
               R"(","pid":7,"tid":9,"ts":)", 2000 * i, R"(,"dur":2000})"));
  }
  for (int i = 0; i < 6; ++i) {
    Add(StrCat(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":)", i * 600,
               R"(,"dur":40,"args":{}})"));
    Add(StrCat(R"({"ph":"X","name":"MatMulV2","pid":500,"tid":3,"ts":)", i * 600 + 60,
               R"(,"dur":400,"args":{}})"));
    Add(StrCat(R"({"ph":"X","name":"AscendCL@aclnnMatmul","pid":400,"tid":9,"ts":)", i * 600 + 5,
               R"(,"dur":8,"args":{}})"));
  }
  Add(R"({"ph":"M","name":"process_name","pid":400,"tid":0,"args":{"name":"CANN"}})");
  Add(R"({"ph":"M","name":"process_name","pid":500,"tid":0,"args":{"name":"Ascend Hardware"}})");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("device:Ascend Hardware", 6), Pair("ph:X without cat", 6)));
  const auto report = report::SummarizeFindings(*reader, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->bound, report::BoundBy::kUnknown);
  EXPECT_THAT(report->verdict, HasSubstr("6 events of Ascend Hardware are not read: what the GPU "
                                         "did is unknown"));
  EXPECT_THAT(report->verdict, Not(HasSubstr("No GPU work")));
  const auto kernels = report::SummarizeKernels(*reader, {});
  ASSERT_THAT(kernels, IsOk());
  EXPECT_THAT(report::ToReport(*kernels).notes,
              Contains(HasSubstr("6 events of Ascend Hardware are not read")));
  const auto idle = report::SummarizeIdle(*reader);
  ASSERT_THAT(idle, IsOk());
  EXPECT_THAT(report::ToReport(*idle).notes, Contains(HasSubstr("is unknown")));
  const auto time = report::SummarizeTime(*reader, {});
  ASSERT_THAT(time, IsOk());
  EXPECT_FALSE(time->has_device);
  EXPECT_EQ(time->unread_devices, "6 events of Ascend Hardware are not read");
}

TEST_F(UnreadDevicesTest, OfSeveralDevicesAllAreCountedAndOneIsNamed) {
  Add(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":0,"dur":40,"args":{}})");
  for (int device = 0; device < 3; ++device) {
    Add(StrCat(R"({"ph":"M","name":"process_name","pid":)", 500 + device,
               R"(,"tid":0,"args":{"name":"/device:TPU:)", device, R"("}})"));
    for (int i = 0; i <= device; ++i) {
      Add(StrCat(R"({"ph":"X","name":"fusion","pid":)", 500 + device, R"(,"tid":1,"ts":)", i * 50,
                 R"(,"dur":40})"));
    }
  }
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(UnreadDevicesClause(reader->record()),
            "6 events of /device:TPU:2 and 2 other devices are not read");
}

// A row that another tool added to a trace of CUDA.
TEST_F(UnreadDevicesTest, GpuWorkThatIsReadIsKnownNextToADeviceThatIsNot) {
  for (int i = 0; i < 20; ++i) {
    Add(StrCat(R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":9,"ts":)",
               i * 100, R"(,"dur":8,"args":{"correlation":)", i + 1, "}}"));
    Add(StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", i * 100 + 10,
               R"(,"dur":95,"args":{"device":0,"stream":7,"correlation":)", i + 1, "}}"));
  }
  Add(R"({"ph":"X","name":"power","pid":500,"tid":1,"ts":50,"dur":40})");
  Add(R"({"ph":"M","name":"process_name","pid":500,"tid":0,"args":{"name":"GPU metrics"}})");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  const auto report = report::SummarizeFindings(*reader, {});
  ASSERT_THAT(report, IsOk());
  EXPECT_NE(report->bound, report::BoundBy::kUnknown);
  EXPECT_THAT(report->verdict, Not(HasSubstr("what the GPU did is unknown")));
}

TEST_F(UnreadDevicesTest, AProgramThatIsCalledLikeADeviceIsNone) {
  Add(R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":9,"ts":0,"dur":40,"args":{}})");
  Add(R"({"ph":"X","name":"wait","pid":7,"tid":9,"ts":50,"dur":40})");
  Add(R"({"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"train_GPU.py"}})");
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              UnorderedElementsAre(Pair("ph:X without cat", 1)));
}

TEST(NamesOfDevicesTest, AreTold) {
  for (const char* name : {"Ascend Hardware", "/device:TPU:0", "/device:GPU:0 (pid 1)", "NPU 3",
                           "HPU", "GPU 0 (stream)"}) {
    EXPECT_TRUE(IsNameOfDevice(name)) << name;
  }
  for (const char* name :
       {"", "python", "CANN", "/device:CPU:0", "/host:CPU", "NPUserver", "Overlap Analysis"}) {
    EXPECT_FALSE(IsNameOfDevice(name)) << name;
  }
}

}  // namespace
}  // namespace profd::importer
