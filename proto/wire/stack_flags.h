// Flags of wire::StackFrameEvent besides kStackFlagCut, which proto/wire/event.h has.
#ifndef PROFD_PROTO_WIRE_STACK_FLAGS_H_
#define PROFD_PROTO_WIRE_STACK_FLAGS_H_

#include <cstdint>

namespace profd::wire {

// The frame calls a module, and so did the thread's last stack at this place, but that was an
// earlier call: the module has returned and was called again with no other stack in between. Of
// calls that follow each other in this way, every second one has the flag.
inline constexpr uint8_t kStackFlagAgain = 1 << 1;

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_STACK_FLAGS_H_
