#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/report/ops/flops.h"
#include "daemon/report/ops/gpu_peaks.h"

namespace profd::report {
namespace {

double Flops(std::string_view name, std::string dims, std::string_view scalars = "") {
  return FlopsOf(name, {.dims = std::move(dims), .types = "", .strides = ""}, scalars).count;
}

// Expected figures are those of torch.utils.flop_counter (torch 2.15) for the same sizes.
TEST(OpFlopsTest, MatrixProductsAreTwoOperationsPerTerm) {
  EXPECT_EQ(Flops("aten::mm", "[[16,64],[64,8]]"), 16384);
  EXPECT_EQ(Flops("aten::addmm", "[[8],[16,64],[64,8],[],[]]"), 16384);
  EXPECT_EQ(Flops("aten::bmm", "[[4,16,64],[4,64,8]]"), 65536);
  EXPECT_EQ(Flops("aten::baddbmm", "[[4,16,8],[4,16,64],[4,64,8]]"), 65536);
  EXPECT_EQ(Flops("aten::linear", "[[2,3,64],[8,64],[8]]"), 6144);
  EXPECT_EQ(Flops("aten::matmul", "[[5,1,16,64],[4,64,8]]"), 327680);
  EXPECT_EQ(Flops("aten::matmul", "[[64],[64]]"), 128);
  EXPECT_EQ(Flops("aten::mv", "[[16,64],[64]]"), 2048);
}

TEST(OpFlopsTest, ConvolutionsCountTheirOutputs) {
  // 4 x 3 x 16 x 16 by 8 x 3 x 3 x 3, stride 1, no padding: 4 x 8 x 14 x 14 outputs of 27 products.
  EXPECT_EQ(Flops("aten::conv2d", "[[4,3,16,16],[8,3,3,3],[8],[],[],[],[]]",
                  R"(["","","","[1, 1]","[0, 0]","[1, 1]","1"])"),
            338688);
  EXPECT_EQ(Flops("aten::convolution", "[[4,3,16,16],[8,3,3,3],[8]]",
                  R"(["","","","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1"])"),
            110592);
  // Groups: the weights of one output are fewer.
  EXPECT_EQ(Flops("aten::conv2d", "[[4,8,16,16],[8,1,3,3],[]]",
                  R"(["","","","[1, 1]","same","[1, 1]","8"])"),
            147456);
  // Transposed: every input meets all weights.
  EXPECT_EQ(Flops("aten::convolution", "[[4,8,7,7],[8,3,3,3],[]]",
                  R"(["","","","[2, 2]","[0, 0]","[1, 1]","True","[0, 0]","1"])"),
            84672);
  EXPECT_EQ(Flops("aten::conv1d", "[[3,16],[8,3,5],[]]", R"(["","","","[1]","[0]","[1]","1"])"),
            2880);
}

TEST(OpFlopsTest, ABackwardConvolutionCountsTheGradientsItMakes) {
  const std::string dims = "[[4,8,14,14],[4,3,16,16],[8,3,3,3]]";
  const std::string scalars = R"(["","","","[8]","[1, 1]","[0, 0]","[1, 1]","False","[0, 0]","1",)";
  EXPECT_EQ(Flops("aten::convolution_backward", dims, scalars + R"("[True, True, True]"])"),
            677376);
  EXPECT_EQ(Flops("aten::convolution_backward", dims, scalars + R"("[False, True, True]"])"),
            338688);
}

TEST(OpFlopsTest, AttentionIsTwoProductsAndFiveBackward) {
  const std::string query = "[2,8,128,64],[2,8,256,64],[2,8,256,32]";
  EXPECT_EQ(Flops("aten::scaled_dot_product_attention", "[" + query + "]"), 100663296);
  EXPECT_EQ(
      Flops("aten::_scaled_dot_product_flash_attention_backward", "[[2,8,128,32]," + query + "]"),
      268435456);
  EXPECT_EQ(
      Flops("aten::_flash_attention_forward", "[[2,128,8,64],[2,256,8,64],[2,256,8,64],[],[]]"),
      134217728);
}

TEST(OpFlopsTest, ACausalMaskHalvesAttention) {
  const std::string query = "[2,8,128,64],[2,8,128,64],[2,8,128,64]";
  const double whole = Flops("aten::scaled_dot_product_attention", "[" + query + "]",
                             R"(["","","","","0.","False","",""])");
  EXPECT_GT(whole, 0);
  EXPECT_EQ(Flops("aten::scaled_dot_product_attention", "[" + query + "]",
                  R"(["","","","","0.","True","",""])"),
            whole / 2);
  EXPECT_EQ(Flops("aten::_scaled_dot_product_flash_attention", "[" + query + "]",
                  R"(["","","","0.","True","False",""])"),
            whole / 2);
  EXPECT_EQ(Flops("aten::_efficient_attention_forward", "[[2,128,8,64],[2,128,8,64],[2,128,8,64]]",
                  R"(["","","","","","","","","0.","2"])"),
            whole / 2);
}

TEST(OpFlopsTest, WhatIsNotKnownHasNone) {
  EXPECT_EQ(Flops("aten::add", "[[16],[16]]"), 0);
  EXPECT_FALSE(MayHaveFlops("aten::add"));
  EXPECT_EQ(Flops("aten::mm", "[[16,64]]"), 0);
  EXPECT_EQ(Flops("aten::mm", "[[16,64],[63,8]]"), 0);
  EXPECT_EQ(Flops("aten::mm", "nonsense"), 0);
  EXPECT_EQ(Flops("aten::conv2d", "[[4,3,16,16],[8,3,3,3]]"), 0);  // No stride.
  EXPECT_EQ(Flops("aten::conv2d", "[[4,3,2,2],[8,3,3,3]]",
                  R"(["","","","[1, 1]","[0, 0]","[1, 1]","1"])"),
            0);
  EXPECT_EQ(Flops("aten::conv2d", "[[4,3,16,16],[8,3,3,3]]",
                  R"(["","","","[0, 0]","[9223372036854775807, 0]","[1, 1]","1"])"),
            0);
}

TEST(OpFlopsTest, TheTypeIsThatOfTheOperands) {
  const OperatorInputs inputs = {.dims = "[[8],[16,64],[64,8]]",
                                 .types = R"(["float","c10::BFloat16","c10::BFloat16"])",
                                 .strides = ""};
  EXPECT_EQ(FlopsOf("aten::addmm", inputs, "").type, NumberType::kBf16);
}

TEST(GpuPeaksTest, ModelsAreToldApart) {
  EXPECT_EQ(PeaksOf("NVIDIA H100 80GB HBM3")->half, 989.4);
  EXPECT_EQ(PeaksOf("NVIDIA H100 PCIe")->half, 756);
  EXPECT_EQ(PeaksOf("NVIDIA A100-SXM4-80GB")->tf32, 156);
  EXPECT_EQ(PeaksOf("NVIDIA GH200 480GB")->half, 989.4);
  EXPECT_EQ(PeaksOf("NVIDIA L4")->half, 121);
  EXPECT_EQ(PeaksOf("NVIDIA L40S")->half, 362);
  EXPECT_EQ(PeaksOf("Tesla V100-PCIE-16GB")->fp32, 14);
  EXPECT_FALSE(PeaksOf("NVIDIA RTX A1000").has_value());
  EXPECT_FALSE(PeaksOf("").has_value());
}

}  // namespace
}  // namespace profd::report
