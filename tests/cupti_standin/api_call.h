// One call of the CUDA API, as CUPTI sees it: a correlation id, callbacks when it begins and ends,
// and a record when it ends, of the runtime's function and of the driver's within it.
#ifndef PROFD_TESTS_CUPTI_STANDIN_API_CALL_H_
#define PROFD_TESTS_CUPTI_STANDIN_API_CALL_H_

#include <cstdint>

#include "tests/cupti_standin/tracer.h"
#include "tests/cupti_standin/work.h"

namespace sgpu {

// Threads:  the one that makes the call.
// Hot path: while no kind is on and nobody is subscribed it reads the clock once and writes
// nothing.
class ApiCall {
 public:
  // Begins a call. Check error() before anything else.
  ApiCall(uint32_t domain, uint32_t cbid);
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  // 999 in a forked child, 15 before sgpu_init(): the call does not take place.
  int error() const { return error_; }
  uint32_t correlation() const { return correlation_; }
  uint64_t began() const { return began_; }
  ThreadState& thread() const { return thread_; }

  // Gives `work` to `stream` on behalf of this call; 1 if there is no such stream.
  int Submit(uint32_t stream, const Work& work);
  // `op` was placed already; its record is due when it ends, if its kind is on.
  void Submit(Op& op);
  // The same without a record, as if no kind were on.
  void SubmitUnrecorded(Op& op);
  // What happened, with the fields that all of this call's share.
  sgpu_truth_rec TruthOf(uint32_t kind) const;

  // Writes `record` now if `kind` is on, and adds `happened` to the truth.
  template <typename Record>
  void RecordNow(uint32_t kind, const Record& record, sgpu_truth_rec happened) {
    happened.fate = SGPU_UNWANTED;
    if (tracer().IsOn(kind)) {
      happened.fate = tracer().Append(kind, &record) ? SGPU_WRITTEN : SGPU_DROPPED;
    }
    truth().Add(happened);
  }

  // Ends the call, `api_ns` later. Returns `return_value`.
  int Finish(uint64_t api_ns, uint32_t return_value = 0);

 private:
  void CallSubscriber(CUpti_ApiCallbackSite site, uint32_t domain, uint32_t cbid,
                      uint32_t return_value);
  void CallSubscribers(CUpti_ApiCallbackSite site, uint32_t return_value);
  void RecordCall(uint32_t domain, uint32_t cbid, uint64_t start, uint64_t end,
                  uint32_t return_value);
  void RecordExternalCorrelation();
  uint64_t Tax() const;
  // `recorded_as`: Tracer::RecordedAs().
  void SubmitAs(Op& op, uint32_t recorded_as);

  ThreadState& thread_;
  const uint32_t domain_;
  const uint32_t cbid_;
  uint32_t driver_cbid_ = 0;  // Within it; 0: none.
  int error_ = 0;
  uint32_t correlation_ = 0;
  uint64_t began_ = 0;
  uint64_t correlation_data_ = 0;  // For the subscriber, from the call's begin to its end.
};

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_API_CALL_H_
