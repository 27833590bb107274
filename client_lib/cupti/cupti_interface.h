// CuptiInterface makes those calls of CUPTI that exist in two forms:
//
//   first    every version: one subscriber in a process, and one set of kinds and buffers
//   second   CUPTI 13.3 and later: several subscribers, each with its own kinds and buffers. While
//            a tool uses it, functions of the first answer NOT_COMPATIBLE, and the other way round
//
// The first is used without a subscription: kinds, buffers, and settings need none (measured with
// CUPTI 11.8 to 13.5). Kineto, which torch.profiler records with, tries to subscribe when it is
// first used, and if it cannot it records no GPU for the life of the process. So Attach()
// subscribes to the first only for a moment, to learn whether another tool has CUPTI:
//
//   CUPTI and driver have the second, and torch is not loaded     the second
//   nobody has CUPTI                                              the first
//   a tool of the second has it                                   the second, where there is one
//   Kineto has it, and is idle (rivals.h)                         the first
//   any other                                                     refused
//
// 13.2 has a trial version of the second, which lacks the clock and switches for single functions:
// it is not used.
//
// Threads: the GPU thread's.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_INTERFACE_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_INTERFACE_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/cupti/cupti_abi.h"
#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/exit_gate.h"

namespace profd::client {

// What CUPTI calls for buffers; in both forms, as it takes only one of them.
struct BufferCallbacks {
  cupti::BufferRequested requested;
  cupti::BufferCompleted completed;
  cupti::BufferRequested_v2 shared_requested;
  cupti::BufferCompleted_v2 shared_completed;
};

class CuptiInterface {
 public:
  // Every call of CUPTI passes `gate`.
  constexpr explicit CuptiInterface(const ExitGate* gate) : gate_(gate) {}

  // `library` is used from here on.
  void Begin(const CuptiLibrary* library);

  // Where Attach() failed.
  struct Refusal {
    cupti::Result result;
    const char* call;
    char rival[cupti::kOldSubscriberNameBytes + 1];  // Who holds CUPTI, as far as it says.
  };

  // Registers `buffers`. `callback` is called once there is a subscription. False: nothing is
  // attached.
  bool Attach(cupti::CallbackFunction callback, void* user, const BufferCallbacks& buffers,
              Refusal* refusal);
  // For what needs a subscription, until Unsubscribe(). False: another tool has it.
  bool Subscribe(cupti::CallbackFunction callback, void* user);
  bool is_subscribed() const { return subscriber_ != nullptr; }
  // Does nothing without a subscription.
  void Unsubscribe();

  // Whether other tools may have subscriptions at the same time: the second interface.
  bool is_shared() const { return is_shared_; }
  // Whether another subscriber has kinds on, when we have those of `our_kinds` (bit k: kind k).
  bool OthersRecord(uint64_t our_kinds) const;

  cupti::Result Enable(cupti::Kind kind) const;
  cupti::Result Disable(cupti::Kind kind) const;
  // REQUIRES: can_dump()
  cupti::Result EnableAndDump(cupti::Kind kind) const;
  bool can_dump() const { return library_->ActivityEnableAndDump != nullptr; }

  // Turns records of one API function on or off. REQUIRES: can_switch_apis()
  cupti::Result SwitchApi(uint32_t domain, uint32_t cbid, bool on) const;
  bool can_switch_apis() const { return library_->ActivityEnableDriverApi != nullptr; }

  cupti::Result GetTimestamp(uint64_t* ns) const;
  // Records dropped since the last call; 0 where CUPTI does not say.
  uint64_t TakeDropCount() const;

  // An attribute of `bytes` at most 8. Values are little-endian, so its low bytes are the
  // attribute.
  bool ReadAttribute(uint32_t id, size_t bytes, uint64_t* value) const;
  bool WriteAttribute(uint32_t id, size_t bytes, uint64_t value) const;

  // For calls that both interfaces have in one form.
  const CuptiLibrary& Cupti() const {
    gate_->Pass();
    return *library_;
  }
  cupti::Subscriber subscriber() const { return subscriber_; }

 private:
  bool HasSecond() const;
  bool AttachShared(cupti::CallbackFunction callback, void* user, const BufferCallbacks& buffers,
                    Refusal* refusal);
  cupti::Result SubscribeAlone(cupti::CallbackFunction callback, void* user, Refusal* refusal);

  const ExitGate* const gate_;
  const CuptiLibrary* library_ = nullptr;
  cupti::Subscriber subscriber_ = nullptr;
  bool is_shared_ = false;
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_INTERFACE_H_
