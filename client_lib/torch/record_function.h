// RecordFunctionLayout is where the fields of torch's RecordFunction are in this process. It is
// found by making RecordFunctions whose contents we chose and looking where those turn up.
//
//   field           is what holds
//   sequence        each of several sequence numbers, in the RecordFunction that was given it
//   scope           the scope of each
//   thread          torch's number of the thread, for two threads
//   forward thread  the word before the RecordFunction's own number, which grows from one to the
//                   next; 0 in all of ours. Bounded at each read, since ours prove no other value.
//   inputs          nothing here: tensor_layout.h finds them in operators of torch's own
//
// A field that is in no place, or in more than one, is not there.
//
// Threads: Calibrate() any; one at a time. It makes a thread of its own for a moment.
// Errors:  what could not be proved is not in the features that it returns.
#ifndef PROFD_CLIENT_LIB_TORCH_RECORD_FUNCTION_H_
#define PROFD_CLIENT_LIB_TORCH_RECORD_FUNCTION_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/torch/torch_library.h"

namespace profd::client::torch {

inline constexpr int32_t kNowhere = -1;

// Offsets in bytes; kNowhere: not proved.
struct RecordFunctionLayout {
  int32_t sequence = kNowhere;
  int32_t scope = kNowhere;
  int32_t thread = kNowhere;
  int32_t forward_thread = kNowhere;
};

// Where a RecordFunction is looked through for fields: more than any release's has.
inline constexpr size_t kRecordFunctionBytes = 512;

// Asks for operators: for every scope but that of record_function(), and but those that builds for
// phones alone announce. Each costs every node of a backward pass, at which torch puts together who
// is to be called in it.
void AskForOperators(RecordFunctionCallback* callback);

// The wire::TorchFeature that work. 0: torch does not call us, or not with what we gave it; `why`
// says so.
uint32_t CalibrateRecordFunction(const TorchLibrary& library, RecordFunctionLayout* layout,
                                 char* why, size_t why_bytes);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_RECORD_FUNCTION_H_
