// FakeNvtx plays the part of NVTX that is compiled into a program: function slots, found
// through function tables, which an injection fills. One instance per `kObject`, as each
// shared object has its own.
//
//   using Nvtx = FakeNvtx<0>;
//   Nvtx::Attach();                 // what the first NVTX call does
//   Nvtx::PushA("text");            // through the slot, if it is filled
//
// Threads: Attach() once; the calls any.
#ifndef PROFD_TESTS_FAKES_FAKE_NVTX_H_
#define PROFD_TESTS_FAKES_FAKE_NVTX_H_

#include <cstdint>
#include <initializer_list>

#include "client_lib/nvtx/nvtx_abi.h"

extern "C" {
int InitializeInjection(void);
int InitializeInjectionNvtx2(profd::client::nvtx::GetExportTable get);
}

namespace profd::testing {

namespace nvtx = client::nvtx;

template <int kObject>
class FakeNvtx {
 public:
  static constexpr uint32_t kSlots = 16;

  // How many slots the tables say they have; fewer in headers of old.
  static inline unsigned int table_size = kSlots;
  static inline size_t callbacks_bytes = sizeof(nvtx::CallbacksTable);
  static inline bool has_modules = true;

  // False: the injection wants nothing of us.
  static bool Attach(decltype(&InitializeInjectionNvtx2) injection = InitializeInjectionNvtx2) {
    for (uint32_t id = 1; id < kSlots; ++id) {
      core_slots_[id] = NotYetAttached;
      core2_slots_[id] = NotYetAttached;
      core_table_[id] = &core_slots_[id];
      core2_table_[id] = &core2_slots_[id];
    }
    const bool attached = injection(GetTable) != 0;
    for (auto* slots : {core_slots_, core2_slots_}) {
      for (uint32_t id = 1; id < kSlots; ++id) {
        if (!attached || Load(slots[id]) == NotYetAttached) slots[id] = nullptr;
      }
    }
    return attached;
  }

  static nvtx::Function CoreSlot(uint32_t id) { return Load(core_slots_[id]); }
  static nvtx::Function Core2Slot(uint32_t id) { return Load(core2_slots_[id]); }

  static void MarkA(const char* text) { Core<void>(nvtx::kMarkA, text); }
  static void MarkW(const wchar_t* text) { Core<void>(nvtx::kMarkW, text); }
  static void MarkEx(const nvtx::EventAttributes* event) { Core<void>(nvtx::kMarkEx, event); }
  static int PushA(const char* text) { return Core<int>(nvtx::kRangePushA, text); }
  static int PushW(const wchar_t* text) { return Core<int>(nvtx::kRangePushW, text); }
  static int PushEx(const nvtx::EventAttributes* event) {
    return Core<int>(nvtx::kRangePushEx, event);
  }
  static int Pop() { return Core<int>(nvtx::kRangePop); }
  static nvtx::RangeId StartA(const char* text) {
    return Core<nvtx::RangeId>(nvtx::kRangeStartA, text);
  }
  static nvtx::RangeId StartW(const wchar_t* text) {
    return Core<nvtx::RangeId>(nvtx::kRangeStartW, text);
  }
  static nvtx::RangeId StartEx(const nvtx::EventAttributes* event) {
    return Core<nvtx::RangeId>(nvtx::kRangeStartEx, event);
  }
  static void End(nvtx::RangeId id) { Core<void>(nvtx::kRangeEnd, id); }
  static void NameThreadA(uint32_t thread, const char* name) {
    Core<void>(nvtx::kNameOsThreadA, thread, name);
  }
  static void NameThreadW(uint32_t thread, const wchar_t* name) {
    Core<void>(nvtx::kNameOsThreadW, thread, name);
  }

