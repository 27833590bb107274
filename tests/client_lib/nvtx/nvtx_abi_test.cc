// Holds client_lib/nvtx/nvtx_abi.h against the real NVTX headers. Nothing runs: what differs
// does not compile. Built only where the headers are.
#define NVTX_NO_IMPL
#include "client_lib/nvtx/nvtx_abi.h"

#include <nvtx3/nvToolsExt.h>

#include <type_traits>

namespace profd::client::nvtx {
namespace {

static_assert(sizeof(EventAttributes) == sizeof(nvtxEventAttributes_t));
#define PROFD_SAME_PLACE(ours, theirs)                                                        \
  static_assert(offsetof(EventAttributes, ours) == offsetof(nvtxEventAttributes_t, theirs) && \
                sizeof(EventAttributes::ours) == sizeof(nvtxEventAttributes_t::theirs))
PROFD_SAME_PLACE(version, version);
PROFD_SAME_PLACE(size_bytes, size);
PROFD_SAME_PLACE(category, category);
PROFD_SAME_PLACE(color_type, colorType);
PROFD_SAME_PLACE(color, color);
PROFD_SAME_PLACE(payload_type, payloadType);
PROFD_SAME_PLACE(reserved, reserved0);
PROFD_SAME_PLACE(payload, payload);
PROFD_SAME_PLACE(message_type, messageType);
PROFD_SAME_PLACE(message, message);
#undef PROFD_SAME_PLACE

#define PROFD_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<int64_t>(ours) == static_cast<int64_t>(theirs))
PROFD_SAME_VALUE(kMessageNone, NVTX_MESSAGE_UNKNOWN);
PROFD_SAME_VALUE(kMessageAscii, NVTX_MESSAGE_TYPE_ASCII);
PROFD_SAME_VALUE(kMessageUnicode, NVTX_MESSAGE_TYPE_UNICODE);
PROFD_SAME_VALUE(kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
PROFD_SAME_VALUE(kPayloadNone, NVTX_PAYLOAD_UNKNOWN);
PROFD_SAME_VALUE(kPayloadUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
PROFD_SAME_VALUE(kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
PROFD_SAME_VALUE(kPayloadDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
PROFD_SAME_VALUE(kPayloadUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
PROFD_SAME_VALUE(kPayloadInt32, NVTX_PAYLOAD_TYPE_INT32);
PROFD_SAME_VALUE(kPayloadFloat, NVTX_PAYLOAD_TYPE_FLOAT);
PROFD_SAME_VALUE(kNotTracked, NVTX_NO_PUSH_POP_TRACKING);

PROFD_SAME_VALUE(kCallbacksTable, NVTX_ETID_CALLBACKS);
PROFD_SAME_VALUE(kModuleCore, NVTX_CB_MODULE_CORE);
PROFD_SAME_VALUE(kModuleCore2, NVTX_CB_MODULE_CORE2);
PROFD_SAME_VALUE(kMarkEx, NVTX_CBID_CORE_MarkEx);
PROFD_SAME_VALUE(kMarkA, NVTX_CBID_CORE_MarkA);
PROFD_SAME_VALUE(kMarkW, NVTX_CBID_CORE_MarkW);
PROFD_SAME_VALUE(kRangeStartEx, NVTX_CBID_CORE_RangeStartEx);
PROFD_SAME_VALUE(kRangeStartA, NVTX_CBID_CORE_RangeStartA);
PROFD_SAME_VALUE(kRangeStartW, NVTX_CBID_CORE_RangeStartW);
PROFD_SAME_VALUE(kRangeEnd, NVTX_CBID_CORE_RangeEnd);
PROFD_SAME_VALUE(kRangePushEx, NVTX_CBID_CORE_RangePushEx);
PROFD_SAME_VALUE(kRangePushA, NVTX_CBID_CORE_RangePushA);
PROFD_SAME_VALUE(kRangePushW, NVTX_CBID_CORE_RangePushW);
PROFD_SAME_VALUE(kRangePop, NVTX_CBID_CORE_RangePop);
PROFD_SAME_VALUE(kNameOsThreadA, NVTX_CBID_CORE_NameOsThreadA);
PROFD_SAME_VALUE(kNameOsThreadW, NVTX_CBID_CORE_NameOsThreadW);
PROFD_SAME_VALUE(kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
PROFD_SAME_VALUE(kDomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
PROFD_SAME_VALUE(kDomainRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
PROFD_SAME_VALUE(kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
PROFD_SAME_VALUE(kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
PROFD_SAME_VALUE(kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
PROFD_SAME_VALUE(kDomainRegisterStringW, NVTX_CBID_CORE2_DomainRegisterStringW);
PROFD_SAME_VALUE(kDomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
PROFD_SAME_VALUE(kDomainCreateW, NVTX_CBID_CORE2_DomainCreateW);
#undef PROFD_SAME_VALUE

static_assert(sizeof(CallbacksTable) == sizeof(NvtxExportTableCallbacks) &&
              offsetof(CallbacksTable, get_module_function_table) ==
                  offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(sizeof(Function) == sizeof(NvtxFunctionPointer) &&
              sizeof(FunctionTable) == sizeof(NvtxFunctionTable));
static_assert(std::is_same_v<GetExportTable, NvtxGetExportTableFunc_t>);
static_assert(std::is_same_v<RangeId, nvtxRangeId_t>);

}  // namespace
}  // namespace profd::client::nvtx
