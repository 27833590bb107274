#include "client_lib/nvtx/nvtx_callbacks.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/given_names.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/recorder.h"
#include "client_lib/nvtx/nvtx_names.h"

namespace profd::client::nvtx {
namespace {

// Armed is not recording: names are looked up only for what is kept.
bool IsOff() { return g_hot.flag.load(std::memory_order_relaxed) == kFlagOff; }

// A payload that is a number.
bool NumberOf(const EventAttributes* event, double* value) {
  if (event == nullptr || event->size_bytes < sizeof(*event)) return false;
  switch (event->payload_type) {
    case kPayloadUint64:
      *value = static_cast<double>(event->payload.as_uint64);
      return true;
    case kPayloadInt64:
      *value = static_cast<double>(event->payload.as_int64);
      return true;
    case kPayloadDouble:
      *value = event->payload.as_double;
      return true;
    case kPayloadUint32:
      *value = event->payload.as_uint32;
      return true;
    case kPayloadInt32:
      *value = event->payload.as_int32;
      return true;
    case kPayloadFloat:
      *value = static_cast<double>(event->payload.as_float);
      return true;
    default:
      return false;
  }
}

void SamplePayload(const EventAttributes* event, uint32_t name_id) {
  double value;
  if (NumberOf(event, &value)) RecordCounter(name_id, value);
}

template <typename Text>
void Mark(uint16_t stack, const Text* text) {
  if (!IsOff()) RecordInstant(NameOf(stack, text));
}

template <typename Text>
int Push(uint16_t stack, const Text* text) {
  if (!IsOff()) BeginRangeOn(stack, NameOf(stack, text));
  return kNotTracked;
}

template <typename Text>
RangeId Start(uint16_t stack, const Text* text) {
  return IsOff() ? 0 : BeginSpan(NameOf(stack, text));
}

// ---- The default domain.

void MarkA(const char* text) { Mark(kDefaultStack, text); }
void MarkW(const wchar_t* text) { Mark(kDefaultStack, text); }
RangeId RangeStartA(const char* text) { return Start(kDefaultStack, text); }
RangeId RangeStartW(const wchar_t* text) { return Start(kDefaultStack, text); }
void RangeEnd(RangeId id) { EndSpan(id); }
int RangePushA(const char* text) { return Push(kDefaultStack, text); }
int RangePushW(const wchar_t* text) { return Push(kDefaultStack, text); }
int RangePop() {
  EndRangeOn(kDefaultStack);
  return kNotTracked;
}

// ---- Any domain.

void DomainMarkEx(Domain domain, const EventAttributes* event) {
  if (IsOff()) return;
  const uint32_t name_id = NameOf(StackOf(domain), event);
  RecordInstant(name_id);
  SamplePayload(event, name_id);
}

RangeId DomainRangeStartEx(Domain domain, const EventAttributes* event) {
  if (IsOff()) return 0;
  const uint32_t name_id = NameOf(StackOf(domain), event);
  const RangeId id = BeginSpan(name_id);
  SamplePayload(event, name_id);
  return id;
}

void DomainRangeEnd(Domain, RangeId id) { EndSpan(id); }

int DomainRangePushEx(Domain domain, const EventAttributes* event) {
  if (IsOff()) return kNotTracked;
  const uint16_t stack = StackOf(domain);
  const uint32_t name_id = NameOf(stack, event);
  BeginRangeOn(stack, name_id);
  SamplePayload(event, name_id);
  return kNotTracked;
}

int DomainRangePop(Domain domain) {
  EndRangeOn(StackOf(domain));
  return kNotTracked;
}

void MarkEx(const EventAttributes* event) { DomainMarkEx(nullptr, event); }
RangeId RangeStartEx(const EventAttributes* event) { return DomainRangeStartEx(nullptr, event); }
int RangePushEx(const EventAttributes* event) { return DomainRangePushEx(nullptr, event); }

// ---- What lasts.

void NameThread(uint32_t thread, const char* name) {
  if (name == nullptr) return;
  // Programs pass either of the two numbers that a thread can easily have of itself.
  if (thread == static_cast<uint32_t>(syscall(SYS_gettid)) ||
      thread == static_cast<uint32_t>(pthread_self())) {
    return SetThreadName(name);
  }
  GiveThreadName(thread, NameOf(kDefaultStack, name));
}

void NameOsThreadA(uint32_t thread, const char* name) { NameThread(thread, name); }

void NameOsThreadW(uint32_t thread, const wchar_t* name) {
  if (name == nullptr) return;
  char utf8[kMaxThreadNameBytes + 1];
  const wchar_t* rest;
  utf8[ToUtf8(name, utf8, kMaxThreadNameBytes, &rest)] = '\0';
  NameThread(thread, utf8);
}

Domain DomainCreateA(const char* name) { return MakeDomain(name); }
Domain DomainCreateW(const wchar_t* name) { return MakeDomain(name); }
String DomainRegisterStringA(Domain domain, const char* text) {
  return RegisterString(domain, text);
}
String DomainRegisterStringW(Domain domain, const wchar_t* text) {
  return RegisterString(domain, text);
}

// Nothing of this is data: constants of pointers of other types would be made by a
// constructor, and NVTX may call before ours have run.
class Setter {
 public:
  Setter(const Slots& slots, bool on) : slots_(slots), on_(on) {}

  template <typename Callback>
  const Setter& Set(uint32_t id, Callback* callback) const {
    // A header older than a function has no slot for it.
    if (id < slots_.size && slots_.table[id] != nullptr) {
      __atomic_store_n(slots_.table[id], on_ ? reinterpret_cast<Function>(callback) : nullptr,
                       __ATOMIC_RELAXED);
    }
    return *this;
  }

 private:
  const Slots& slots_;
  const bool on_;
};

}  // namespace

void SetRangeCallbacks(const Slots& core, const Slots& core2, bool on) {
  Setter(core, on)
      .Set(kMarkEx, MarkEx)
      .Set(kMarkA, MarkA)
      .Set(kMarkW, MarkW)
      .Set(kRangeStartEx, RangeStartEx)
      .Set(kRangeStartA, RangeStartA)
      .Set(kRangeStartW, RangeStartW)
      .Set(kRangeEnd, RangeEnd)
      .Set(kRangePushEx, RangePushEx)
      .Set(kRangePushA, RangePushA)
      .Set(kRangePushW, RangePushW)
      .Set(kRangePop, RangePop);
  Setter(core2, on)
      .Set(kDomainMarkEx, DomainMarkEx)
      .Set(kDomainRangeStartEx, DomainRangeStartEx)
      .Set(kDomainRangeEnd, DomainRangeEnd)
      .Set(kDomainRangePushEx, DomainRangePushEx)
      .Set(kDomainRangePop, DomainRangePop);
}

void SetHandleCallbacks(const Slots& core, const Slots& core2) {
  Setter(core, true).Set(kNameOsThreadA, NameOsThreadA).Set(kNameOsThreadW, NameOsThreadW);
  Setter(core2, true)
      .Set(kDomainRegisterStringA, DomainRegisterStringA)
      .Set(kDomainRegisterStringW, DomainRegisterStringW)
      .Set(kDomainCreateA, DomainCreateA)
      .Set(kDomainCreateW, DomainCreateW);
}

}  // namespace profd::client::nvtx
