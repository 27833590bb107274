// The audit log as text and as JSON.
//
// Threads: pure functions.
#ifndef PROFD_CLI_RENDER_AUDIT_H_
#define PROFD_CLI_RENDER_AUDIT_H_

#include <span>
#include <string>
#include <vector>

#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

struct AuditRow {
  std::string node;
  AuditLine line;
};

// `shows_node`: with a column for the node.
std::string RenderAudit(std::span<const AuditRow> rows, bool shows_node, const Style& style);
// {"entries": [...], "nodes": [...]}; `outcomes` nullptr: one daemon was asked.
void WriteAuditJson(std::span<const AuditRow> rows, const std::vector<NodeOutcome>* outcomes,
                    JsonWriter& json);

std::vector<table::Column> AuditColumns();
void WriteAuditSchema(JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_AUDIT_H_
