#include "daemon/export/chrome/flows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/report/index/source_kinds.h"

namespace profd::exporter {
namespace {

// Of an arrow: its number, its time, and what is between its parts.
constexpr size_t kMostNumberAndTimeBytes =
    SourceArguments::kMostValueBytes + 2 * kMostNumberBytes + 32;

bool IsFlowPhase(char phase) { return phase == 's' || phase == 't' || phase == 'f'; }

std::string HeadOfFlow(char phase) { return StrCat(",\n{\"ph\":\"", std::string(1, phase), "\""); }

}  // namespace

ChromeFlows::ChromeFlows(SourceArguments& source, bool is_merged, OutputBuffer& out)
    : source_(source), out_(out) {
  if (is_merged) return;
  has_any_ = source.HasKinds(report::kFlowsOf, 2 * report::kFlowsOf - 1) ||
             source.HasKind(report::kArgumentOfLooseFlow);
  FindLoose();
}

// "f2,"cat":..." is the second arrow of its event.
const ChromeFlows::Shape& ChromeFlows::ShapeOf(const SourceArguments::Argument& flow) {
  // Parsed once for each name: a trace may have millions of arrows, and few names.
  if (flow.key >= shapes_.size()) shapes_.resize(size_t{flow.key} + 1);
  Shape& shape = shapes_[flow.key];
  if (shape.is_known) return shape;
  shape.is_known = true;
  const std::string_view text = source_.NameOf(flow);
  const size_t comma = std::min(text.find(','), text.size());
  if (text.empty() || !IsFlowPhase(text[0])) return shape;
  const std::string_view members = text.substr(comma);
  // It is written as it is, so it must not end the object early.
  if (!members.empty() && !IsPlainJson(StrCat("{", members.substr(1), "}"))) return shape;
  shape.head = HeadOfFlow(text[0]);
  shape.tail = StrCat(members.size() > 1 ? members : std::string_view(), "}");
  return shape;
}

void ChromeFlows::FindLoose() {
  struct Found {
    const SourceArguments::Argument* event = nullptr;
    const SourceArguments::Argument* id = nullptr;
    const SourceArguments::Argument* time = nullptr;
  };
  const auto take = [&](const Found& found) {
    if (found.event == nullptr || found.time == nullptr ||
        found.time->type != static_cast<uint8_t>(ArgumentType::kInteger) ||
        !report::IsWithinReachOfFlows(found.time->value)) {
      return;
    }
    const auto event = nlohmann::ordered_json::parse(source_.JsonOf(*found.event), nullptr,
                                                     /*allow_exceptions=*/false);
    if (!event.is_object()) return;
    Loose loose = {.head = "",
                   .row = "",
                   .tail = "",
                   .time_ns = found.time->value,
                   .id = found.id != nullptr ? *found.id : SourceArguments::Argument{}};
    if (found.id == nullptr) loose.id.type = static_cast<uint8_t>(ArgumentType::kAbsent);
    for (const auto& [key, value] : event.items()) {
      if (key == "ph") {
        const std::string phase = value.is_string() ? value.get<std::string>() : "";
        if (phase.size() == 1 && IsFlowPhase(phase[0])) loose.head = HeadOfFlow(phase[0]);
        continue;
      }
      // Written from elsewhere.
      if (key == "id" || key == "ts") continue;
      const bool is_place = key == "pid" || key == "tid";
      std::string& text = is_place ? loose.row : loose.tail;
      if (!is_place) text += ",";
      AppendJsonString(key, text);
      StrAppend(&text, ":", value.dump(), is_place ? "," : "");
    }
    if (loose.head.empty()) return;
    loose.row += "\"ts\":";
    loose.tail += "}";
    earliest_ns_ = std::min(earliest_ns_, loose.time_ns);
    loose_.push_back(std::move(loose));
  };
  Found found;
  std::optional<uint32_t> row;
  for (const SourceArguments::Argument& argument : source_.AllOf(report::kArgumentOfLooseFlow)) {
    if (row != argument.row) {
      take(found);
      found = {};
      row = argument.row;
    }
    const std::string_view key = source_.NameOf(argument);
    if (key == report::kFlowKey) found.event = &argument;
    if (key == report::kFlowIdKey) found.id = &argument;
    if (key == report::kFlowTimeKey) found.time = &argument;
  }
  take(found);
}

void ChromeFlows::Write(uint8_t of, uint32_t thread, uint32_t number, std::string_view row,
                        uint64_t ts) {
  if (!has_any_) return;
  const auto kind = static_cast<uint8_t>(of + report::kFlowsOf);
  for (const SourceArguments::Argument& flow : source_.Of(kind, thread, number).arguments) {
    const Shape& shape = ShapeOf(flow);
    if (!shape.head.empty()) WriteOne(shape.head, flow, row, ts, shape.tail);
  }
}

void ChromeFlows::WriteLoose(const TraceClock& clock) {
  for (const Loose& loose : loose_) {
    WriteOne(loose.head, loose.id, loose.row, clock.At(loose.time_ns), loose.tail);
  }
}

void ChromeFlows::WriteOne(std::string_view head, const SourceArguments::Argument& id,
                           std::string_view row, uint64_t ts, std::string_view tail) {
  char* at = out_.Reserve(head.size() + row.size() + kMostNumberAndTimeBytes);
  at = PutText(at, head);
  if (id.type != static_cast<uint8_t>(ArgumentType::kAbsent)) {
    at = source_.PutValue(PutText(at, ",\"id\":"), id);
  }
  *at++ = ',';
  at = PutText(at, row);
  out_.Commit(PutMicros(at, ts));
  // Of any length: dump() writes a number such as 1e14 out.
  out_.Append(tail);
}

}  // namespace profd::exporter
