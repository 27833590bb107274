#include "cli/commands/schedule_flags.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "cli/base/label.h"
#include "cli/base/spec_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr int64_t kDefaultSampleSteps = 3;

// "5%", "0.05"; nullopt: not given.
absl::StatusOr<std::optional<double>> Share(const ParsedFlags& flags, std::string_view flag) {
  const std::optional<std::string> text = flags.Get(flag);
  if (!text.has_value()) return std::nullopt;
  const bool percent = text->ends_with('%');
  const std::string number = percent ? text->substr(0, text->size() - 1) : *text;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(value) || value < 0) {
    return UsageError(
        StrCat("--", flag, " '", ForDisplay(*text, 80), "' is not a share; write 5% or 0.05"));
  }
  return percent ? value / 100 : value;
}

absl::Status ParseTimes(const ParsedFlags& flags, absl::Time now, ScheduleSpec& spec) {
  ASSIGN_OR_RETURN(const auto every, flags.Duration("every"));
  if (every.has_value() && *every <= absl::ZeroDuration()) {
    return UsageError("--every must be above 0");
  }
  spec.every = every.value_or(spec.every);
  spec.cron = flags.Get("cron").value_or("");
  if (every.has_value() == !spec.cron.empty()) {
    return UsageError("say when: --every 30m, or --cron '0 3 * * *' (UTC)");
  }
  spec.align = flags.Has("align");
  ASSIGN_OR_RETURN(const auto jitter, flags.Duration("jitter"));
  spec.jitter = jitter.value_or(spec.jitter);
  const auto until = flags.Get("until");
  if (!until.has_value()) return absl::OkStatus();
  std::string why;
  if (absl::ParseTime(absl::RFC3339_full, *until, &spec.end_time, &why)) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> span = ParseDuration(*until);
  if (!span.ok()) {
    return UsageError(StrCat("--until '", ForDisplay(*until, 80),
                             "' is neither a span from now such as 7d nor a time such as "
                             "2026-11-20T10:00:00Z"));
  }
  spec.end_time = now + *span;
  return absl::OkStatus();
}

absl::Status ParseCapture(const ParsedFlags& flags, CaptureSpec& spec) {
  ASSIGN_OR_RETURN(const auto steps, flags.Int("steps", 1, 1'000'000));
  ASSIGN_OR_RETURN(const auto duration, flags.Duration("duration"));
  if (steps.has_value() && duration.has_value()) {
    return UsageError("--steps and --duration are mutually exclusive");
  }
  if (duration.has_value()) {
    spec.duration = *duration;
  } else {
    spec.steps = steps.value_or(kDefaultSampleSteps);
  }
  ASSIGN_OR_RETURN(const auto warmup, flags.Int("warmup", 0, 10'000));
  spec.warmup_steps = warmup.value_or(spec.warmup_steps);
  ASSIGN_OR_RETURN(const auto timeout, flags.Duration("timeout"));
  spec.timeout = timeout.value_or(spec.timeout + spec.duration);
  ASSIGN_OR_RETURN(const auto max_bytes,
                   flags.Bytes("max-bytes", int64_t{1} << 20, int64_t{1} << 50));
  spec.max_bytes = max_bytes.value_or(spec.max_bytes);
  ASSIGN_OR_RETURN(const auto buffer, flags.Bytes("buffer", int64_t{1} << 20, int64_t{4} << 30));
  spec.memory_bytes = buffer.value_or(spec.memory_bytes);
  spec.step_marker = flags.Get("step-marker").value_or("");
  if (const auto mode = flags.Get("gpu")) spec.gpu.mode = *GpuModeFromString(*mode);
  if (const auto mode = flags.Get("ops")) spec.torch.operators = *OperatorModeFromString(*mode);
  ASSIGN_OR_RETURN(spec.labels, ParseLabels(flags.All("label")));
  if (absl::Status valid = ValidateSpec(spec); !valid.ok()) {
    return UsageError(InNamesOfFlags(FromAbsl(valid.message())));
  }
  return absl::OkStatus();
}

absl::Status ParseSelector(const ParsedFlags& flags, TargetSelector& selector) {
  selector.job = flags.Get("job").value_or("");
  for (const std::string& word : flags.List("rank")) {
    const absl::StatusOr<int64_t> rank = ParseInt(word);
    if (!rank.ok() || *rank < 0) {
      return UsageError(StrCat("--rank '", ForDisplay(word, 80), "' is not a rank"));
    }
    selector.ranks.push_back(*rank);
  }
  selector.command = flags.Get("command").value_or("");
  selector.pod_namespace = flags.Get("namespace").value_or("");
  for (const std::string& word : flags.All("meta")) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(StrCat("--meta '", ForDisplay(word, 80), "' is not KEY=VALUE"));
    }
    selector.metadata[word.substr(0, equals)] = word.substr(equals + 1);
  }
  ASSIGN_OR_RETURN(selector.uid, flags.Int("uid", 0, std::numeric_limits<uint32_t>::max()));
  return absl::OkStatus();
}

