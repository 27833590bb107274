// Arguments of a range, such as annotate("request", id="r-17", tokens=512): an OperatorEvent of the
// scope kArgumentScope, written when the range begins, with the start_ticks and the depth of the
// range. The range itself is a RangeEvent like any other. It may end on another thread, or on a
// lane, so its chunk may come before that of its arguments.
//
// The event's inputs are the key and the value of each argument, in turn: input_count is twice the
// number of arguments that the program gave, described_count twice that of those that follow.
//
//   key    kString, 1 to kMaxArgumentKeyBytes bytes; kInputCut: it was longer
//   value  kNone, kInt, kDouble, kBool, kString; kInputCut: it was longer. kOther: none of these.
//
// A daemon that does not know the scope takes the event for an operator of which no range is kept;
// where it records no operators, it counts the event as one of an unknown kind.
#ifndef PROFD_PROTO_WIRE_RANGE_ARGUMENTS_H_
#define PROFD_PROTO_WIRE_RANGE_ARGUMENTS_H_

#include <cstdint>

#include "proto/wire/event.h"

namespace profd::wire {

inline constexpr uint8_t kArgumentScope = 128;
static_assert(kArgumentScope > kMaxOperatorScope);  // Not one of torch's.

inline constexpr uint32_t kMaxRangeArguments = 32;  // Of one range; more are left out.
inline constexpr uint32_t kMaxArgumentKeyBytes = 64;
static_assert(kMaxArgumentKeyBytes <= kMaxInputStringBytes);
static_assert(2 * kMaxRangeArguments <= UINT8_MAX);  // OperatorEvent.input_count

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_RANGE_ARGUMENTS_H_
