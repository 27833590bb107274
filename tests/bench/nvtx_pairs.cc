// NVTX pairs in a shared object, which has slots of its own. Built twice: one finds our library
// as its injection, one finds none. (hot_path_benchmark.cc)
#include <nvtx3/nvToolsExt.h>

extern "C" {

__attribute__((visibility("default"))) void profd_bench_nvtx_pairs(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA("benchmark");
    __asm__ __volatile__("" ::: "memory");
    nvtxRangePop();
  }
}

__attribute__((visibility("default"))) void profd_bench_nvtx_registered_pairs(int count) {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("bench");
  static const nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "benchmark");
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = text;
  for (int i = 0; i < count; ++i) {
    nvtxDomainRangePushEx(domain, &event);
    __asm__ __volatile__("" ::: "memory");
    nvtxDomainRangePop(domain);
  }
}

}  // extern "C"
