#include "daemon/quota/principal.h"

#include <charconv>

#include "daemon/base/str_cat.h"

namespace profd::quota {
namespace {

constexpr std::string_view kUidPrefix = "uid:";

}  // namespace

Principal LocalPrincipal(int64_t uid, int64_t own_uid, const Place& place) {
  Principal principal;
  principal.account = StrCat(kUidPrefix, uid);
  if (!place.job.empty()) {
    principal.name = StrCat(principal.account, "/job:", place.job);
  } else if (!place.pod.empty()) {
    principal.name = StrCat(principal.account, "/pod:", place.pod);
  } else if (!place.container.empty()) {
    principal.name = StrCat(principal.account, "/container:", place.container);
  } else {
    principal.name = principal.account;
    // Root of a container is not the operator of the machine.
    principal.is_operator = !place.in_container && (uid == 0 || uid == own_uid);
  }
  return principal;
}

Principal RemotePrincipal(std::string_view name) {
  // Without this, a certificate for the name "uid:0" would be root.
  const std::string_view prefix = name.starts_with(kUidPrefix) ? "remote:" : "";
  const std::string account = StrCat(prefix, name);
  return {.account = account, .name = account, .is_operator = false};
}

Principal PrincipalFromName(std::string_view name, int64_t own_uid) {
  if (!name.starts_with(kUidPrefix)) return RemotePrincipal(name);
  const size_t slash = name.find('/');
  const std::string_view account = name.substr(0, slash);
  int64_t uid = -1;
  std::from_chars(account.data() + kUidPrefix.size(), account.data() + account.size(), uid);
  return {.account = std::string(account),
          .name = std::string(name),
          .is_operator = slash == std::string_view::npos && (uid == 0 || uid == own_uid)};
}

std::string NameFor(const Principal& reader, const Principal& who) {
  if (reader.is_operator || reader.account == who.account) return who.name;
  if (who.account.starts_with(kUidPrefix)) {
    return StrCat("uid ", who.account.substr(kUidPrefix.size()));
  }
  return "a remote caller";
}

}  // namespace profd::quota
