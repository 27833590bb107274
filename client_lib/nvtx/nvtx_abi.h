// What an NVTX injection shares with the program it is loaded into: NVTX version 3, in our
// own words, so that no NVTX headers are needed to build. tests/client_lib/nvtx/nvtx_abi_test.cc
// holds it against the real ones where they are.
//
// All of this is fixed: NVTX is compiled into programs, and only ever adds at the end.
#ifndef PROFD_CLIENT_LIB_NVTX_NVTX_ABI_H_
#define PROFD_CLIENT_LIB_NVTX_NVTX_ABI_H_

#include <cstddef>
#include <cstdint>

namespace profd::client::nvtx {

using GetExportTable = const void* (*)(uint32_t table_id);
inline constexpr uint32_t kCallbacksTable = 1;

// A slot of the program: what it calls, or null. A function table is an array of pointers to
// slots, by callback id; entry 0 is none.
using Function = void (*)();
using FunctionTable = Function**;

struct CallbacksTable {
  size_t struct_bytes;
  // 0: there is no such module.
  int (*get_module_function_table)(uint32_t module, FunctionTable* table, unsigned int* size);
};

inline constexpr uint32_t kModuleCore = 1;
inline constexpr uint32_t kModuleCore2 = 5;

// Callback ids of kModuleCore.
enum CoreId : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};

// Callback ids of kModuleCore2.
enum Core2Id : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

// Handles are ours to choose; the program only carries them. Null: the default domain, no
// string.
struct DomainTag;
struct StringTag;
using Domain = DomainTag*;
using String = StringTag*;

using RangeId = uint64_t;

// What push and pop return where no tool keeps track of levels.
inline constexpr int kNotTracked = -2;

enum MessageType : int32_t {
  kMessageNone = 0,
  kMessageAscii = 1,
  kMessageUnicode = 2,
  kMessageRegistered = 3,
};

enum PayloadType : int32_t {
  kPayloadNone = 0,
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
};

struct EventAttributes {
  uint16_t version;
  uint16_t size_bytes;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;  // PayloadType, or a schema's
  int32_t reserved;
  union {
    uint64_t as_uint64;
    int64_t as_int64;
    double as_double;
    uint32_t as_uint32;
    int32_t as_int32;
    float as_float;
  } payload;
  int32_t message_type;  // MessageType
  union {
    const char* ascii;
    const wchar_t* unicode;
    String registered;
  } message;
};
static_assert(sizeof(EventAttributes) == 48);

}  // namespace profd::client::nvtx

#endif  // PROFD_CLIENT_LIB_NVTX_NVTX_ABI_H_