absl::Status ParseSample(const ParsedFlags& flags, SampleSpec& sample) {
  ASSIGN_OR_RETURN(const auto fraction, Share(flags, "fraction"));
  ASSIGN_OR_RETURN(const auto count, flags.Int("count", 1));
  if (fraction.has_value() && count.has_value()) {
    return UsageError("--fraction and --count are mutually exclusive");
  }
  if (fraction.has_value() && !(*fraction > 0 && *fraction <= 1)) {
    return UsageError("--fraction must be above 0 and at most 100%");
  }
  sample.fraction = fraction.value_or(0);
  sample.count = count.value_or(0);
  const auto unit = flags.Get("of");
  if (!unit.has_value()) return absl::OkStatus();
  if (!fraction.has_value() && !count.has_value()) {
    return UsageError("--of goes with --fraction or --count");
  }
  sample.unit = *SampleUnitFromString(*unit);
  return absl::OkStatus();
}

absl::Status ParseCommonStart(const ParsedFlags& flags, ScheduleSpec& spec) {
  ASSIGN_OR_RETURN(const auto grid, flags.Int("step-grid", 0, kMaxStepGrid));
  spec.step_grid = grid.value_or(spec.step_grid);
  if ((spec.step_grid & (spec.step_grid - 1)) != 0) {
    return UsageError(
        StrCat("--step-grid: invalid value '", spec.step_grid, "' (choose 0 or a power of two)"));
  }
  ASSIGN_OR_RETURN(const auto lead, flags.Int("step-lead", 0, kMaxStepLead));
  spec.step_lead = lead.value_or(spec.step_lead);
  return absl::OkStatus();
}

absl::Status ParseBudget(const ParsedFlags& flags, ScheduleSpec& spec) {
  ASSIGN_OR_RETURN(const auto captures, flags.Int("captures-per-hour", 1));
  spec.budget.captures_per_hour = captures.value_or(0);
  ASSIGN_OR_RETURN(const auto bytes, flags.Bytes("bytes-per-day"));
  spec.budget.bytes_per_day = bytes.value_or(0);
  ASSIGN_OR_RETURN(const auto time, Share(flags, "time-share"));
  spec.budget.time_share = time.value_or(0);
  ASSIGN_OR_RETURN(const auto slowdown, Share(flags, "max-slowdown"));
  spec.max_slowdown = slowdown.value_or(spec.max_slowdown);
  return absl::OkStatus();
}

