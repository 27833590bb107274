#include "client_lib/cupti/cupti_interface.h"

#include "client_lib/cupti/rivals.h"

namespace profd::client {
namespace {

constexpr char kOurName[] = "profd";
// Drivers before this one let one subscriber in, whatever CUPTI can do.
constexpr uint32_t kFirstSharedDriver = 13030;

}  // namespace

void CuptiInterface::Begin(const CuptiLibrary* library) {
  library_ = library;
  subscriber_ = nullptr;
  is_shared_ = false;
}

bool CuptiInterface::HasSecond() const {
#define PROFD_CUPTI_IS_MISSING(name, arguments) || library_->name == nullptr
  const bool is_partial = library_->Subscribe_v2 ==
                          nullptr PROFD_CUPTI_SINCE_13_2(PROFD_CUPTI_IS_MISSING)
                              PROFD_CUPTI_SINCE_13_3(PROFD_CUPTI_IS_MISSING);
#undef PROFD_CUPTI_IS_MISSING
  return !is_partial && library_->driver_version >= kFirstSharedDriver;
}

bool CuptiInterface::Attach(cupti::CallbackFunction callback, void* user,
                            const BufferCallbacks& buffers, Refusal* refusal) {
  refusal->rival[0] = '\0';
  // A subscription of the second interface, too, would make Kineto go without the GPU.
  const bool may_be_kineto = HolderMayBeKineto();
  if (!may_be_kineto && HasSecond() && AttachShared(callback, user, buffers, refusal)) return true;
  refusal->call = "cuptiSubscribe";
  refusal->result = SubscribeAlone(callback, user, refusal);
  Unsubscribe();
  const bool is_held = refusal->result == cupti::kErrorMultipleSubscribers ||
                       refusal->result == cupti::kErrorNotCompatible;
  if (is_held && HasSecond() && AttachShared(callback, user, buffers, refusal)) return true;
  const bool is_idle_kineto = refusal->result == cupti::kErrorMultipleSubscribers && may_be_kineto;
  if (refusal->result != cupti::kSuccess && !is_idle_kineto) return false;
  refusal->call = "cuptiActivityRegisterCallbacks";
  refusal->result = Cupti().ActivityRegisterCallbacks(buffers.requested, buffers.completed);
  return refusal->result == cupti::kSuccess;
}

bool CuptiInterface::Subscribe(cupti::CallbackFunction callback, void* user) {
  Refusal unused;
  return SubscribeAlone(callback, user, &unused) == cupti::kSuccess;
}

bool CuptiInterface::AttachShared(cupti::CallbackFunction callback, void* user,
                                  const BufferCallbacks& buffers, Refusal* refusal) {
  cupti::SharedSubscriberParams params{
      {sizeof(params), kOurName, refusal->rival, sizeof(refusal->rival)}, 1, {}};
  cupti::Result result = Cupti().Subscribe_v2(&subscriber_, callback, user, &params.common);
  refusal->rival[sizeof(refusal->rival) - 1] = '\0';
  if (result != cupti::kSuccess) {
    subscriber_ = nullptr;
    return false;
  }
  // On success, this is the name of the first subscriber.
  refusal->rival[0] = '\0';
  // A tool that uses the first interface without a subscription is noticed only here.
  result = Cupti().ActivityRegisterCallbacks_v2(subscriber_, buffers.shared_requested,
                                                buffers.shared_completed);
  is_shared_ = result == cupti::kSuccess;
  if (!is_shared_) Unsubscribe();
  return is_shared_;
}

// On failure there is no subscriber.
cupti::Result CuptiInterface::SubscribeAlone(cupti::CallbackFunction callback, void* user,
                                             Refusal* refusal) {
  cupti::Result result = cupti::kErrorNotSupported;
  // From 13.2 on a named subscriber is one of the second interface.
  if (library_->Subscribe_v2 != nullptr && library_->version >= cupti::kVersion13_0 &&
      library_->version < cupti::kVersion13_2) {
    cupti::SubscriberParams params{sizeof(params), kOurName, refusal->rival,
                                   sizeof(refusal->rival)};
    result = Cupti().Subscribe_v2(&subscriber_, callback, user, &params);
    refusal->rival[sizeof(refusal->rival) - 1] = '\0';
  }
  if (result == cupti::kErrorInvalidParameter || result == cupti::kErrorNotSupported) {
    result = Cupti().Subscribe(&subscriber_, callback, user);
  }
  if (result != cupti::kSuccess) subscriber_ = nullptr;
  return result;
}

void CuptiInterface::Unsubscribe() {
  if (subscriber_ != nullptr) Cupti().Unsubscribe(subscriber_);
  subscriber_ = nullptr;
  is_shared_ = false;
}

bool CuptiInterface::OthersRecord(uint64_t our_kinds) const {
  if (!is_shared_) return false;
  cupti::Kind kinds[cupti::kKindLimit];
  uint32_t room = cupti::kKindLimit;
  uint32_t count = 0;
  // Without a subscriber: the kinds of all.
  if (Cupti().ActivityGetEnabledKinds(nullptr, kinds, &room, &count) != cupti::kSuccess) {
    return true;  // Not known, so nothing is done that could harm them.
  }
  for (uint32_t i = 0; i < count && i < cupti::kKindLimit; ++i) {
    if (kinds[i] >= 64 || (our_kinds >> kinds[i] & 1) == 0) return true;
  }
  return false;
}

cupti::Result CuptiInterface::Enable(cupti::Kind kind) const {
  return is_shared_ ? Cupti().ActivityEnable_v2(subscriber_, kind, nullptr)
                    : Cupti().ActivityEnable(kind);
}

cupti::Result CuptiInterface::Disable(cupti::Kind kind) const {
  return is_shared_ ? Cupti().ActivityDisable_v2(subscriber_, kind, nullptr)
                    : Cupti().ActivityDisable(kind);
}

cupti::Result CuptiInterface::EnableAndDump(cupti::Kind kind) const {
  return is_shared_ ? Cupti().ActivityEnableAndDump_v2(subscriber_, kind, nullptr)
                    : Cupti().ActivityEnableAndDump(kind);
}

cupti::Result CuptiInterface::SwitchApi(uint32_t domain, uint32_t cbid, bool on) const {
  const uint8_t enable = on ? 1 : 0;
  if (domain == cupti::kDomainDriverApi) {
    return is_shared_ ? Cupti().ActivityEnableDriverApi_v2(subscriber_, cbid, enable)
                      : Cupti().ActivityEnableDriverApi(cbid, enable);
  }
  return is_shared_ ? Cupti().ActivityEnableRuntimeApi_v2(subscriber_, cbid, enable)
                    : Cupti().ActivityEnableRuntimeApi(cbid, enable);
}

cupti::Result CuptiInterface::GetTimestamp(uint64_t* ns) const {
  return is_shared_ ? Cupti().GetTimestamp_v2(subscriber_, ns) : Cupti().GetTimestamp(ns);
}

uint64_t CuptiInterface::TakeDropCount() const {
  size_t dropped = 0;
  const cupti::Result result =
      is_shared_ ? Cupti().ActivityGetNumDroppedRecords_v2(subscriber_, nullptr, 0, &dropped)
                 : Cupti().ActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  return result == cupti::kSuccess ? dropped : 0;
}

bool CuptiInterface::ReadAttribute(uint32_t id, size_t bytes, uint64_t* value) const {
  *value = 0;
  if (is_shared_) {
    return Cupti().ActivityGetAttribute_v2(subscriber_, id, &bytes, value) == cupti::kSuccess;
  }
  return library_->ActivityGetAttribute != nullptr &&
         Cupti().ActivityGetAttribute(id, &bytes, value) == cupti::kSuccess;
}

bool CuptiInterface::WriteAttribute(uint32_t id, size_t bytes, uint64_t value) const {
  const cupti::Result result =
      is_shared_ ? Cupti().ActivitySetAttribute_v2(subscriber_, id, &bytes, &value)
                 : Cupti().ActivitySetAttribute(id, &bytes, &value);
  return result == cupti::kSuccess;
}

}  // namespace profd::client
