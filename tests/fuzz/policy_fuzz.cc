// Bytes as a policy file: what is accepted must decide without contradiction.
#include "daemon/access/policy.h"
#include "tests/fuzz/fuzz_target.h"

PROFD_FUZZ_TARGET(FuzzPolicy)(std::span<const uint8_t> data) {
  const access::AccountNames accounts = {
      .user = [](const std::string& name) { return std::optional<int64_t>(name.size()); },
      .group = [](const std::string& name) { return std::optional<int64_t>(name.size()); }};
  const auto policy = access::ParsePolicy({reinterpret_cast<const char*>(data.data()), data.size()},
                                          "policy", accounts);
  if (!policy.ok()) {
    Require(policy.status().message().substr(0, 6) == "policy");
    return;
  }
  Require(policy->rule_count <= access::kMaxRules);
  const Principal principals[] = {{.uid = 0, .gid = 0},
                                  {.uid = 5, .gid = 5, .groups = {3}},
                                  {.common_name = "alice", .dns_names = {"a.b"}},
                                  {.spiffe_id = "spiffe://c.local/ns/x"},
                                  {}};
  const Ownership owners[] = {
      {}, {.uid = 0}, {.uid = 5, .job = "1"}, {.uid = 7, .pod_namespace = "x"}};
  for (const Principal& who : principals) {
    for (int v = 0; v < kVerbCount; ++v) {
      const auto verb = static_cast<Verb>(v);
      for (const Ownership& owner : owners) {
        const bool may = policy->rules->Allows(who, verb, owner);
        if (may) Require(policy->rules->AllowsAny(who, verb));
        if (policy->rules->AllowsAll(who, verb)) Require(may);
      }
    }
  }
}
