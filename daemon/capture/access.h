// Who asks, and what they may do: the words in which the daemon decides about access.
//
// A principal is who the kernel (a local socket) or TLS (a certificate) vouches for. Everything
// it may touch belongs to a user (Ownership), and everything it may do is one of few verbs.
// AccessRules decide; the daemon's come from a policy file (daemon/access/), and without one an
// owner may do everything with what its uid owns, root with everything, and others nothing.
//
// How do I guard a new RPC?  Choose its verb, and ask `caller.May(verb, owner)` with the owner of
// what it touches before telling or doing anything; what a caller may not list is NOT_FOUND. Add
// its row to the table in tests/rpc/access_test.cc.
#ifndef PROFD_DAEMON_CAPTURE_ACCESS_H_
#define PROFD_DAEMON_CAPTURE_ACCESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/capture/capture_types.h"
#include "daemon/quota/principal.h"

namespace profd {

// Each stands alone: to capture does not include to read.
enum class Verb {
  kList,           // See that it is there: targets, captures, schedules, the node.
  kRead,           // Reports, files, traces of captures.
  kCapture,        // Create and cancel captures.
  kCaptureStacks,  // Ask for stacks in a capture.
  kSchedule,       // Create, change and delete schedules.
  kDelete,         // Delete captures.
  kAdmin,          // The audit log of others, the kill switch, paths of the daemon.
};
inline constexpr int kVerbCount = 7;
std::string_view ToString(Verb verb);  // "capture-with-stacks"
std::optional<Verb> VerbFromString(std::string_view text);

// Who calls. A local caller has a uid, a remote one what its certificate says; never both.
struct Principal {
  int64_t uid = -1;                    // Local.
  int64_t gid = -1;                    // Local.
  std::vector<int64_t> groups;         // Local: supplementary, as far as known.
  std::string common_name;             // Remote: CN of the subject.
  std::vector<std::string> dns_names;  // Remote: subject alternative names.
  std::string spiffe_id;               // Remote: "spiffe://trust-domain/path".
  std::string job;                     // Local: Slurm's, of its cgroup. For quotas alone.

  bool IsLocal() const { return uid >= 0; }
};
// One word for logs, the audit log and limits: "uid:1000", else "spiffe://...", else "cn:alice",
// else "dns:node.example", else "unknown". Cleaned, at most 256 bytes.
std::string PrincipalName(const Principal& principal);
// Whom quotas count for it.
quota::Principal QuotaPrincipalOf(const Principal& principal);

// Whose a thing is. All from facts the kernel vouches for.
struct Ownership {
  int64_t uid = -1;
  std::string job;            // Slurm's; empty: none
  std::string pod_namespace;  // Kubernetes'; empty: none
};
Ownership OwnerOf(const TargetInfo& target);
// "Captures belong to who owned the target."
Ownership OwnerOf(const CaptureRecord& record);

// Threads: any; immutable.
class AccessRules {
 public:
  virtual ~AccessRules() = default;
  virtual bool Allows(const Principal& who, Verb verb, const Ownership& owner) const = 0;
  // Whether there is anything at all that `who` may do that with, for early refusals.
  virtual bool AllowsAny(const Principal& who, Verb verb) const = 0;
  // Whether `who` may do that with everything there is and may be (a listing needs no filter).
  virtual bool AllowsAll(const Principal& who, Verb verb) const = 0;
};
// The rules without a policy file.
std::shared_ptr<const AccessRules> OwnerAndRootRules();

// Asked before a caller acts on what belongs to others: such calls must go on record.
//
// Threads: any.
class OthersGate {
 public:
  virtual ~OthersGate() = default;
  virtual bool MayProceed() = 0;
};

// A principal with the rules as they were when its call came.
struct Caller {
  int64_t uid = -1;  // As principal.uid.
  Principal principal = {.uid = uid};
  std::shared_ptr<const AccessRules> rules = nullptr;  // nullptr: OwnerAndRootRules().
  // Asked by May() for what belongs to others, except for kList; nullptr: none is asked.
  std::shared_ptr<OthersGate> others = nullptr;

  bool May(Verb verb, const Ownership& owner) const;
  bool MayAny(Verb verb) const;
  bool MayAll(Verb verb) const;
};

// PERMISSION_DENIED (NOT_ALLOWED): `who` may not do that with `what` ("capture 01H...").
absl::Status NotAllowed(const Caller& who, Verb verb, std::string_view what);

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_ACCESS_H_
