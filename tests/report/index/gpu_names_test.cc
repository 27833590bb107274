#include "daemon/report/index/gpu_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::report {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(GpuNamesTest, CopiesReadAsInOtherToolsTraces) {
  EXPECT_EQ(CopyName(1, 1, 3), "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(CopyName(2, 3, 2), "Memcpy DtoH (Device -> Pinned)");
  EXPECT_EQ(CopyName(8, 3, 3), "Memcpy DtoD (Device -> Device)");
  EXPECT_EQ(CopyName(10, 3, 7), "Memcpy PtoP (Device -> Managed Static)");
  EXPECT_EQ(MemsetName(3), "Memset (Device)");
}

TEST(GpuNamesTest, KindsThatAreNotKnownAreNumbers) {
  EXPECT_EQ(CopyName(11, 8, 255), "Memcpy Kind 11 (Kind 8 -> Kind 255)");
  EXPECT_EQ(MemsetName(99), "Memset (Kind 99)");
  EXPECT_EQ(SyncName(5), "Sync 5");
  EXPECT_EQ(OverheadName(2), "Overhead 2");
  EXPECT_EQ(OverheadName(0x90000), "Overhead 589824");
  EXPECT_EQ(OverheadName(0x10001), "Overhead 65537");
}

TEST(GpuNamesTest, SyncsAndOverheadsHaveTheirWords) {
  EXPECT_EQ(SyncName(kEventSync), "Event Sync");
  EXPECT_EQ(SyncName(kStreamWaitEvent), "Stream Wait Event");
  EXPECT_EQ(SyncName(kStreamSync), "Stream Sync");
  EXPECT_EQ(SyncName(kContextSync), "Context Sync");
  EXPECT_EQ(OverheadName(1), "Driver Compiler");
  EXPECT_EQ(OverheadName(1 << 16), "Buffer Flush");
  EXPECT_EQ(OverheadName(8 << 16), "UVM Activity Init");
}

std::string Demangled(std::string_view name) { return Demangler().Demangle(name); }

// "_Z1f" of pairs within pairs: each level holds the one before it twice.
std::string Doubled(int levels) {
  const auto sequence = [](int number) {
    constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string text;
    for (; number > 0; number /= 36) text.insert(text.begin(), kDigits[number % 36]);
    return text.empty() ? "0" : text;
  };
  std::string name = "_Z1fSt4pairIiiE";
  for (int i = 1; i < levels; ++i) {
    const std::string last = StrCat("S", sequence(i - 1), "_");
    StrAppend(&name, "S_I", last, last, "E");
  }
  return name;
}

TEST(DemanglerTest, SymbolsAreReadable) {
  EXPECT_EQ(Demangled("_Z3addPfi"), "add(float*, int)");
  EXPECT_EQ(Demangled("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
                      "St5arrayIPcLm1EEEEviT0_T1_"),
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul>)");
}

TEST(DemanglerTest, WhatIsNoSymbolStaysAsItIs) {
  EXPECT_EQ(Demangled("ampere_sgemm_128x64_tn"), "ampere_sgemm_128x64_tn");
  EXPECT_EQ(Demangled("_Z"), "_Z");
  EXPECT_EQ(Demangled("_Z999add"), "_Z999add");
  EXPECT_EQ(Demangled(""), "");
  // Not the type that a plain "f" would be to a demangler.
  EXPECT_EQ(Demangled("f"), "f");
  const std::string with_zero("_Z3add\0Pfi", 10);
  EXPECT_EQ(Demangled(with_zero), with_zero);
}

TEST(DemanglerTest, ANameThatWouldFillTheMemoryStaysMangled) {
  const std::string bomb = Doubled(200);  // Its text would have 2^200 parts.
  EXPECT_EQ(Demangled(bomb), bomb);
}

