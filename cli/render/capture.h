// A capture, and how far to trust it, as text and as JSON.
#ifndef PROFD_CLI_RENDER_CAPTURE_H_
#define PROFD_CLI_RENDER_CAPTURE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "cli/base/object.h"
#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/description.h"
#include "daemon/report/index/step_labels.h"

namespace profd::cli {

// A capture as `trace`, `show`, and each row of `captures` have it. What it refers to must outlive
// it.
struct CaptureJson {
  const CaptureView* view = nullptr;
  std::string_view path = {};  // The file that it was fetched to; empty: none.
  std::span<const report::StepLabel> step_labels = {};  // What a framework called the steps.
};
const ObjectDescription<CaptureJson>& CaptureObject();
// `paths`: as `views`, or none.
std::vector<CaptureJson> CaptureRowsOf(std::span<const CaptureView> views,
                                       std::span<const std::string> paths = {});
void WriteCaptureJson(const CaptureView& view, std::string_view path, JsonWriter& json,
                      std::span<const report::StepLabel> step_labels = {});
// {"captures": [...], "nodes": [...]}; `outcomes` nullptr: one daemon or store was asked.
void WriteCaptureListJson(std::span<const CaptureView> views,
                          const std::vector<NodeOutcome>* outcomes, JsonWriter& json);
void WriteCaptureListSchema(JsonWriter& json);
// As fields of an open object: what a report says of the capture it is over.
void WriteReportHeaderJson(const CaptureView& view, JsonWriter& json);
// Its fields.
const table::Description<CaptureView>& ReportHeaderColumns();

// All about one capture, some lines.
std::string RenderCapture(const CaptureView& view, const Style& style,
                          std::span<const report::StepLabel> step_labels = {});
// The captures whose events were removed to make room for these: a line; empty: there are none.
std::string RenderEvicted(std::span<const CaptureView> views);
// How far shares of a whole mean what they say, by what was lost.
ShareTrust SharesOf(const CaptureView& view);
// `style`, for tables of this capture.
Style StyleFor(const CaptureView& view, Style style);
// Above a report: which capture it is over, and RenderQuality().
std::string RenderReportHeader(const CaptureView& view, const Style& style);
// Its first line alone, for reports that state their own quality.
std::string RenderReportTitle(const CaptureView& view, const Style& style);
// The grade and why it is not better: losses by cause with what to do about them. One line
// for a capture that lost nothing.
std::string RenderQuality(const CaptureView& view, const Style& style);

// One row each, newest as given; `now` for ages.
std::string RenderCaptureTable(std::span<const CaptureView> views, absl::Time now,
                               const Style& style);
// The same of several nodes, which the first column names.
std::string RenderNodeCaptureTable(std::span<const CaptureView> views, absl::Time now,
                                   const Style& style);
// One row for each target of a group.
std::string RenderGroupTable(std::span<const CaptureView> views, const Style& style);

std::vector<table::Column> CaptureColumns();
std::vector<table::Column> GroupColumns();

Colour ColourOf(CaptureState state);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_CAPTURE_H_