std::vector<Flag> CreateFlags() {
  return {
      {.name = "every", .value_name = "TIME", .help = "A window every so often, 10s to 30d"},
      {.name = "cron",
       .value_name = "EXPR",
       .help = "Windows by \"minute hour day-of-month month day-of-week\", in UTC"},
      {.name = "align",
       .help = "Windows at multiples of --every on the clock (10:00, 10:30), not shifted by "
               "the schedule's own phase"},
      {.name = "jitter",
       .value_name = "TIME",
       .help = "Each window up to this much later, the same on all nodes"},
      {.name = "until",
       .value_name = "WHEN",
       .help = "No window later than this: a span from now (7d) or a time "
               "(2026-11-20T10:00:00Z)"},
      {.name = "steps",
       .letter = 's',
       .value_name = "N",
       .help = "Whole steps per window (default: 3)"},
      {.name = "duration", .value_name = "TIME", .help = "A span of time, not steps"},
      {.name = "warmup", .value_name = "N", .help = "Discarded steps before (default: 1)"},
      {.name = "timeout",
       .value_name = "TIME",
       .help = "Give a window up after this long (default: 5m)"},
      {.name = "buffer", .value_name = "SIZE", .help = "Size of the event buffer (default: 64MiB)"},
      {.name = "max-bytes",
       .value_name = "BYTES",
       .help = "Most that one capture's file takes (default: 2GiB)"},
      {.name = "pin", .help = "Pin each capture (profctl pin)"},
      {.name = "step-marker",
       .value_name = "NAME",
       .help = "The range whose begins are steps; inside each other, only the outermost"},
      {.name = "gpu",
       .value_name = "MODE",
       .help = "What of the GPU to record",
       .completes = Completes::kChoice,
       .choices = {"auto", "off", "light", "default", "full"}},
      {.name = "ops",
       .value_name = "MODE",
       .help = "What of PyTorch's operators to record",
       .completes = Completes::kChoice,
       .choices = {"auto", "off", "names", "shapes"}},
      {.name = "label",
       .value_name = "KEY=VALUE",
       .help = "A label of every capture; may be repeated",
       .repeated = true},
      {.name = "job",
       .value_name = "JOB",
       .help = "Only processes of this job (create); without --nodes and --address, on the nodes "
               "that Slurm runs it on"},
      {.name = "rank", .value_name = "LIST", .help = "Only these ranks", .repeated = true},
      {.name = "command", .value_name = "TEXT", .help = "Only commands with this in them"},
      {.name = "meta",
       .value_name = "KEY=VALUE",
       .help = "Only processes that say this of themselves; may be repeated",
       .repeated = true},
      {.name = "namespace", .value_name = "NAME", .help = "Only pods of this namespace"},
      {.name = "uid", .value_name = "UID", .help = "Only processes of this user"},
      {.name = "fraction",
       .value_name = "SHARE",
       .help = "Sample this share of nodes (5%, 0.05), others each window"},
      {.name = "count",
       .value_name = "N",
       .help = "Sample this many nodes each window; of targets and jobs, per node"},
      {.name = "of",
       .value_name = "WHAT",
       .help = "What --fraction and --count choose (default: nodes)",
       .completes = Completes::kChoice,
       .choices = {"nodes", "targets", "jobs"}},
      {.name = "step-grid",
       .value_name = "N",
       .help = "One in N steps can be the first of a window, on all ranks of a job; a power "
               "of two, or 0: each rank begins as soon as it can (default: 256)"},
      {.name = "step-lead",
       .value_name = "N",
       .help = "Ranks choose their first step N steps ahead (default: 64)"},
      {.name = "captures-per-hour", .value_name = "N", .help = "At most so many on a node"},
      {.name = "bytes-per-day", .value_name = "BYTES", .help = "Of files, on a node"},
      {.name = "time-share",
       .value_name = "SHARE",
       .help = "Of its time that any one process is being captured (0.1%)"},
      {.name = "max-slowdown",
       .value_name = "SHARE",
       .help = "Skip windows of a process that they slow by more (default: 5%; 0: never)"},
      {.name = "name", .value_name = "NAME", .help = "Human-readable name"},
      {.name = "id",
       .value_name = "ID",
       .help = "The id to give it, to place the same schedule on more nodes"},
  };
}

}  // namespace

std::vector<Flag> ScheduleFlags() {
  std::vector<Flag> flags = CreateFlags();
  for (Flag& flag : flags) {
    if (flag.name != "job") flag.actions = {"create"};  // That chooses nodes, too.
  }
  const std::vector<Flag> others = {
      {.name = "file",
       .letter = 'f',
       .value_name = "FILE",
       .help = "JSON file that declares schedules; - is stdin",
       .actions = {"apply", "diff"},
       .completes = Completes::kFile},
      {.name = "deleted", .help = "Also deleted ones", .actions = {"list", "status"}},
      {.name = "limit",
       .value_name = "N",
       .help = "At most N windows of each node; 0 is all (default: 50, all with "
               "--json)",
       .actions = {"history"}},
  };
  flags.insert(flags.end(), others.begin(), others.end());
  return flags;
}

absl::StatusOr<ScheduleSpec> ScheduleSpecOf(const ParsedFlags& flags, absl::Time now) {
  ScheduleSpec spec;
  RETURN_IF_ERROR(ParseTimes(flags, now, spec));
  RETURN_IF_ERROR(ParseCapture(flags, spec.capture));
  RETURN_IF_ERROR(ParseSelector(flags, spec.selector));
  RETURN_IF_ERROR(ParseSample(flags, spec.sample));
  RETURN_IF_ERROR(ParseCommonStart(flags, spec));
  RETURN_IF_ERROR(ParseBudget(flags, spec));
  spec.display_name = flags.Get("name").value_or("");
  spec.pin = flags.Has("pin");
  return spec;
}

}  // namespace profd::cli
