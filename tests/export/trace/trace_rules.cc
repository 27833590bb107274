#include "tests/export/trace/trace_rules.h"

#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/check/trace_check.h"

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
    CheckForOthers();
    CheckHeader();
    for (const JsonValue& event : root_["traceEvents"].items) CheckEvent(event);
    CheckGpuRows();
    CheckFlows();
    CheckForwardBackward();
    CheckExternalIds();
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
    const std::vector<std::string_view> order = {"schemaVersion",
                                                 "deviceProperties",
                                                 "host_name",
                                                 "trace_id",
                                                 "simulated",
                                                 "cupti_version",
                                                 "cuda_driver_version",
                                                 "record_shapes",
                                                 "profile_memory",
                                                 "profd",
                                                 "distributedInfo",
                                                 "displayTimeUnit",
                                                 "baseTimeNanoseconds",
                                                 "traceEvents",
                                                 "traceName"};
    std::vector<std::string_view> wanted = order;
    for (const std::string_view optional :
         {"distributedInfo", "simulated", "cupti_version", "cuda_driver_version", "record_shapes",
          "profile_memory"}) {
      if (root_.Find(optional) == nullptr) std::erase(wanted, optional);
    }
    std::vector<std::string_view> found;
    for (const auto& [key, value] : root_.members) found.push_back(key);
    if (found != wanted) Offend("the header's members are not those of the contract, in order");
    if (!root_["traceEvents"].is_array()) Offend("traceEvents is no list");
    if (!root_["baseTimeNanoseconds"].is_integer()) Offend("baseTimeNanoseconds is not an integer");
    if (root_["schemaVersion"].text != "1") Offend("schemaVersion is not 1");
  }

  // What `profctl check` finds.
  void CheckForOthers() {
    const auto report = check::CheckTraceBytes(text_, {});
    if (!report.ok()) {
      Offend(FromAbsl(report.status().message()));
      return;
    }
    for (const check::Finding& finding : report->findings) {
      for (const std::string& example : finding.examples) Offend(finding.rule->id, ": ", example);
    }
    for (const std::string& unchecked : report->unchecked) Offend("not checked: ", unchecked);
  }

  void CheckEvent(const JsonValue& event) {
    const std::string& phase = event["ph"].text;
    const std::string& name = event["name"].text;
    if (name.size() > 4096) Offend("a name is too long: ", ForDisplay(name, 80));
    if (phase == "M") {
      NoteMetadata(event);
      return;
    }
    if (phase == "s" || phase == "f") {
      NoteFlow(event);
      return;
    }
    if (phase != "X" && phase != "i" && phase != "C") Offend("phase ", phase, " of ", name);
    const int64_t start_ns = TraceTimeNs(event["ts"]);
    if (start_ns < 0) Offend("ts of ", name, " is ", event["ts"].text);
    if (phase != "X") return;
    const int64_t duration_ns = TraceTimeNs(event["dur"]);
    if (duration_ns < 0) Offend("dur of ", name, " is ", event["dur"].text);
    CheckSlice(event, start_ns);
    rows_[RowOf(event)].push_back({start_ns, start_ns + duration_ns, name});
  }

  using Row = std::pair<int64_t, int64_t>;  // pid, tid
  static Row RowOf(const JsonValue& event) {
    return {event["pid"].integer(), event["tid"].integer()};
  }

  void CheckSlice(const JsonValue& event, int64_t start_ns) {
    static const std::set<std::string, std::less<>> kCpu = {
        "user_annotation", "cpu_op", "python_function", "cuda_runtime", "cuda_driver"};
    static const std::set<std::string, std::less<>> kGpu = {
        "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead"};
    const std::string& category = event["cat"].text;
    const std::string& name = event["name"].text;
    const JsonValue& arguments = event["args"];
    const bool is_call = category.starts_with("cuda_") && category != "cuda_sync";
    const bool is_work =
        category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
    const bool is_cpu = kCpu.contains(category);
    if (!is_cpu && !kGpu.contains(category)) Offend("category ", category);
    if (is_call && rows_.empty()) Offend("the launch ", name, " is the first slice");
    if (is_call && !arguments["cbid"].is_integer()) Offend(name, " has no cbid");
    if (!is_cpu) gpu_rows_.insert(RowOf(event));
    if (is_cpu && !is_call) {
      operators_.insert({RowOf(event), start_ns});
      CheckInputs(name, arguments);
    }
    if (is_work) CheckWork(event);
    if (const JsonValue* const id = arguments.Find("External id"); id != nullptr) {
      if (!id->is_integer() || id->integer() <= 0) Offend("External id of ", name);
      (is_cpu && !is_call ? external_ids_ : used_external_ids_).push_back(id->integer());
    }
    if (is_call || is_work || category == "cuda_sync") {
      if (!arguments["correlation"].is_integer()) Offend(name, " has no correlation");
      (is_call ? call_ends_ : work_ends_)
          .insert({arguments["correlation"].integer(), RowOf(event), start_ns});
    }
  }

  void CheckInputs(const std::string& name, const JsonValue& arguments) {
    const JsonValue* const dims = arguments.Find("Input Dims");
    for (const std::string_view key : {"Input type", "Input Strides", "Concrete Inputs"}) {
      const JsonValue* const list = arguments.Find(key);
      if (list == nullptr) continue;
      if (!list->is_array()) Offend(key, " of ", name, " is no list");
      if (dims != nullptr && list->items.size() != dims->items.size()) {
        Offend(name, " has not as many ", key, " as Input Dims");
      }
      for (const JsonValue& item : list->items) {
        if (item.is_array() != (key == "Input Strides")) Offend("an item of ", key, " of ", name);
      }
    }
  }

  void CheckWork(const JsonValue& event) {
    const JsonValue& context = event["args"]["context"];
    if (!context.is_integer() || context.integer() < 0) Offend("context of ", event["name"].text);
  }

  void NoteMetadata(const JsonValue& event) {
    const std::string& what = event["name"].text;
    const Row row = RowOf(event);
    if (what == "process_labels") process_labels_[row.first] = event["args"]["labels"].text;
    if (what != "thread_name") return;
    const std::string& label = event["args"]["name"].text;
    if (!row_names_.emplace(row, label).second) Offend("two names of the row ", label);
    if (!labels_.insert({row.first, label}).second) twice_.insert({row.first, label});
  }

  void CheckGpuRows() {
    const bool simulated = root_["simulated"].boolean;
    for (const Row& row : gpu_rows_) {
      const auto name = row_names_.find(row);
      if (name == row_names_.end()) {
        Offend("the row ", row.second, " of ", row.first, " has no name");
      } else if (twice_.contains({row.first, name->second})) {
        Offend("two rows are called ", name->second);
      }
      const std::string& label = process_labels_[row.first];
      if (label.empty()) Offend("the process ", row.first, " has no label");
      if (simulated != (label.find("simulated") != std::string::npos)) {
        Offend("where it came from is not what its label says: ", label);
      }
    }
    if (simulated != (root_["traceName"].text.find("simulated") != std::string::npos)) {
      Offend("where it came from is not what its name says: ", root_["traceName"].text);
    }
  }

  using FlowEnd = std::tuple<int64_t, Row, int64_t>;  // id, row, time

  void NoteFlow(const JsonValue& event) {
    if (event["cat"].text == "fwdbwd") {
      NoteForwardBackward(event);
      return;
    }
    if (event["cat"].text != "ac2g" || event["name"].text != "ac2g") Offend("a flow's category");
    const int64_t id = event["id"].integer();
    const FlowEnd end = {id, RowOf(event), TraceTimeNs(event["ts"])};
    if (event["ph"].text == "s") {
      if (!flow_starts_.emplace(id, end).second) Offend("flow ", id, " begins twice");
      return;
    }
    if (event["bp"].text != "e") Offend("flow ", id, " does not bind to the slice around it");
    flow_ends_.push_back(end);
  }

  void CheckFlows() {
    std::set<int64_t> ended;
    for (const auto& [id, start] : flow_starts_) {
      if (!call_ends_.contains(start)) Offend("flow ", id, " begins at no call");
    }
    for (const FlowEnd& end : flow_ends_) {
      const auto& [id, row, time_ns] = end;
      ended.insert(id);
      const auto start = flow_starts_.find(id);
      if (start == flow_starts_.end()) {
        Offend("flow ", id, " ends but does not begin");
      } else if (time_ns < std::get<2>(start->second)) {
        Offend("flow ", id, " ends before it begins");
      }
      if (!work_ends_.contains(end)) Offend("flow ", id, " ends at no work");
    }
    for (const auto& [id, start] : flow_starts_) {
      if (!ended.contains(id)) Offend("flow ", id, " begins but does not end");
    }
  }

  void NoteForwardBackward(const JsonValue& event) {
    const int64_t id = event["id"].integer();
    const int64_t time_ns = TraceTimeNs(event["ts"]);
    const bool begins = event["ph"].text == "s";
    if (event["name"].text != "fwdbwd") Offend("the name of a flow to a backward operator");
    if (begins == (event["bp"].text == "e")) Offend("what fwdbwd ", id, " binds to");
    auto& side = begins ? forwards_ : backwards_;
    if (!side.emplace(id, std::pair(RowOf(event), time_ns)).second) {
      Offend("fwdbwd ", id, begins ? " begins" : " ends", " twice");
    }
  }

  void CheckForwardBackward() {
    for (const auto& [id, backward] : backwards_) {
      const auto forward = forwards_.find(id);
      if (forward == forwards_.end()) {
        Offend("fwdbwd ", id, " ends but does not begin");
      } else if (backward.second < forward->second.second) {
        Offend("fwdbwd ", id, " ends before it begins");
      }
      if (!operators_.contains(backward)) Offend("fwdbwd ", id, " ends at no operator");
    }
    for (const auto& [id, forward] : forwards_) {
      if (!backwards_.contains(id)) Offend("fwdbwd ", id, " begins but does not end");
      if (!operators_.contains(forward)) Offend("fwdbwd ", id, " begins at no operator");
    }
  }

  void CheckExternalIds() {
    const std::set<int64_t> ids(external_ids_.begin(), external_ids_.end());
    if (ids.size() != external_ids_.size()) Offend("two CPU slices have one External id");
    for (const int64_t id : used_external_ids_) {
      if (!ids.contains(id)) Offend("no CPU slice has the External id ", id);
    }
  }

  void CheckSteps() {
    constexpr std::string_view kPrefix = "ProfilerStep#";
    std::map<int64_t, const Span*> steps;
    for (const auto& [row, spans] : rows_) {
      if (gpu_rows_.contains(row)) continue;  // Each stream has them again.
      for (const Span& span : spans) {
        if (!span.name.starts_with(kPrefix)) continue;
        int64_t index = -1;
        const char* const last = span.name.data() + span.name.size();
        const auto [end, error] = std::from_chars(span.name.data() + kPrefix.size(), last, index);
        if (error != std::errc() || end != last) continue;  // A user's range.
        if (!steps.emplace(index, &span).second) Offend(span.name, " appears twice");
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
  std::map<Row, std::vector<Span>> rows_;
  std::set<Row> gpu_rows_;
  std::map<Row, std::string> row_names_;
  std::set<std::pair<int64_t, std::string>> labels_;  // By process.
  std::set<std::pair<int64_t, std::string>> twice_;
  std::map<int64_t, std::string> process_labels_;
  std::map<int64_t, FlowEnd> flow_starts_;
  std::vector<FlowEnd> flow_ends_;
  std::map<int64_t, std::pair<Row, int64_t>> forwards_;  // Ends of fwdbwd: row, time.
  std::map<int64_t, std::pair<Row, int64_t>> backwards_;
  std::set<std::pair<Row, int64_t>> operators_;  // Ranges of the CPU.
  std::set<FlowEnd> call_ends_;                  // Where flows may begin, and end.
  std::set<FlowEnd> work_ends_;
  std::vector<int64_t> external_ids_;  // Of ranges and steps.
  std::vector<int64_t> used_external_ids_;
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
