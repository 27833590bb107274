// What commands share that show one report of one capture: the tables below the capture's header,
// or JSON. Their argument is the capture; --limit bounds each table.
#ifndef PROFD_CLI_COMMANDS_SHOW_REPORT_H_
#define PROFD_CLI_COMMANDS_SHOW_REPORT_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "cli/captures/capture_source.h"
#include "cli/client/invocation.h"
#include "cli/render/capture.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {

// `get(source)` makes the report; `write_json(view, report, limit, json)` and
// `render(report, limit, style)` show it. Without --limit people see `rows_for_people` rows of a
// table, and scripts all (0).
template <typename Get, typename WriteJson, typename Render>
absl::StatusOr<int> ShowReport(Invocation& invocation, int64_t rows_for_people, const Get& get,
                               const WriteJson& write_json, const Render& render) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, invocation.flags().Int("limit", 0));
  ASSIGN_OR_RETURN(const std::unique_ptr<CaptureSource> source,
                   OpenCaptureSource(invocation, invocation.arguments().front()));
  ASSIGN_OR_RETURN(const auto report, get(*source));
  if (invocation.json()) {
    JsonWriter json;
    write_json(source->view(), report, limit.value_or(0), json);
    invocation.Print(json.TakeLine());
  } else {
    const Style style = StyleFor(source->view(), invocation.style());
    invocation.Print(RenderReportHeader(source->view(), invocation.style()));
    invocation.Print(render(report, limit.value_or(rows_for_people), style));
  }
  return 0;
}

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_SHOW_REPORT_H_
