// What torch.compile did, from the ranges that torch itself opens around it and from notes.
//
//   Torch-Compiled Region: 0/0 ───────────────────────┐   a call of region 0/0
//     TorchDynamo Cache Lookup ─┤                     │   guards
//     Torch-Compiled Region: 1/0 ───────┤             │   what is left behind a graph break
//   _compile.compile_inner (dynamo_timed) ─────────┤      a compilation; its inside is folded
//
// Traces without such regions (of older torch, or with part of the program) may still show compiled
// code by the autograd function or the Inductor graph around it; these are regions then.
//
// Newer torch shows compilations to its own profiler only. In a capture without any, those are
// counted that notes tell of: the ones that compiled code again.
#include "daemon/report/time/compile_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::string_view kRegionPrefix = "Torch-Compiled Region: ";
// In the order in which they lie in each other; the names of the first that a capture has are
// regions. Older torch opens regions without a number.
constexpr std::string_view kRegionPrefixes[] = {"Torch-Compiled Region", "CompiledFunction",
                                                "## Call CompiledFxGraph "};
constexpr std::string_view kCacheLookupName = "TorchDynamo Cache Lookup";
// How Dynamo names the rest of a function: torch_dynamo_resume_in_forward_at_19.
constexpr std::string_view kResumedPrefix = "torch_dynamo_resume_in_";

enum class RangeKind : uint8_t { kOther, kRegion, kCacheLookup, kCompilation };

// Compilations are "_compile.compile_inner (dynamo_timed)", "_compile.<locals>.compile_inner ..."
// or, in torch 2.0, "_compile (dynamo_timed)".
RangeKind KindOf(std::string_view name, std::string_view region_prefix) {
  if (name.starts_with(region_prefix)) return RangeKind::kRegion;
  if (name == kCacheLookupName) return RangeKind::kCacheLookup;
  const bool is_compilation = name.starts_with("_compile.compile_inner") ||
                              name.starts_with("_compile.<locals>.compile_inner") ||
                              name.starts_with("_compile (");
  return is_compilation ? RangeKind::kCompilation : RangeKind::kOther;
}

class CompileSummary {
 public:
  explicit CompileSummary(store::CaptureReader& reader)
      : reader_(reader), lookup_(reader.steps()) {}

