#include "tests/export/trace_rules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <regex>
#include <tuple>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd {
namespace {

struct Span {
  int64_t start_ns;
  int64_t end_ns;
  std::string name;
};

class Rules {
 public:
  Rules(std::string_view text, const JsonValue& root) : text_(text), root_(root) {}

  std::vector<std::string> Check() {
    CheckHeader();
    CheckRank();
    for (const JsonValue& event : root_["traceEvents"].items) CheckEvent(event);
    CheckNesting();
    CheckSteps();
    CheckEnd();
    return std::move(offences_);
  }

 private:
  template <typename... Parts>
  void Offend(const Parts&... parts) {
    if (offences_.size() < 20) offences_.push_back(StrCat(parts...));
  }

  void CheckHeader() {
    const std::vector<std::string_view> order = {
        "schemaVersion",   "deviceProperties", "host_name",           "trace_id",    "profd",
        "distributedInfo", "displayTimeUnit",  "baseTimeNanoseconds", "traceEvents", "traceName"};
    std::vector<std::string_view> wanted = order;
    if (root_.Find("distributedInfo") == nullptr) std::erase(wanted, "distributedInfo");
    std::vector<std::string_view> found;
    for (const auto& [key, value] : root_.members) found.push_back(key);
    if (found != wanted) Offend("the header's members are not those of the contract, in order");
    if (!root_["traceEvents"].is_array()) Offend("traceEvents is no list");
    if (!root_["baseTimeNanoseconds"].is_integer()) Offend("baseTimeNanoseconds is no integer");
    if (root_["schemaVersion"].text != "1") Offend("schemaVersion is not 1");
  }

  void CheckRank() {
    const std::string header(text_.substr(0, text_.find("\"traceEvents\"")));
    const std::regex rank(R"re("rank":\s+(\d+))re");
    const auto count = std::distance(std::sregex_iterator(header.begin(), header.end(), rank),
                                     std::sregex_iterator());
    const bool has_rank = root_["distributedInfo"].Find("rank") != nullptr;
    if (count != (has_rank ? 1 : 0)) Offend("\"rank\": N stands ", count, " times in the header");
  }

  void CheckEvent(const JsonValue& event) {
    const std::string& phase = event["ph"].text;
    const std::string& name = event["name"].text;
    if (!event["pid"].is_integer() || !event["tid"].is_integer()) {
      Offend("pid and tid of ", name, " are not integers");
    }
    if (name.empty() || name.size() > 4096 || !IsPrintableUtf8(name)) {
      Offend("a name is empty, too long or has control characters: ", ForDisplay(name, 80));
    }
    if (phase == "M") return;
    if (phase != "X" && phase != "i" && phase != "C") Offend("phase ", phase, " of ", name);
    const int64_t start_ns = TraceTimeNs(event["ts"]);
    if (start_ns < 0 || start_ns / 1000 >= int64_t{1} << 53) {
      Offend("ts of ", name, " is ", event["ts"].text);
    }
    if (phase != "X") return;
    const int64_t duration_ns = TraceTimeNs(event["dur"]);
    if (duration_ns < 0) Offend("dur of ", name, " is ", event["dur"].text);
    const std::string& category = event["cat"].text;
    if (category != "user_annotation" && category != "cpu_op") Offend("category ", category);
    rows_[{event["pid"].integer(), event["tid"].integer()}].push_back(
        {start_ns, start_ns + duration_ns, name});
  }

  void CheckNesting() {
    for (auto& [row, spans] : rows_) {
      std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return std::tuple(a.start_ns, -a.end_ns) < std::tuple(b.start_ns, -b.end_ns);
      });
      std::vector<const Span*> open;
      for (const Span& span : spans) {
        while (!open.empty() && open.back()->end_ns <= span.start_ns) open.pop_back();
        if (!open.empty() && open.back()->end_ns < span.end_ns) {
          Offend(span.name, " overlaps ", open.back()->name, " on row ", row.second);
        }
        open.push_back(&span);
      }
    }
  }

  void CheckSteps() {
    constexpr std::string_view kPrefix = "ProfilerStep#";
    std::map<int64_t, const Span*> steps;
    for (const auto& [row, spans] : rows_) {
      for (const Span& span : spans) {
        if (!span.name.starts_with(kPrefix)) continue;
        int64_t index = -1;
        const char* const last = span.name.data() + span.name.size();
        const auto [end, error] = std::from_chars(span.name.data() + kPrefix.size(), last, index);
        if (error != std::errc() || end != last) continue;  // A user's range.
        if (!steps.emplace(index, &span).second) Offend(span.name, " stands twice");
      }
    }
    for (const auto& [index, span] : steps) {
      const auto next = steps.find(index + 1);
      if (next != steps.end() && next->second->start_ns != span->end_ns) {
        Offend("a gap behind ", span->name);
      }
    }
  }

  void CheckEnd() {
    const std::vector<JsonValue>& events = root_["traceEvents"].items;
    if (events.empty() || events.back()["name"].text != "Record Window End") {
      Offend("the last event is not \"Record Window End\"");
    }
  }

  const std::string_view text_;
  const JsonValue& root_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Span>> rows_;
  std::vector<std::string> offences_;
};

}  // namespace

int64_t TraceTimeNs(const JsonValue& value) {
  const std::string& text = value.text;
  const size_t point = text.find('.');
  if (!value.is_number() || point == std::string::npos || text.size() - point != 4) return -1;
  const std::string digits = text.substr(0, point) + text.substr(point + 1);
  int64_t ns = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ns);
  return error == std::errc() && end == digits.data() + digits.size() ? ns : -1;
}

std::vector<std::string> TraceRuleOffences(std::string_view text, const JsonValue& root) {
  return Rules(text, root).Check();
}

}  // namespace profd
