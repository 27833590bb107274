#include "tests/report/kineto_trace.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"

namespace profd::report {
namespace {

using Json = nlohmann::json;

absl::StatusOr<std::string> Unzip(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError("no such trace");
  std::string text;
  std::vector<char> buffer(1 << 20);
  int bytes = 0;
  while ((bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  gzclose(file);
  if (bytes < 0) return absl::DataLossError("not gzip");
  return text;
}

// Microseconds, whole (older traces) or with three decimals.
int64_t ToNs(const Json& us) {
  if (us.is_number_integer()) return us.get<int64_t>() * 1000;
  return std::llround(us.get<double>() * 1000);
}

template <typename T>
T Arg(const Json& event, const char* key, T otherwise) {
  const auto args = event.find("args");
  if (args == event.end()) return otherwise;
  const auto value = args->find(key);
  return value == args->end() || !value->is_number() ? otherwise : value->get<T>();
}

std::array<uint32_t, 3> Sides(const Json& event, const char* key) {
  std::array<uint32_t, 3> sides = {1, 1, 1};
  const Json& value = event["args"][key];
  for (size_t i = 0; i < 3 && i < value.size(); ++i) sides[i] = value[i].get<uint32_t>();
  return sides;
}

struct Event {
  const Json* json;
  std::string category;
  std::string name;
  int64_t start_ns;
  int64_t end_ns;
};

// The copy's kinds from its name: "Memcpy HtoD (Pageable -> Device)".
void SetKinds(std::string_view name, FakeGpu& gpu) {
  constexpr std::array<std::string_view, 11> kCopies = {
      "?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  constexpr std::array<std::string_view, 8> kMemory = {
      "?", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
  for (uint8_t i = 1; i < kCopies.size(); ++i) {
    if (name.find(kCopies[i]) != std::string_view::npos) gpu.copy_kind = i;
  }
  for (uint8_t i = 1; i < kMemory.size(); ++i) {
    const std::string memory(kMemory[i]);
    if (name.find("(" + memory + " ->") != std::string_view::npos) gpu.source_kind = i;
    if (name.find(" " + memory + ")") != std::string_view::npos ||
        name.find("(" + memory + ")") != std::string_view::npos) {
      gpu.destination_kind = i;
    }
  }
}

class TraceBuilder {
 public:
  explicit TraceBuilder(KinetoTrace& trace) : trace_(trace) {}

  absl::Status Build(const Json& json, StepsKept kept) {
    Collect(json);
    AddDevices(json);
    if (kept == StepsKept::kAllButTheLast) DropLastStep();
    for (const Event& event : events_) Add(event);
    return absl::OkStatus();
  }

 private:
  void Collect(const Json& json) {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (const Json& event : json["traceEvents"]) {
      if (event.value("ph", "") != "X" || !event.contains("dur")) continue;
      const std::string category = event.value("cat", "");
      trace_.has_syncs = trace_.has_syncs || category == "cuda_sync";
      if (category == "python_function" || category == "Trace" || category == "overhead" ||
          category == "gpu_user_annotation") {
        continue;
      }
      const int64_t start_ns = ToNs(event["ts"]);
      if (!event["ts"].is_number_integer()) is_fine_ = true;
      first_ns = std::min(first_ns, start_ns);
      events_.push_back({&event, category, event.value("name", ""), start_ns,
                         start_ns + std::max<int64_t>(0, ToNs(event["dur"]))});
      if (category == "cpu_op" || category == "user_annotation") {
        if (const auto id = Arg<int64_t>(event, "External id", 0); id > 0) {
          op_of_[id] = events_.back().name;
        }
      }
    }
    trace_.reader.mutable_record().start_unix_ns =
        first_ns + json.value("baseTimeNanoseconds", int64_t{0});
    trace_.reader.mutable_record().imported.time_unit_ns = is_fine_ ? 1 : 1000;
    for (Event& event : events_) {
      event.start_ns -= first_ns;
      event.end_ns -= first_ns;
      const auto correlation = Arg<uint32_t>(*event.json, "correlation", 0);
      if (IsCall(event)) call_start_[correlation] = event.start_ns;
      if (event.category == "user_annotation" && event.name.starts_with("ProfilerStep#")) {
        steps_.push_back(
            {std::stoll(event.name.substr(13)), 0, event.start_ns, event.end_ns - event.start_ns});
      }
    }
    std::sort(steps_.begin(), steps_.end(),
              [](const StepRecord& a, const StepRecord& b) { return a.start_ns < b.start_ns; });
    for (const StepRecord& step : steps_) {
      trace_.reader.Step(step.index, step.start_ns, step.duration_ns);
    }
  }

  void AddDevices(const Json& json) {
    for (const Json& device : json.value("deviceProperties", Json::array())) {
      const auto number = [&](const char* key) { return device.value(key, int64_t{0}); };
      trace_.reader.mutable_record().gpu.devices.push_back(
          {.number = number("id"),
           .compute_major = number("computeMajor"),
           .compute_minor = number("computeMinor"),
           .sm_count = number("numSms"),
           .warp_threads = number("warpSize"),
           .max_threads_per_sm = number("maxThreadsPerMultiprocessor"),
           // Not in traces: of these capabilities.
           .max_blocks_per_sm = 32,
           .registers_per_sm = number("regsPerMultiprocessor"),
           .shared_bytes_per_sm = number("sharedMemPerMultiprocessor")});
    }
  }

  static bool IsCall(const Event& event) {
    return event.category == "cuda_runtime" || event.category == "cuda_driver";
  }
  static bool IsGpu(const Event& event) {
    return event.category == "kernel" || event.category == "gpu_memcpy" ||
           event.category == "gpu_memset";
  }

  void DropLastStep() {
    if (steps_.size() < 2) return;
    std::erase_if(events_, [&](const Event& event) {
      if (!IsGpu(event)) return false;
      const auto call = call_start_.find(Arg<uint32_t>(*event.json, "correlation", 0));
      return call == call_start_.end() ||
             !std::any_of(steps_.begin(), steps_.end() - 1, [&](const StepRecord& step) {
               return step.start_ns <= call->second &&
                      call->second < step.start_ns + step.duration_ns;
             });
    });
  }

  uint32_t ThreadOf(const Event& event) {
    const Json& tid = (*event.json)["tid"];
    const std::string key = tid.dump();
    const auto [at, inserted] = threads_.try_emplace(key, 0);
    if (inserted) at->second = trace_.reader.AddThread(static_cast<int64_t>(threads_.size()), key);
    return at->second;
  }

  void Add(const Event& event) {
    const auto correlation = Arg<uint32_t>(*event.json, "correlation", 0);
    if (event.category == "cpu_op" || event.category == "user_annotation") {
      trace_.reader.Range(ThreadOf(event), event.name, event.start_ns, event.end_ns);
    } else if (IsCall(event)) {
      trace_.reader.ApiCall(ThreadOf(event), event.name, event.start_ns, event.end_ns, correlation);
    } else if (IsGpu(event)) {
      AddGpu(event, correlation);
    } else if (event.category == "cuda_sync") {
      AddSync(event, correlation);
    }
  }

  void AddSync(const Event& event, uint32_t correlation) {
    const std::array<std::string_view, 5> kinds = {"?", "Event Sync", "Stream Wait Event",
                                                   "Stream Sync", "Context Sync"};
    const auto kind = std::find(kinds.begin(), kinds.end(), event.name);
    const auto stream = Arg<int64_t>(*event.json, "stream", -1);
    trace_.reader.Sync(static_cast<uint32_t>(kind - kinds.begin()), event.start_ns, event.end_ns,
                       correlation,
                       {.device = Arg<uint16_t>(*event.json, "device", 0),
                        .stream = stream < 0 ? UINT32_MAX : static_cast<uint32_t>(stream)});
  }

  void AddGpu(const Event& event, uint32_t correlation) {
    const auto op = op_of_.find(Arg<int64_t>(*event.json, "External id", 0));
    if (op != op_of_.end()) trace_.linked_op[correlation] = op->second;
    FakeGpu gpu = {.device = Arg<uint16_t>(*event.json, "device", 0),
                   .context = Arg<uint32_t>(*event.json, "context", 0),
                   .stream = Arg<uint32_t>(*event.json, "stream", 0),
                   .bytes = Arg<uint64_t>(*event.json, "bytes", 0)};
    if (event.category == "kernel") {
      gpu.grid = Sides(*event.json, "grid");
      gpu.block = Sides(*event.json, "block");
      gpu.registers_per_thread = Arg<uint16_t>(*event.json, "registers per thread", 0);
      gpu.dynamic_shared_bytes = Arg<uint32_t>(*event.json, "shared memory", 0);
      const auto percent = Arg<int64_t>(*event.json, "est. achieved occupancy %", -1);
      const auto at =
          trace_.occupancy_percent.try_emplace(event.name, std::pair(percent, percent)).first;
      at->second = {std::min(at->second.first, percent), std::max(at->second.second, percent)};
      trace_.reader.Kernel(event.name, event.start_ns, event.end_ns, correlation, gpu);
      return;
    }
    SetKinds(event.name, gpu);
    if (event.category == "gpu_memcpy") {
      trace_.reader.Copy(event.start_ns, event.end_ns, correlation, gpu);
    } else {
      trace_.reader.Memset(event.start_ns, event.end_ns, correlation, gpu);
    }
  }

  KinetoTrace& trace_;
  bool is_fine_ = false;  // Below a microsecond.
  std::vector<Event> events_;
  std::map<int64_t, std::string> op_of_;  // By External id.
  std::map<uint32_t, int64_t> call_start_;
  std::vector<StepRecord> steps_;
  std::map<std::string, uint32_t> threads_;
};

}  // namespace

absl::Status ReadKinetoTrace(const std::filesystem::path& path, StepsKept kept,
                             KinetoTrace& trace) {
  ASSIGN_OR_RETURN(const std::string text, Unzip(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("not JSON");
  return TraceBuilder(trace).Build(json, kept);
}

}  // namespace profd::report
