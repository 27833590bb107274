#include "daemon/capture/access.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

constexpr std::array<std::pair<Verb, std::string_view>, kVerbCount> kVerbNames = {{
    {Verb::kList, "list"},
    {Verb::kRead, "read"},
    {Verb::kCapture, "capture"},
    {Verb::kCaptureStacks, "capture-with-stacks"},
    {Verb::kSchedule, "schedule"},
    {Verb::kDelete, "delete"},
    {Verb::kAdmin, "admin"},
}};

constexpr size_t kMaxNameBytes = 256;

class OwnerAndRoot final : public AccessRules {
 public:
  bool Allows(const Principal& who, Verb verb, const Ownership& owner) const override {
    if (!who.IsLocal()) return false;
    return who.uid == 0 || (verb != Verb::kAdmin && who.uid == owner.uid);
  }
  bool AllowsAny(const Principal& who, Verb verb) const override {
    return who.IsLocal() && (who.uid == 0 || verb != Verb::kAdmin);
  }
  bool AllowsAll(const Principal& who, Verb /*verb*/) const override { return who.uid == 0; }
};

}  // namespace

std::string_view ToString(Verb verb) { return kVerbNames.at(static_cast<size_t>(verb)).second; }

std::optional<Verb> VerbFromString(std::string_view text) {
  for (const auto& [verb, name] : kVerbNames) {
    if (name == text) return verb;
  }
  return std::nullopt;
}

std::string PrincipalName(const Principal& principal) {
  if (principal.IsLocal()) return StrCat("uid:", principal.uid);
  if (!principal.spiffe_id.empty()) return ForDisplay(principal.spiffe_id, kMaxNameBytes);
  if (!principal.common_name.empty()) {
    return ForDisplay(StrCat("cn:", principal.common_name), kMaxNameBytes);
  }
  if (!principal.dns_names.empty()) {
    return ForDisplay(StrCat("dns:", principal.dns_names.front()), kMaxNameBytes);
  }
  return "unknown";
}

quota::Principal QuotaPrincipalOf(const Principal& principal) {
  if (!principal.IsLocal()) return quota::RemotePrincipal(PrincipalName(principal));
  return quota::LocalPrincipal(principal.uid, geteuid(), {.job = principal.job});
}

Ownership OwnerOf(const TargetInfo& target) {
  return {.uid = target.uid,
          .job = target.workload.slurm_job,
          .pod_namespace = target.workload.pod_namespace};
}

Ownership OwnerOf(const CaptureRecord& record) { return OwnerOf(record.target); }

std::shared_ptr<const AccessRules> OwnerAndRootRules() {
  static const auto& rules = *new std::shared_ptr<const AccessRules>(new OwnerAndRoot);
  return rules;
}

absl::Status NotAllowed(const Caller& who, Verb verb, std::string_view what) {
  return WithReason(absl::PermissionDeniedError(
                        StrCat(PrincipalName(who.principal), " may not ", ToString(verb), " ", what,
                               "; the administrator of this node can allow it in profd's policy "
                               "file")),
                    "NOT_ALLOWED");
}

bool Caller::May(Verb verb, const Ownership& owner) const {
  if (!(rules != nullptr ? *rules : *OwnerAndRootRules()).Allows(principal, verb, owner)) {
    return false;
  }
  // Acting on what belongs to others needs an audit entry, so that there must be room for one.
  const bool is_own = principal.IsLocal() && owner.uid == principal.uid;
  return others == nullptr || verb == Verb::kList || is_own || others->MayProceed();
}
bool Caller::MayAny(Verb verb) const {
  return (rules != nullptr ? *rules : *OwnerAndRootRules()).AllowsAny(principal, verb);
}
bool Caller::MayAll(Verb verb) const {
  return (rules != nullptr ? *rules : *OwnerAndRootRules()).AllowsAll(principal, verb);
}

}  // namespace profd
