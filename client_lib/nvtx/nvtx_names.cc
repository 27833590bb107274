#include "client_lib/nvtx/nvtx_names.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/name_table.h"
#include "client_lib/core/recorder.h"

namespace profd::client::nvtx {
namespace {

constexpr char kUnnamed[] = "(unnamed)";
constexpr uint32_t kFirstDomainStack = kDefaultStack + 1;
// Tells a string's handle from a pointer or a small number.
constexpr uint64_t kStringMark = uint64_t{0x50524653} << 32;

constinit std::atomic<uint32_t> g_domains[kMaxDomains] = {};  // Names of domains, in order.

// (stack << 16) | name id of the text that was met last at an address with this hash.
constexpr uint32_t kKnownTexts = 4096;
constinit std::atomic<uint32_t> g_known_texts[kKnownTexts] = {};
static_assert(wire::kMaxNames <= 1u << 16 && kFirstDomainStack + kMaxDomains <= 1u << 16);

std::atomic<uint32_t>& KnownText(uint16_t stack, const char* text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;
  const uint64_t key = reinterpret_cast<uintptr_t>(text) + uint64_t{stack} * 0x10001;
  return g_known_texts[key * kMultiplier >> 52];
}
static_assert(kKnownTexts == 1u << (64 - 52));

NameView NameOfDomain(uint16_t stack) {
  NameView name{nullptr, 0};
  if (stack >= kFirstDomainStack) {
    g_names.Find(g_domains[stack - kFirstDomainStack].load(std::memory_order_acquire), &name);
  }
  return name;
}

// Whether `text` is what name `id` says after its domain.
bool IsNameOf(uint32_t id, uint16_t stack, const char* text) {
  NameView name;
  if (!g_names.Find(id, &name)) return false;
  uint32_t skipped = 0;
  if (stack != kDefaultStack) skipped = NameOfDomain(stack).length + 1;
  if (name.length < skipped || name.length == wire::kMaxNameBytes) return false;
  const uint32_t length = name.length - skipped;
  return strncmp(text, name.bytes + skipped, length) == 0 && text[length] == '\0';
}

// "domain:"; nothing for the default one. Returns its bytes.
uint32_t PutDomain(uint16_t stack, char (&name)[wire::kMaxNameBytes]) {
  const NameView domain = NameOfDomain(stack);
  if (domain.length == 0) return 0;
  uint32_t used = domain.length < sizeof(name) ? domain.length : sizeof(name) - 1;
  memcpy(name, domain.bytes, used);
  name[used++] = ':';
  return used;
}

uint32_t InternIn(uint16_t stack, const char* text, size_t length) {
  char name[wire::kMaxNameBytes];
  const uint32_t used = PutDomain(stack, name);
  if (used == 0) return InternName(text, length);
  const size_t room = sizeof(name) - used;
  const size_t taken = length < room ? length : room;
  memcpy(name + used, text, taken);
  if (taken == length) return InternName(name, used + taken);
  wire::LongNameHash hash;
  hash.Add(name, used);
  hash.Add(text, length);
  return InternName(name, wire::MarkLongName(name, hash));
}

// The same name as that of an equal text in UTF-8.
uint32_t InternIn(uint16_t stack, const wchar_t* text) {
  char name[wire::kMaxNameBytes];
  uint32_t used = PutDomain(stack, name);
  used += ToUtf8(text, name + used, sizeof(name) - used, &text);
  if (PROFD_LIKELY(*text == 0)) return InternName(name, used);
  wire::LongNameHash hash;
  hash.Add(name, used);
  while (*text != 0) {
    char piece[256];
    hash.Add(piece, ToUtf8(text, piece, sizeof(piece), &text));
  }
  return InternName(name, wire::MarkLongName(name, hash));
}

PROFD_NOINLINE uint32_t MeetText(uint16_t stack, const char* text) {
  const uint32_t id = InternIn(stack, text, strlen(text));
  KnownText(stack, text).store(uint32_t{stack} << 16 | id, std::memory_order_relaxed);
  return id;
}

String StringOf(uint32_t name_id) {
  return reinterpret_cast<String>(static_cast<uintptr_t>(kStringMark | name_id));
}

Domain DomainOf(uint32_t name_id) {
  if (name_id == wire::kOtherNameId) return nullptr;
  for (uint32_t i = 0; i < kMaxDomains; ++i) {
    uint32_t known = 0;
    if (g_domains[i].compare_exchange_strong(known, name_id, std::memory_order_acq_rel) ||
        known == name_id) {
      return reinterpret_cast<Domain>(uintptr_t{kFirstDomainStack + i});
    }
  }
  return nullptr;
}

}  // namespace

uint16_t StackOf(Domain domain) {
  const auto stack = reinterpret_cast<uintptr_t>(domain);
  const bool is_ours = stack >= kFirstDomainStack && stack < kFirstDomainStack + kMaxDomains;
  return is_ours ? static_cast<uint16_t>(stack) : kDefaultStack;
}

Domain MakeDomain(const char* name) {
  if (name == nullptr || *name == 0) return nullptr;
  return DomainOf(InternName(name, strlen(name)));
}

Domain MakeDomain(const wchar_t* name) {
  if (name == nullptr || *name == 0) return nullptr;
  return DomainOf(InternIn(kDefaultStack, name));
}

String RegisterString(Domain domain, const char* text) {
  if (text == nullptr) return nullptr;
  return StringOf(InternIn(StackOf(domain), text, strlen(text)));
}

String RegisterString(Domain domain, const wchar_t* text) {
  return text == nullptr ? nullptr : StringOf(NameOf(StackOf(domain), text));
}

uint32_t NameOf(uint16_t stack, const char* text) {
  if (PROFD_UNLIKELY(text == nullptr)) text = kUnnamed;
  const uint32_t known = KnownText(stack, text).load(std::memory_order_relaxed);
  const uint32_t id = known & 0xffff;
  if (PROFD_LIKELY(known >> 16 == stack) && PROFD_LIKELY(IsNameOf(id, stack, text))) return id;
  return MeetText(stack, text);
}

uint32_t NameOf(uint16_t stack, const wchar_t* text) {
  return text == nullptr ? NameOf(stack, kUnnamed) : InternIn(stack, text);
}

uint32_t NameOf(uint16_t stack, const EventAttributes* event) {
  if (event == nullptr || event->size_bytes < sizeof(*event)) return NameOf(stack, kUnnamed);
  switch (event->message_type) {
    case kMessageAscii:
      return NameOf(stack, event->message.ascii);
    case kMessageUnicode:
      return NameOf(stack, event->message.unicode);
    case kMessageRegistered: {
      const auto handle = reinterpret_cast<uintptr_t>(event->message.registered);
      if ((handle & ~uint64_t{0xffff}) == kStringMark) return CheckedId(handle & 0xffff);
      [[fallthrough]];
    }
    default:
      return NameOf(stack, kUnnamed);
  }
}

uint32_t ToUtf8(const wchar_t* text, char* into, uint32_t room, const wchar_t** rest) {
  constexpr char32_t kReplacement = 0xfffd;
  static_assert(sizeof(wchar_t) == 4);
  uint32_t used = 0;
  for (; *text != 0; ++text) {
    auto code = static_cast<char32_t>(*text);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = kReplacement;
    const uint32_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > room - used) break;
    constexpr uint8_t kLeads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    into[used] = static_cast<char>(kLeads[bytes] | code >> 6 * (bytes - 1));
    for (uint32_t i = 1; i < bytes; ++i) {
      into[used + i] = static_cast<char>(0x80 | (code >> 6 * (bytes - 1 - i) & 0x3f));
    }
    used += bytes;
  }
  *rest = text;
  return used;
}

}  // namespace profd::client::nvtx
