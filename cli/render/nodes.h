// Formats the state of one daemon or of many nodes' daemons, as text and as JSON.
//
// Threads: pure functions.
#ifndef PROFD_CLI_RENDER_NODES_H_
#define PROFD_CLI_RENDER_NODES_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

// The answer of one daemon.
struct NodeAnswer {
  std::string node;  // Its name in --nodes; empty: --nodes was not given.
  std::string address;
  std::optional<NodeInfo> info;  // nullopt: it did not answer.
};

std::string RenderNode(const NodeInfo& node, const std::string& address, const Style& style);
void WriteNodeJson(const NodeAnswer& answer, JsonWriter& json);
void WriteNodeSchema(JsonWriter& json);

// A row for each node that answered; empty: none did.
std::string RenderNodes(std::span<const NodeAnswer> answers, const Style& style);
// {"daemons": [...], "nodes": [...]}
void WriteNodesJson(std::span<const NodeAnswer> answers, const std::vector<NodeOutcome>& outcomes,
                    JsonWriter& json);
void WriteNodesSchema(JsonWriter& json);
std::vector<table::Column> NodeColumns();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_NODES_H_
