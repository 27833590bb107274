// The policy: who may do what with what, from the lines of a file.
//
//   # allow|deny  PRINCIPAL                        VERBS         SELECTOR
//   allow         group:ml-infra                   list,read     all
//   allow         spiffe://cluster.local/ns/ops/*  all           all
//   allow         cn:ci                            capture,read  job:88123
//   deny          any                              capture       namespace:payments
//   map           cn:alice                         uid:1000
//
// The first rule that matches decides; where none does, an owner may do everything but `admin`
// with what is its own, root everything, and others nothing. So `deny any all all` at the
// end of the file leaves only what stands above it, also to root.
//
// PRINCIPAL  uid:N, user:NAME, gid:N, group:NAME for local callers; cn:X, dns:X, spiffe://X for
//            what a caller's certificate says, with `*` at the end for "begins with"; `any` for
//            everybody the daemon knows, and `unknown` for callers without a certificate.
// VERBS      of capture/access.h, with commas between them; or `all`.
// SELECTOR   own, uid:N, user:NAME, job:ID (Slurm's), namespace:NAME (Kubernetes'), or all.
// map        What the certificate says is taken for that user of this node: `own` is what belongs
//            to it, rules for the uid hold, and the rules without a file, too.
//
// Words with spaces stand in double quotes. What the file can refer to comes from the kernel and
// from certificates: nothing a workload says of itself decides.
//
// Threads: any; what comes out never changes.
#ifndef PROFD_DAEMON_ACCESS_POLICY_H_
#define PROFD_DAEMON_ACCESS_POLICY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/capture/access.h"

namespace profd::access {

inline constexpr size_t kMaxPolicyBytes = 1 << 20;
inline constexpr int64_t kMaxRules = 4096;

// Names of this machine's users and groups; nullopt: there is none.
struct AccountNames {
  std::function<std::optional<int64_t>(const std::string& name)> user;
  std::function<std::optional<int64_t>(const std::string& name)> group;
  static AccountNames OfThisMachine();
};

struct Policy {
  std::shared_ptr<const AccessRules> rules;
  int64_t rule_count = 0;  // With `map` lines.
};

// INVALID_ARGUMENT: "NAME:LINE: what is wrong; what to write instead".
absl::StatusOr<Policy> ParsePolicy(std::string_view text, std::string_view name,
                                   const AccountNames& accounts);

}  // namespace profd::access

#endif  // PROFD_DAEMON_ACCESS_POLICY_H_