  absl::Status Read() {
    RETURN_IF_ERROR(reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) AddNote(batch, i);
      return absl::OkStatus();
    }));
    RETURN_IF_ERROR(ReadRanges());
    if (compilations_.empty()) compilations_ = std::move(told_compilations_);
    for (const Compilation& compilation : compilations_) {
      CompileStepRow& step = StepAt(compilation.start_ns);
      ++step.compilations;
      AddTo(step.compile_ns, compilation.duration_ns);
    }
    std::sort(compilations_.begin(), compilations_.end(),
              [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
    return absl::OkStatus();
  }

  CompileReport Take() {
    CompileReport report;
    const TorchRecord& torch = reader_.record().torch;
    report.folded_event_count = std::max(torch.folded_count, folded_count_);
    for (auto& [id, row] : regions_) report.regions.push_back(std::move(row));
    for (const auto& [key, count] : graph_breaks_) {
      report.graph_breaks.push_back({std::string(key.first), std::string(key.second), count});
    }
    for (const auto& [key, sum] : recompiles_) {
      report.recompiles.push_back({std::string(key.first), std::string(key.second), sum.count,
                                   sum.is_known ? sum.compile_ns : -1});
    }
    for (const auto& [step, row] : steps_) report.steps.push_back(row);
    std::stable_sort(report.regions.begin(), report.regions.end(),
                     [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
    // By text already, so that ties are.
    const auto by_count = [](const auto& a, const auto& b) { return a.count > b.count; };
    std::stable_sort(report.graph_breaks.begin(), report.graph_breaks.end(), by_count);
    std::stable_sort(report.recompiles.begin(), report.recompiles.end(), by_count);
    for (const Compilation& compilation : compilations_) {
      report.compiling.Add(compilation.start_ns,
                           EndOf(compilation.start_ns, compilation.duration_ns));
    }
    report.has_compiled = !report.regions.empty() || !report.graph_breaks.empty() ||
                          !report.recompiles.empty() || !report.steps.empty() ||
                          report.folded_event_count > 0;
    return report;
  }

 private:
  using Text = std::pair<std::string_view, std::string_view>;  // Subject and text of notes.
  struct RecompileSum {
    int64_t count = 0;
    int64_t compile_ns = 0;
    bool is_known = false;
  };
  struct Compilation {
    int64_t start_ns;
    int64_t duration_ns;
  };

  void AddNote(const NoteBatch& batch, size_t i) {
    const Text key = {reader_.names()[batch.subject[i]], reader_.names()[batch.text[i]]};
    switch (static_cast<wire::NoteKind>(batch.kind[i])) {
      case wire::NoteKind::kGraphBreak:
        ++graph_breaks_[key];
        break;
      case wire::NoteKind::kRecompile: {
        RecompileSum& sum = recompiles_[key];
        ++sum.count;
        if (batch.time_ns[i] != kNoNoteTime) {
          told_compilations_.push_back({batch.time_ns[i], std::max<int64_t>(0, batch.value[i])});
        }
        if (batch.value[i] < 0) break;
        sum.is_known = true;
        AddTo(sum.compile_ns, batch.value[i]);
        break;
      }
      case wire::NoteKind::kCompiledRegion:
        code_of_[key.first] = key.second;
        break;
      case wire::NoteKind::kFolded:
        AddTo(folded_count_, std::max<int64_t>(0, batch.value[i]));
        break;
      default:
        break;
    }
  }

  std::string_view RegionPrefix() const {
    for (const std::string_view prefix : kRegionPrefixes) {
      for (const std::string& name : reader_.names()) {
        if (name.starts_with(prefix)) return prefix;
      }
    }
    return kRegionPrefix;
  }

  absl::Status ReadRanges() {
    std::vector<RangeKind> kinds;  // By name.
    bool has_any = false;
    const std::string_view region_prefix = RegionPrefix();
    for (const std::string& name : reader_.names()) {
      kinds.push_back(KindOf(name, region_prefix));
      has_any = has_any || kinds.back() != RangeKind::kOther;
    }
    if (!has_any) return absl::OkStatus();
    std::vector<std::vector<Compilation>> compilations(reader_.threads().size());
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName, {}, [&](const RangeBatch& batch) {
          if (batch.thread >= compilations.size()) compilations.resize(batch.thread + size_t{1});
          for (size_t i = 0; i < batch.size; ++i) {
            AddRange(kinds[batch.name[i]], batch, i, compilations[batch.thread]);
          }
          return absl::OkStatus();
        }));
    for (const std::vector<Compilation>& of_thread : compilations) {
      compilations_.insert(compilations_.end(), of_thread.begin(), of_thread.end());
    }
    return absl::OkStatus();
  }

  void AddRange(RangeKind kind, const RangeBatch& batch, size_t i,
                std::vector<Compilation>& compilations) {
    const int64_t start_ns = batch.start_ns[i];
    switch (kind) {
      case RangeKind::kOther:
        break;
      case RangeKind::kRegion:
        AddRegion(batch.name[i], start_ns, batch.duration_ns[i]);
        break;
      case RangeKind::kCacheLookup: {
        CompileStepRow& step = StepAt(start_ns);
        ++step.cache_lookups;
        AddTo(step.cache_lookup_ns, batch.duration_ns[i]);
        break;
      }
      case RangeKind::kCompilation:
        // Ranges come in order of their end: those inside of this one are part of it.
        while (!compilations.empty() && compilations.back().start_ns >= start_ns) {
          compilations.pop_back();
        }
        compilations.push_back({start_ns, batch.duration_ns[i]});
        break;
    }
  }

  void AddRegion(uint32_t name, int64_t start_ns, int64_t duration_ns) {
    std::string_view id = reader_.names()[name];
    if (id.starts_with(kRegionPrefix)) id.remove_prefix(kRegionPrefix.size());
    const auto [at, inserted] = regions_.try_emplace(id);
    CompiledRegionRow& region = at->second;
    if (inserted) {
      region.id = id;
      const auto code = code_of_.find(id);
      if (code != code_of_.end()) region.code = code->second;
      region.after_graph_break = region.code.find(kResumedPrefix) != std::string::npos;
    }
    ++region.calls;
    AddTo(region.total_ns, duration_ns);
    CompileStepRow& step = StepAt(start_ns);
    ++step.regions;
    if (region.after_graph_break) ++step.after_breaks;
  }

  CompileStepRow& StepAt(int64_t time_ns) {
    const size_t position = lookup_.PositionAt(time_ns);
    const int64_t index = position == StepLookup::kNone ? -1 : lookup_.steps()[position].index;
    CompileStepRow& row = steps_[index];
    row.step = index;
    return row;
  }

  store::CaptureReader& reader_;
  StepLookup lookup_;
  int64_t folded_count_ = 0;
  std::vector<Compilation> compilations_;
  std::vector<Compilation> told_compilations_;  // By notes, which come when one has ended.
  absl::flat_hash_map<std::string_view, std::string_view> code_of_;  // By a region's id.
  std::map<std::string_view, CompiledRegionRow> regions_;            // Likewise.
  std::map<Text, int64_t> graph_breaks_;
  std::map<Text, RecompileSum> recompiles_;
  std::map<int64_t, CompileStepRow> steps_;
};

}  // namespace

absl::StatusOr<CompileReport> SummarizeCompile(store::CaptureReader& reader) {
  CompileSummary summary(reader);
  RETURN_IF_ERROR(summary.Read());
  return summary.Take();
}

}  // namespace profd::report
