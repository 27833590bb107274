#include "daemon/import/other_events.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/import/json/skip.h"

namespace profd::importer {
namespace {

// Of times that an event takes: `,"ts":T,"dur":T`, and what is around events.
constexpr size_t kMostAddedBytes = 64;
// No time lies further from the capture.
constexpr int64_t kMostNs = int64_t{366} * 24 * 3600 * 1'000'000'000;

void AppendText(std::string_view key, std::string_view inside_of_quotes, std::string& text) {
  if (!inside_of_quotes.empty()) StrAppend(&text, ",\"", key, "\":\"", inside_of_quotes, "\"");
}
void AppendJson(std::string_view key, std::string_view json, std::string& text) {
  if (!json.empty()) StrAppend(&text, ",\"", key, "\":", CompactJson(json));
}

}  // namespace

void OtherEvents::Add(const TraceEvent& event) {
  Kept kept;
  kept.head = StrCat("{\"ph\":\"", std::string(1, event.phase), "\"");
  AppendText("s", event.scope, kept.head);
  AppendText("cat", event.category, kept.head);
  AppendText("name", event.name, kept.head);
  AppendJson("pid", event.pid, kept.head);
  AppendJson("tid", event.tid, kept.head);
  for (const RawArgument& argument : event.arguments) {
    StrAppend(&kept.tail, kept.tail.empty() ? ",\"args\":{\"" : ",\"", argument.key,
              "\":", CompactJson(argument.json));
  }
  kept.tail += kept.tail.empty() ? "}" : "}}";
  bytes_ += kept.head.size() + kept.tail.size() + kMostAddedBytes;
  if (bytes_ > kMaxBytes || !nlohmann::json::accept(kept.head + kept.tail)) return;
  // The labels of rows are of no time.
  if (event.phase != 'M' && event.start.has_value()) kept.start_ns = event.start->ns;
  if (event.phase == 'X' && event.duration.has_value()) kept.duration_ns = event.duration->ns;
  kept_.push_back(std::move(kept));
}

std::string OtherEvents::Take(int64_t start_ns) {
  std::string all;
  for (const Kept& kept : kept_) {
    std::string times;
    if (kept.start_ns.has_value()) {
      int64_t since_ns = 0;
      if (__builtin_sub_overflow(*kept.start_ns, start_ns, &since_ns) || since_ns > kMostNs ||
          since_ns < -kMostNs || kept.duration_ns.value_or(0) > kMostNs) {
        continue;
      }
      StrAppend(&times, ",\"ts\":", since_ns);
      if (kept.duration_ns.has_value()) StrAppend(&times, ",\"dur\":", *kept.duration_ns);
    }
    StrAppend(&all, all.empty() ? "[" : ",", kept.head, times, kept.tail);
  }
  if (!all.empty()) all += "]";
  kept_.clear();
  return all;
}

}  // namespace profd::importer
