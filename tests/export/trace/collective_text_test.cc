#include "daemon/export/trace/collective_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/export/chrome/exported_chrome.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

std::string CollectiveMembers(std::string_view scalars, const OperatorInputs* inputs) {
  return DescribeCollective(scalars, inputs).members;
}

using ::testing::HasSubstr;
using ::testing::Not;

// As torch 2 gives them, and with `more` behind.
std::string Scalars(const std::string& name, const std::string& more = "") {
  return R"(["","12","","3",")" + name + R"(","[1, 2]","[3]","0","1","8")" + more + "]";
}

TEST(CollectiveTextTest, TheInputsOfTorchAreNamed) {
  const OperatorInputs inputs = {
      .dims = "[[[16,4],[5]],[],[],[],[],[],[],[],[],[]]",
      .types = R"(["TensorList","Scalar","","Scalar","","","","","",""])",
      .strides = ""};
  EXPECT_EQ(CollectiveMembers(Scalars("allreduce"), &inputs),
            R"("Collective name":"allreduce","Rank":3,"Group size":8,"Global rank start":0,)"
            R"("Global rank stride":1,"In split size":"[1, 2]","Out split size":"[3]",)"
            R"("In msg nelems":69)");
  EXPECT_EQ(CollectiveMembers(Scalars("allreduce", R"(,"False")"), &inputs),
            CollectiveMembers(Scalars("allreduce"), &inputs));
}

TEST(CollectiveTextTest, OlderTorchesSayLess) {
  EXPECT_EQ(CollectiveMembers(R"(["7","","1","barrier","[]","[]","2"])", nullptr),
            R"("Collective name":"barrier","Rank":1,"Group size":2,"In split size":"[]",)"
            R"("Out split size":"[]")");
}

TEST(CollectiveTextTest, WhatDoesNotLookSoIsLeftOut) {
  for (const std::string_view scalars :
       {"", "[]", R"(["allreduce"])", R"(["","1","allreduce","[]","[]"])",
        R"(["","x","allreduce","[]","[]","2"])", R"(["","1","allreduce","[]","2","2"])",
        R"(["","1","allreduce","[]","[]","0","1"])", R"(["","1","all\"reduce","[]","[]","2"])",
        R"(["","1","True","[]","[]","2"])", R"(["1","2","3","4","5","6"])"}) {
    EXPECT_EQ(CollectiveMembers(scalars, nullptr), "") << scalars;
  }
  EXPECT_EQ(CollectiveMembers(Scalars(std::string(65, 'a')), nullptr), "");
}

TEST(CollectiveTextTest, LongListsOfSplitsAreLeftOut) {
  const std::string list = "[" + std::string(300, '1') + "]";
  const std::string members =
      CollectiveMembers(R"(["","1","alltoall",")" + list + R"(","[]","0","1","2"])", nullptr);
  EXPECT_THAT(members, HasSubstr("alltoall"));
  EXPECT_THAT(members, Not(HasSubstr("split")));
  EXPECT_LE(CollectiveMembers(Scalars(std::string(64, 'a')), nullptr).size(), kMostCollectiveBytes);
}

TEST(CollectiveTextTest, ElementsAreThoseOfTheFirstInput) {
  const auto elements = [](std::string dims, std::string types) {
    const OperatorInputs inputs = {std::move(dims), std::move(types), ""};
    const std::string members = CollectiveMembers(Scalars("x"), &inputs);
    const size_t at = members.find("nelems\":");
    return at == std::string::npos ? "none" : members.substr(at + 8);
  };
  EXPECT_EQ(elements("[[2,3],[]]", R"(["float",""])"), "6");
  EXPECT_EQ(elements("[[]]", R"(["float"])"), "1");
  EXPECT_EQ(elements("[[]]", R"(["TensorList"])"), "0");
  EXPECT_EQ(elements("[[[],[2]]]", R"(["TensorList"])"), "3");
  EXPECT_EQ(elements("[[0,7]]", R"(["float"])"), "0");
  EXPECT_EQ(elements("[[], [9]]", R"(["","float"])"), "none");
  EXPECT_EQ(elements("[[]]", R"(["Scalar"])"), "none");
  EXPECT_EQ(elements("[]", R"(["float"])"), "none");
  EXPECT_EQ(elements("[[4611686018427387904,4]]", R"(["float"])"), "none");
  EXPECT_EQ(elements("[[[4611686018427387904],[4611686018427387904]]]", R"(["TensorList"])"),
            "none");
}

