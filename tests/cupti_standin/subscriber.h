// The callback side of CUPTI: the subscriber, which API calls it wants to see, and whether it
// lets others in.
#ifndef PROFD_TESTS_CUPTI_STANDIN_SUBSCRIBER_H_
#define PROFD_TESTS_CUPTI_STANDIN_SUBSCRIBER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/tracer.h"

namespace sgpu {

constexpr uint32_t kDomains = 7;  // CUpti_CallbackDomain's, with INVALID.

// Which of CUPTI's two interfaces a function belongs to. From 13.2 on, the first call of one locks
// the other out, until the last subscriber leaves.
enum class Interface { kNone, kFirst, kSecond };

// Threads: any. Call() reads the subscriber without a lock, as an unsubscribe may come from within
//          the very callback.
class Subscriber {
 public:
  // 39 if there is one, whose name is then left in `holder`. `allows_others`: SharedRival may be
  // subscribed, too, or come later.
  CUptiResult Subscribe(CUpti_CallbackFunc callback, void* user_data, const std::string& name,
                        bool allows_others, CUpti_SubscriberHandle* handle, std::string* holder);
  // SharedRival's subscription: 14 or 39 if the one there is locks it out.
  CUptiResult Join(const std::string& name);
  CUptiResult Leave();

  // Before a function of `wanted`: false if the other interface is in use.
  bool Take(Interface wanted);
  // 1 if `handle` is not the subscriber.
  CUptiResult Unsubscribe(CUpti_SubscriberHandle handle);
  bool IsCurrent(CUpti_SubscriberHandle handle) const;
  bool IsSubscribed() const { return subscribed_; }

  void Enable(uint32_t domain, uint32_t cbid, bool on);
  void EnableDomain(uint32_t domain, bool on);
  bool AnyIsOn() const { return any_.load(std::memory_order_relaxed); }
  bool IsOn(uint32_t domain, uint32_t cbid) const {
    return domain < kDomains && AnyIsOn() &&
           on_[domain][cbid % kCallbackIds].load(std::memory_order_relaxed) != 0;
  }
  // Nobody is subscribed any more.
  void Clear();
  // Nor ever was.
  void Reset();
  void Call(uint32_t domain, uint32_t cbid, const CUpti_CallbackData& data, ThreadState& thread);

  uint64_t callbacks() const { return callbacks_; }
  // Threads in a callback now.
  int running() const { return running_; }

 private:
  std::mutex mu_;
  std::string name_;             // Guarded by mu_.
  std::string rival_name_;       // Guarded by mu_.
  bool was_subscribed_ = false;  // Guarded by mu_.
  bool allows_others_ = false;   // Guarded by mu_.
  std::atomic<Interface> interface_{Interface::kNone};
  std::atomic<bool> subscribed_{false};
  std::atomic<CUpti_CallbackFunc> callback_{nullptr};
  std::atomic<void*> user_data_{nullptr};
  std::atomic<uintptr_t> generation_{0};
  std::atomic<bool> any_{false};
  std::array<std::array<std::atomic<uint8_t>, kCallbackIds>, kDomains> on_{};
  std::atomic<uint64_t> callbacks_{0};
  std::atomic<int> running_{0};
};

Subscriber& subscriber();

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_SUBSCRIBER_H_