  static nvtx::Domain CreateA(const char* name) {
    return Core2<nvtx::Domain>(nvtx::kDomainCreateA, name);
  }
  static nvtx::Domain CreateW(const wchar_t* name) {
    return Core2<nvtx::Domain>(nvtx::kDomainCreateW, name);
  }
  static nvtx::String RegisterA(nvtx::Domain domain, const char* text) {
    return Core2<nvtx::String>(nvtx::kDomainRegisterStringA, domain, text);
  }
  static nvtx::String RegisterW(nvtx::Domain domain, const wchar_t* text) {
    return Core2<nvtx::String>(nvtx::kDomainRegisterStringW, domain, text);
  }
  static void DomainMark(nvtx::Domain domain, const nvtx::EventAttributes* event) {
    Core2<void>(nvtx::kDomainMarkEx, domain, event);
  }
  static int DomainPush(nvtx::Domain domain, const nvtx::EventAttributes* event) {
    return Core2<int>(nvtx::kDomainRangePushEx, domain, event);
  }
  static int DomainPop(nvtx::Domain domain) { return Core2<int>(nvtx::kDomainRangePop, domain); }
  static nvtx::RangeId DomainStart(nvtx::Domain domain, const nvtx::EventAttributes* event) {
    return Core2<nvtx::RangeId>(nvtx::kDomainRangeStartEx, domain, event);
  }
  static void DomainEnd(nvtx::Domain domain, nvtx::RangeId id) {
    Core2<void>(nvtx::kDomainRangeEnd, domain, id);
  }

 private:
  static void NotYetAttached() {}

  static nvtx::Function Load(const nvtx::Function& slot) {
    return __atomic_load_n(&slot, __ATOMIC_RELAXED);
  }

  // A call through an empty slot gives a zero; NVTX itself says "not tracked" for levels.
  template <typename Result, typename... Arguments>
  static Result Through(nvtx::Function function, Arguments... arguments) {
    if (function == nullptr) return Result();
    return reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...);
  }
  template <typename Result, typename... Arguments>
  static Result Core(uint32_t id, Arguments... arguments) {
    return Through<Result>(CoreSlot(id), arguments...);
  }
  template <typename Result, typename... Arguments>
  static Result Core2(uint32_t id, Arguments... arguments) {
    return Through<Result>(Core2Slot(id), arguments...);
  }

  static int GetModuleTable(uint32_t module, nvtx::FunctionTable* table, unsigned int* size) {
    if (!has_modules) return 0;
    if (module != nvtx::kModuleCore && module != nvtx::kModuleCore2) return 0;
    *table = module == nvtx::kModuleCore ? core_table_ : core2_table_;
    *size = table_size;
    return 1;
  }

  static const void* GetTable(uint32_t id) {
    static nvtx::CallbacksTable callbacks;
    callbacks = {callbacks_bytes, GetModuleTable};
    return id == nvtx::kCallbacksTable ? &callbacks : nullptr;
  }

  static inline nvtx::Function core_slots_[kSlots] = {};
  static inline nvtx::Function core2_slots_[kSlots] = {};
  static inline nvtx::Function* core_table_[kSlots] = {};
  static inline nvtx::Function* core2_table_[kSlots] = {};
};

inline nvtx::EventAttributes AnEvent(const char* text) {
  nvtx::EventAttributes event{};
  event.version = 3;
  event.size_bytes = sizeof(event);
  event.message_type = nvtx::kMessageAscii;
  event.message.ascii = text;
  return event;
}
inline nvtx::EventAttributes AnEvent(const wchar_t* text) {
  nvtx::EventAttributes event = AnEvent("");
  event.message_type = nvtx::kMessageUnicode;
  event.message.unicode = text;
  return event;
}
inline nvtx::EventAttributes AnEvent(nvtx::String text) {
  nvtx::EventAttributes event = AnEvent("");
  event.message_type = nvtx::kMessageRegistered;
  event.message.registered = text;
  return event;
}

}  // namespace profd::testing

#endif  // PROFD_TESTS_FAKES_FAKE_NVTX_H_