class CollectiveExportTest : public testing::Test {
 protected:
  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  const uint32_t other_ = reader_.AddThread(2, "other");
};

TEST_F(CollectiveExportTest, TheOperatorAndTheKernelsLaunchedInItSayWhatItIs) {
  for (const int64_t at : {0, 1000}) {
    reader_.Operator(main_, "record_param_comms", at, at + 100,
                     {.scalars = reader_.Scalars(Scalars(at == 0 ? "allreduce" : "broadcast"))});
    reader_.Range(main_, "ncclGroup", at + 10, at + 90);
  }
  reader_.ApiCall(main_, "cuLaunchKernelEx", 20, 30, 7).Kernel("ncclDevKernel_1", 50, 60, 7);
  reader_.ApiCall(main_, "cuLaunchKernelEx", 1020, 1030, 8)
      .Kernel("ncclDevKernel_2", 1050, 1060, 8);
  reader_.ApiCall(main_, "cuLaunchKernelEx", 500, 510, 9).Kernel("between", 550, 560, 9);
  reader_.ApiCall(other_, "cuLaunchKernelEx", 40, 45, 10).Kernel("elsewhere", 80, 90, 10);
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "record_param_comms")["args"]["Collective name"].text, "allreduce");
  EXPECT_EQ(Named(root, "record_param_comms")["args"]["Group size"].integer(), 8);
  EXPECT_EQ(Named(root, "ncclDevKernel_1")["args"]["Collective name"].text, "allreduce");
  EXPECT_EQ(Named(root, "ncclDevKernel_2")["args"]["Collective name"].text, "broadcast");
  EXPECT_EQ(Named(root, "between")["args"].Find("Collective name"), nullptr);
  EXPECT_EQ(Named(root, "elsewhere")["args"].Find("Collective name"), nullptr);
}

TEST_F(CollectiveExportTest, TheInnermostOneCounts) {
  reader_.Operator(main_, "record_param_comms", 0, 1000,
                   {.scalars = reader_.Scalars(Scalars("coalesced"))});
  for (const int64_t at : {100, 200, 300}) {
    reader_.Operator(main_, "record_param_comms", at, at + 50,
                     {.scalars = reader_.Scalars(Scalars("allgather"))});
  }
  reader_.ApiCall(main_, "launch", 210, 220, 1).Kernel("inner", 230, 240, 1);
  reader_.ApiCall(main_, "launch", 160, 170, 2).Kernel("outer", 260, 270, 2);
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "inner")["args"]["Collective name"].text, "allgather");
  EXPECT_EQ(Named(root, "outer")["args"]["Collective name"].text, "coalesced");
}

TEST(CollectiveTextTest, InputsThatAnImportMadeSayNothingBesideTheMembers) {
  const std::string scalars = report::ScalarsOfTold({.name = "allreduce", .group_size = "8"});
  const OperatorInputs inputs = report::InputsOfTold(64, "Float");
  const CollectiveText made = DescribeCollective(scalars, &inputs);
  EXPECT_TRUE(made.says_all);
  EXPECT_THAT(made.members, testing::HasSubstr(R"("In msg nelems":64,"dtype":"Float")"));
  EXPECT_TRUE(DescribeCollective(scalars, nullptr).says_all);

  OperatorInputs other = inputs;
  other.strides = "[[1]]";
  EXPECT_FALSE(DescribeCollective(scalars, &other).says_all);
  other = inputs;
  other.types = R"(["Float\n","","","","","","","","",""])";
  EXPECT_FALSE(DescribeCollective(scalars, &other).says_all);
  other.types = R"(["Float)";
  EXPECT_FALSE(DescribeCollective(scalars, &other).says_all);
  // Those that torch recorded have a sequence number.
  EXPECT_FALSE(DescribeCollective(Scalars("allreduce"), &inputs).says_all);
}

}  // namespace
}  // namespace profd::exporter
