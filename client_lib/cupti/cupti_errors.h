// What CUPTI's results mean for a capture: a reason, and a sentence with the remedy.
//
// Names of results are ours. cuptiGetResultString() itself fails without a driver from 13.3 on, and
// crashes in 13.2.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_ERRORS_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_ERRORS_H_

#include "client_lib/cupti/cupti_abi.h"
#include "proto/wire/frame.h"

namespace profd::client {

// Why the GPU part of a capture cannot start.
struct ArmFailure {
  wire::ArmFailedReason reason;
  char text[384];
};

// Writes what `result` of function `call` means. `rival`: who holds CUPTI; "" if CUPTI did not say.
void ExplainResult(cupti::Result result, const char* call, const char* rival, ArmFailure* failure);

// "CUPTI_ERROR_NOT_SUPPORTED"; "an unknown result" for numbers that this library does not know.
const char* ResultName(cupti::Result result);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_ERRORS_H_
