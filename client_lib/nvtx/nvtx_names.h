// From what NVTX calls carry (a domain, a text, a registered string) to name ids.
//
// A range of domain D named N is called "D:N", one of the default domain just "N". Handles
// hold the number itself, so nothing is looked up by them and a made-up one does no harm.
//
// Threads:  any; no lock.
// Hot path: NameOf() of a text that was met before compares it with the name it had then,
//           found by the text's address: texts in reused buffers are no wrong names. No
//           allocation, no system call. A name of a registered string is in its handle.
// Errors:   what finds no room is called "(other)" and counted, as for all names.
#ifndef PROFD_CLIENT_LIB_NVTX_NVTX_NAMES_H_
#define PROFD_CLIENT_LIB_NVTX_NVTX_NAMES_H_

#include <cstdint>

#include "client_lib/nvtx/nvtx_abi.h"

namespace profd::client::nvtx {

inline constexpr uint32_t kMaxDomains = 1024;

// The stack (recorder.h) that the ranges of a domain are on; also its number among names.
inline constexpr uint16_t kDefaultStack = 1;
uint16_t StackOf(Domain domain);

// The domain of that name; the same for the same name. Null, the default one, for no name and
// beyond kMaxDomains.
Domain MakeDomain(const char* name);
Domain MakeDomain(const wchar_t* name);

String RegisterString(Domain domain, const char* text);
String RegisterString(Domain domain, const wchar_t* text);

// A null text is "(unnamed)".
uint32_t NameOf(uint16_t stack, const char* text);
uint32_t NameOf(uint16_t stack, const wchar_t* text);
// The event's message. A null event is "(unnamed)", too.
uint32_t NameOf(uint16_t stack, const EventAttributes* event);

// The longest start of `text` that fits, as UTF-8, without a terminator. Returns its bytes, and
// sets `rest` to what does not fit.
uint32_t ToUtf8(const wchar_t* text, char* into, uint32_t room, const wchar_t** rest);

}  // namespace profd::client::nvtx

#endif  // PROFD_CLIENT_LIB_NVTX_NVTX_NAMES_H_
