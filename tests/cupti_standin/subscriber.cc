#include "tests/cupti_standin/subscriber.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/shared_rival.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

// A handle is an address that nobody reads, another for each subscription.
CUpti_SubscriberHandle HandleOf(uintptr_t generation) {
  return reinterpret_cast<CUpti_SubscriberHandle>(generation << 4);
}

template <size_t N>
const ApiName* Find(const ApiName (&names)[N], uint32_t cbid) {
  const auto* const found = std::find_if(std::begin(names), std::end(names),
                                         [cbid](const ApiName& each) { return each.cbid == cbid; });
  return found == std::end(names) ? nullptr : found;
}

}  // namespace

const ApiName* FindApiName(uint32_t domain, uint32_t cbid) {
  return domain == SGPU_DOMAIN_RUNTIME ? Find(kRuntimeNames, cbid) : Find(kDriverNames, cbid);
}

Subscriber& subscriber() {
  static Subscriber* const subscriber = new Subscriber;
  return *subscriber;
}

CUptiResult Subscriber::Subscribe(CUpti_CallbackFunc callback, void* user_data,
                                  const std::string& name, bool allows_others,
                                  CUpti_SubscriberHandle* handle, std::string* holder) {
  bool is_first = false;
  {
    const std::lock_guard lock(mu_);
    const bool is_rival_there = shared_rival().IsJoined();
    if (holder != nullptr) *holder = subscribed_ ? name_ : is_rival_there ? rival_name_ : "";
    if (subscribed_ || (is_rival_there && !allows_others)) {
      return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    allows_others_ = allows_others;
    is_first = !was_subscribed_;
    was_subscribed_ = true;
    subscribed_ = true;
    name_ = name;
    callback_ = callback;
    user_data_ = user_data;
    *handle = HandleOf(++generation_);
  }
  // As the driver keeps /dev/nvidiactl open.
  if (settings().keep_file != 0) memfd_create("sgpu-device", MFD_CLOEXEC);
  while (settings().hold_subscribe != 0) Clock::SleepMs(1);
  Clock::SleepMs(is_first ? settings().subscribe_ms : settings().resubscribe_ms);
  return CUPTI_SUCCESS;
}

bool Subscriber::IsCurrent(CUpti_SubscriberHandle handle) const {
  return subscribed_ && handle == HandleOf(generation_);
}

CUptiResult Subscriber::Unsubscribe(CUpti_SubscriberHandle handle) {
  if (!IsCurrent(handle)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (interface_ == Interface::kSecond) tracer().EndSharedSubscription();
  Clear();
  return CUPTI_SUCCESS;
}

CUptiResult Subscriber::Join(const std::string& name) {
  if (!VersionIsAtLeast(kCuptiFuture)) return CUPTI_ERROR_NOT_SUPPORTED;
  const std::lock_guard lock(mu_);
  if (subscribed_ && !allows_others_) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (!Take(Interface::kSecond)) return CUPTI_ERROR_NOT_COMPATIBLE;
  rival_name_ = name;
  shared_rival().Join();
  return CUPTI_SUCCESS;
}

CUptiResult Subscriber::Leave() {
  const std::lock_guard lock(mu_);
  if (!shared_rival().IsJoined()) return CUPTI_ERROR_INVALID_PARAMETER;
  shared_rival().Leave();
  if (!subscribed_) interface_ = Interface::kNone;
  return CUPTI_SUCCESS;
}

bool Subscriber::Take(Interface wanted) {
  if (!VersionIsAtLeast(kCupti13_2)) return true;
  if (settings().v2_in_use != 0) return wanted == Interface::kSecond;
  auto in_use = Interface::kNone;
  return interface_.compare_exchange_strong(in_use, wanted) || in_use == wanted;
}

void Subscriber::Clear() {
  const std::lock_guard lock(mu_);
  any_ = false;
  for (auto& domain : on_) {
    for (auto& cbid : domain) cbid = 0;
  }
  callback_ = nullptr;
  subscribed_ = false;
  if (!shared_rival().IsJoined()) interface_ = Interface::kNone;
}

void Subscriber::Reset() {
  shared_rival().Reset();
  Clear();
  const std::lock_guard lock(mu_);
  was_subscribed_ = false;
  callbacks_ = 0;
}

void Subscriber::Enable(uint32_t domain, uint32_t cbid, bool on) {
  on_[domain][cbid % kCallbackIds] = on ? 1 : 0;
  if (on) any_ = true;
}

void Subscriber::EnableDomain(uint32_t domain, bool on) {
  for (auto& cbid : on_[domain]) cbid = on ? 1 : 0;
  if (on) any_ = true;
}

void Subscriber::Call(uint32_t domain, uint32_t cbid, const CUpti_CallbackData& data,
                      ThreadState& thread) {
  const CUpti_CallbackFunc callback = callback_;
  if (callback == nullptr) return;
  ++callbacks_;
  ++running_;
  ++thread.in_subscriber_callback;
  callback(user_data_, static_cast<CUpti_CallbackDomain>(domain), cbid, &data);
  --thread.in_subscriber_callback;
  --running_;
}

}  // namespace sgpu
