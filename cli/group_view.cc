#include "cli/group_view.h"

#include "cli/errors.h"
#include "cli/render_capture.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

bool Missed(const CaptureView& view) {
  return IsTerminal(view.record.state) && view.record.state != CaptureState::kComplete;
}

std::string Why(const CaptureView& view) {
  if (!view.record.error_message.empty()) return view.record.error_message;
  const std::string_view advice = AdviceForEnd(view.ended_by);
  return std::string(advice.empty() ? std::string_view(view.ended_by) : advice);
}

}  // namespace

void WriteGroupJson(std::span<const CaptureView> views, std::span<const std::string> paths,
                    JsonWriter& json) {
  json.BeginObject();
  json.Field("group", views.empty() ? std::string() : views.front().record.group_id);
  json.Key("captures").BeginArray();
  for (size_t i = 0; i < views.size(); ++i) {
    WriteCaptureJson(views[i], i < paths.size() ? paths[i] : std::string(), json);
  }
  json.EndArray();
  json.Key("missed").BeginArray();
  for (const CaptureView& view : views) {
    if (!Missed(view)) continue;
    json.BeginObject();
    json.Field("id", view.record.id);
    json.Field("pid", view.record.target.pid);
    json.Field("state", view.state);
    json.Field("ended_by", view.ended_by);
    json.Field("error_reason", view.record.error_reason);
    json.Field("error_message", view.record.error_message);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

std::string RenderGroup(std::span<const CaptureView> views, const Style& style) {
  if (views.empty()) return "";
  std::string text = StrCat(
      style.Paint(Colour::kBold,
                  StrCat("Group ", views.front().record.group_id, "  ", views.size(), " targets")),
      "\n", RenderGroupTable(views, style));
  for (const CaptureView& view : views) {
    if (!Missed(view)) continue;
    StrAppend(&text, "pid ", view.record.target.pid, " is ", view.state, ": ",
              ForDisplay(Why(view), 1000), "\n");
  }
  return text;
}

}  // namespace profd::cli