TEST(DemanglerTest, ManyLongNamesAreNotAllDemangled) {
  Demangler demangler;
  const std::string large = Doubled(7);
  ASSERT_NE(demangler.Demangle(large), large);
  int calls = 1;
  while (demangler.Demangle(large) != large) ASSERT_LT(++calls, 100'000);
  EXPECT_EQ(demangler.Demangle("_Z3addPfi"), "_Z3addPfi") << "after " << calls << " names";
}

TEST(DemanglerTest, DeepNestingStaysMangledOrReadable) {
  const std::string deep = "_Z1f" + std::string(4000, 'P') + "i";
  EXPECT_THAT(Demangled(deep), SizeIs(testing::Le(Demangler::kMaxDisplayBytes)));
}

TEST(DemanglerTest, LongNamesAreCutBetweenCharacters) {
  std::string long_name;
  while (long_name.size() < 2 * Demangler::kMaxDisplayBytes) long_name += "ä";
  const std::string shown = Demangled("x" + long_name);
  EXPECT_LE(shown.size(), Demangler::kMaxDisplayBytes);
  EXPECT_THAT(shown, EndsWith("..."));
  EXPECT_TRUE(IsValidUtf8(shown));
  EXPECT_THAT(Demangled(std::string(2 * Demangler::kMaxDisplayBytes, '\x80')), EndsWith("..."));
}

bool IsCommunicationKernel(std::string_view name) {
  return CommunicationSignOf(name) != CommunicationSign::kNone;
}

TEST(KernelFamilyTest, WhatALibraryNamesIsCertain) {
  EXPECT_EQ(CommunicationSignOf("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
            CommunicationSign::kLibrary);
  EXPECT_EQ(CommunicationSignOf("rccl_all_gather_kernel"), CommunicationSign::kWords);
}

TEST(KernelFamilyTest, ProductsAreKnownByTheirLibraries) {
  for (const char* name :
       {"nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "ampere_sgemm_128x64_tn",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816>(Params)",
        "void cublasLt::splitKreduce_kernel<32>(int)", "Cijk_Ailk_Bljk_BBS_BH_MT128x128"}) {
    EXPECT_TRUE(IsProductKernel(name)) << name;
  }
  EXPECT_FALSE(IsProductKernel("void at::native::elementwise_kernel<128, 4>(int)"));
  EXPECT_FALSE(IsProductKernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
}

TEST(KernelFamilyTest, CommunicationIsNccl) {
  EXPECT_TRUE(IsCommunicationKernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"));
  EXPECT_TRUE(IsCommunicationKernel("ncclKernel_AllGather_RING_LL_Sum_int8_t"));
  EXPECT_TRUE(IsCommunicationKernel("_Z38ncclDevKernel_AllReduce_Sum_f32_RING_LLP11ncclDevComm"));
  EXPECT_TRUE(IsCommunicationKernel("void ncclKernel<1, 2>()"));
  for (const char* name :
       {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int, int)",
        "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataEi",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int*)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel<float, 4, 8>(float*)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8>(Params)",
        "void tensorrt_llm::allreduce_fusion_kernel_oneshot_lamport<1>(int)",
        "void deep_ep::intranode::dispatch<8, 768>(int4*, float*)",
        "void deep_ep::internode_ll::combine<3, 7168>(void*)",
        "void quickreduce::allreduce_prototype_twoshot<T>(int)",
        "nvshmemi_barrier_all",
        "mscclKernel_Sum_half_LL",
        "rccl_all_gather_kernel",
        "all2all_exchange_kernel",
        "triton_all_to_all_vdev",
        "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage)",
        "void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**, int)",
        "void pplx::a2a::dispatchSendKernel",
        "kuserbuffers_pushrecv",
        "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
        "mori::moe::EpDispatchIntraNodeKernel<T>",
        "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<4>(int)",
        "void flashinfer::mnnvl_throughput::moeA2ACombineKernel<bf16>(int)",
        "lowPrecisionTwoShotHierFirstKernel"}) {
    EXPECT_TRUE(IsCommunicationKernel(name)) << name;
  }
  for (const char* name :
       {"void deep_ep::layout::get_dispatch_layout<256, 32>(long*)", "small_reduce_kernel",
        "void at::native::vectorized_gather_kernel<16, long>(char*)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
        "void cub::DeviceReduceKernel<Policy>(int)", "parallel_reduce", "wallgather",
        "void tensorrt_llm::kernels::moe_comm::moeA2ASanitizeExpertIdsKernel(int*)",
        "triton_poi_fused_all_reduce_0", "triton_per_fused_add_all_gather_into_tensor_3",
        "void oneflow::cuda::layer_norm::LayerNormBlockAllReduceSMemImpl<float>()",
        "void at::native::reduce_kernel<512, 1, ReduceOp<AllReduceFunctor>>(R)"}) {
    EXPECT_FALSE(IsCommunicationKernel(name)) << name;
  }
  EXPECT_FALSE(IsCommunicationKernel("ampere_sgemm_128x64_tn"));
  EXPECT_FALSE(IsCommunicationKernel("_Z3addPfi"));
  EXPECT_FALSE(IsCommunicationKernel(""));
}

TEST(KernelFamilyTest, TensorCoresFromVoltaToBlackwell) {
  for (const char* name : {
           "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
           "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn",
           "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
           "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
           ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x64_stage3_warpsize1x4x1_"
            "tensor16x8x8_kernel"),
           "cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4",
           "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x2_tn_align8",
           ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
            "execute_segment_k_off_kernel__5x_cublas"),
           "cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32_bf16_bf16",
           "void cutlass::device_kernel<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4> >",
           "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN",
           "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >",
           "flash::FlashAttnFwdSm90",
           "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
           "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_wgmma_f16_knob_3",
           "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x64x64_MI16x16x1_SN",
           "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<L> >(x)",
           "_ZN7ck_tile6kentryILi2ENS_10GemmKernelINS_x",
           "void cutlass::device_kernel<enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::G> >(P)",
       }) {
    EXPECT_TRUE(UsesTensorCores(name)) << name;
  }
}

TEST(KernelFamilyTest, PlainArithmeticUsesNoTensorCores) {
  for (const char* name : {
           "volta_sgemm_128x64_nn",
           "ampere_sgemm_128x64_tn",
           "cutlass_80_simt_sgemm_128x32_8x5_tn_align1",
           ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_"
            "aligna4_alignc4_execute_kernel__51_cublas"),
           "fmha_cutlassF_f32_aligned_64x64_rf_sm50",
           "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >",
           "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
           "",
       }) {
    EXPECT_FALSE(UsesTensorCores(name)) << name;
  }
}

}  // namespace
}  // namespace profd::report
