// Bytes as the list behind --nodes: what is accepted has names and addresses of its own, and a
// hostlist says the same when it is made short.
#include <set>
#include <string>
#include <string_view>

#include "cli/base/hostlist.h"
#include "cli/captures/node_source.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd::cli {
namespace {

void CheckNodes(std::string_view text) {
  const auto nodes = ParseNodes(text);
  if (!nodes.ok()) return;
  Require(!nodes->empty() && nodes->size() <= kMaxNodes);
  std::set<std::string> names;
  std::set<std::string> addresses;
  for (const NamedNode& node : *nodes) {
    Require(!node.name.empty());
    Require(names.insert(node.name).second);
    Require(addresses.insert(node.address).second);
  }
}

void CheckHosts(std::string_view text) {
  const auto hosts = ExpandHostlist(text);
  if (!hosts.ok()) return;
  Require(hosts->size() <= kMaxHosts);
  const auto again = ExpandHostlist(CompressHostlist(*hosts));
  Require(again.ok());
  Require(std::set<std::string>(again->begin(), again->end()) ==
          std::set<std::string>(hosts->begin(), hosts->end()));
}

}  // namespace
}  // namespace profd::cli

PROFD_FUZZ_TARGET(FuzzNodeList)(std::span<const uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  profd::cli::CheckNodes(text);
  profd::cli::CheckHosts(text);
}
