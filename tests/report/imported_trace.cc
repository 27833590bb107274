#include "tests/report/imported_trace.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/import/trace_import.h"
#include "proto/wire/long_names.h"

namespace profd::report {
namespace {

using Json = nlohmann::json;

// As captures hold it.
std::string AsStored(const std::string& name) {
  if (name.size() <= wire::kMaxNameBytes) return name;
  std::string stored(wire::kMaxNameBytes, '\0');
  stored.resize(wire::ShortenName(name.data(), name.size(), stored.data()));
  return stored;
}

Json ReadJson(const std::filesystem::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return {};
  std::vector<char> buffer(1 << 20);
  int bytes = 0;
  while ((bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  gzclose(file);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string Category(const Json& event) { return event.value("cat", ""); }

bool IsOnGpu(const Json& event) {
  return std::set<std::string>{"kernel", "gpu_memcpy", "gpu_memset"}.contains(Category(event));
}

int64_t Arg(const Json& event, const char* key, int64_t otherwise) {
  const auto args = event.find("args");
  if (args == event.end() || !args->contains(key) || !(*args)[key].is_number()) return otherwise;
  return (*args)[key].get<int64_t>();
}

// Forgets what ran on GPUs without being launched in a step before the last.
void DropLastStep(Json& trace) {
  std::vector<std::pair<double, double>> steps;
  std::map<int64_t, double> launched_us;  // By correlation.
  for (const Json& event : trace["traceEvents"]) {
    const std::string category = Category(event);
    if (category == "user_annotation" && event.value("name", "").starts_with("ProfilerStep#")) {
      const double start_us = event["ts"].get<double>();
      steps.emplace_back(start_us, start_us + event["dur"].get<double>());
    } else if (category == "cuda_runtime" || category == "cuda_driver") {
      launched_us[Arg(event, "correlation", 0)] = event["ts"].get<double>();
    }
  }
  if (steps.size() < 2) return;
  std::sort(steps.begin(), steps.end());
  steps.pop_back();
  Json kept = Json::array();
  for (Json& event : trace["traceEvents"]) {
    const auto call = launched_us.find(Arg(event, "correlation", 0));
    const bool is_kept =
        !IsOnGpu(event) ||
        (call != launched_us.end() && std::any_of(steps.begin(), steps.end(), [&](const auto& at) {
           return at.first <= call->second && call->second < at.second;
         }));
    if (is_kept) kept.push_back(std::move(event));
  }
  trace["traceEvents"] = std::move(kept);
}

}  // namespace

absl::Status ImportedTrace::Import(const std::filesystem::path& trace, GpuWorkKept kept) {
  std::filesystem::path imported = trace;
  if (kept == GpuWorkKept::kAllButOfTheLastStep) {
    Json json = ReadJson(trace);
    DropLastStep(json);
    imported = folder_ / "trace.json";
    std::ofstream(imported) << json.dump();
  }
  importer::ImportOptions options;
  options.directory = folder_.path();
  ASSIGN_OR_RETURN(const importer::ImportedCapture capture,
                   importer::ImportTrace(imported, Clock::Real(), options));
  ASSIGN_OR_RETURN(reader_, store::CaptureReader::Open(capture.file));
  return absl::OkStatus();
}

TorchFacts ReadTorchFacts(const std::filesystem::path& trace) {
  TorchFacts facts;
  const Json json = ReadJson(trace);
  std::map<int64_t, std::string> op_of;  // By External id.
  for (const Json& event : json["traceEvents"]) {
    const std::string category = Category(event);
    if (category != "cpu_op" && category != "user_annotation") continue;
    if (const int64_t id = Arg(event, "External id", 0); id > 0) op_of[id] = event["name"];
  }
  for (const Json& event : json["traceEvents"]) {
    if (!IsOnGpu(event)) continue;
    const auto op = op_of.find(Arg(event, "External id", 0));
    if (op != op_of.end()) {
      facts.linked_op[static_cast<uint32_t>(Arg(event, "correlation", 0))] = op->second;
    }
    if (Category(event) != "kernel") continue;
    const int64_t percent = Arg(event, "est. achieved occupancy %", -1);
    const std::string name = AsStored(event["name"]);
    auto& [least, greatest] =
        facts.occupancy_percent.try_emplace(name, std::pair(percent, percent)).first->second;
    least = std::min(least, percent);
    greatest = std::max(greatest, percent);
  }
  return facts;
}

}  // namespace profd::report
