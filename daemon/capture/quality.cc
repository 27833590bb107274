#include "daemon/capture/quality.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/slowdown.h"

namespace profd {
namespace {

constexpr double kSomeLost = 0.01;
constexpr double kFewOrphans = 0.01;
// Launches without GPU work: from here on, most of what the GPU did is missing.
constexpr double kManySilent = 0.50;
constexpr double kFewInversions = 0.01;
constexpr double kFewCutRanges = 0.01;
constexpr double kFewOtherNames = 0.01;
constexpr double kFewNotUnderstood = 0.001;
constexpr double kManyNotUnderstood = 0.10;
constexpr double kSlightlySlower = 0.05;
constexpr double kProbablySlower = 0.10;
constexpr double kTellingClockErrorNs = 1000;
constexpr double kLargeClockErrorNs = 100'000;

struct Subject {
  const CaptureRecord& record;
  const EventChecks* events;

  bool imported() const { return !record.imported.source.empty(); }
};

double Share(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
std::string Percent(double share) { return absl::StrFormat("%.3g%%", 100 * share); }
std::string Of(int64_t part, int64_t whole) {
  return StrCat(part, " of ", whole, " (", Percent(Share(part, whole)), ")");
}

// 'A' up to `bound`, 'B' up to `worse`, 'C' up to `worst`, then 'D'.
char GradeOf(double value, double bound, double worse, double worst) {
  if (value <= bound) return 'A';
  if (value < worse) return 'B';
  return value < worst ? 'C' : 'D';
}
constexpr double kNever = 1e300;

// What the importer left out is known; what the tracer lost is not, unless the numbers of operators
// show that events were removed.
std::string ImportLossSentence(const CaptureRecord& record, int64_t lost) {
  if (lost == 0) return "imported trace: event loss unknown";
  const int64_t thinned = record.drops[static_cast<size_t>(DropReason::kThinned)];
  if (thinned > 0) {
    return StrCat(
        "the trace was thinned before its import: by the numbers of its operators, at "
        "least ",
        Of(lost, lost + record.event_count), " events are missing");
  }
  return StrCat("the import left out ", Of(lost, lost + record.event_count),
                " events; loss in the trace itself is unknown");
}

QualityCheck Loss(const Subject& subject) {
  const CaptureRecord& record = subject.record;
  const int64_t lost = TotalDrops(record.drops);
  const double share = LostShare(lost, record.event_count);
  if (subject.imported()) {
    // Never A: a trace does not say what its tracer lost.
    return {.grade = std::max('B', GradeOf(share, 0, kSomeLost, kWithholdSharesFrom)),
            .known = lost > 0,
            .is_share = true,
            .value = share,
            .sentence = ImportLossSentence(record, lost)};
  }
  return {.grade = GradeOf(share, 0, kSomeLost, kWithholdSharesFrom),
          .is_share = true,
          .value = share,
          .sentence = lost == 0 ? std::string("no events were lost")
                                : StrCat(Of(lost, lost + record.event_count), " events were lost")};
}

// The part of the request that is missing.
QualityCheck Coverage(const Subject& subject) {
  const CaptureRecord& record = subject.record;
  const CaptureSpec& spec = record.spec;
  QualityCheck check = {.is_share = true};
  if (subject.imported() && record.state == CaptureState::kPartial) {
    const std::string_view place = CutOffPlace(record);
    const std::string how = place.empty() ? std::string() : StrCat(" (", place, ")");
    return {.grade = 'D',
            .value = 1,
            .sentence =
                StrCat("the trace file is cut off", how, ": ",
                       record.covered_steps == 0 ? "no step is complete, and " : "later steps and ",
                       "later events are missing")};
  }
  if (subject.imported() || (spec.steps == 0 && spec.duration <= absl::ZeroDuration())) {
    check.known = false;
    check.sentence = "the requested window is unknown";
    return check;
  }
  if (spec.steps > 0) {
    int64_t asked = 0;
    // Where the product does not fit, no share is named.
    if (__builtin_mul_overflow(spec.steps, std::max<int64_t>(spec.repeat, 1), &asked)) asked = 0;
    check.value = Share(std::max<int64_t>(asked - record.covered_steps, 0), asked);
    check.sentence = StrCat(record.covered_steps, " of ", asked, " steps were recorded");
    if (check.value > 0 && IsTerminal(record.state)) {
      StrAppend(&check.sentence, ": ", Percent(check.value), " of what was requested is missing");
    }
  } else {
    const int64_t asked_ns = absl::ToInt64Nanoseconds(spec.duration);
    check.value = Share(std::max<int64_t>(asked_ns - record.covered_ns, 0), asked_ns);
    if (check.value < 0.01) check.value = 0;  // Stopping takes its time.
    check.sentence = StrCat(Percent(1 - check.value), " of the requested time was recorded");
    if (check.value > 0 && IsTerminal(record.state)) {
      StrAppend(&check.sentence, " and ", Percent(check.value), " is missing");
    }
  }
  if (record.state == CaptureState::kPartial) {
    check.grade = 'D';
    StrAppend(&check.sentence, "; ended by ", ToString(record.ended_by));
  } else if (check.value > 0 && IsTerminal(record.state)) {
    check.grade = 'C';
  }
  if (record.state == CaptureState::kComplete && record.target.state == TargetState::kStopped) {
    check.grade = std::max(check.grade, 'C');
    StrAppend(&check.sentence,
              "; but the process was stopped at the end (SIGSTOP, Ctrl-Z, a debugger): it may have "
              "been stopped for a part of the window, and some of its data is missing");
  }
  return check;
}

// %.4g writes 10000 as 1e+04.
std::string Duration(int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (value < 999.95e3) return absl::StrFormat("%.4g us", value / 1e3);
  if (value < 999.95e6) return absl::StrFormat("%.4g ms", value / 1e6);
  if (value < 9999.5e9) return absl::StrFormat("%.4g s", value / 1e9);
  if (value < 2 * 86400e9) return absl::StrFormat("%.3g h", value / 3600e9);
  return absl::StrFormat("%.4g days", value / 86400e9);
}

QualityCheck Orphans(const Subject& subject) {
  const EventChecks* events = subject.events;
  // The record counts API calls among its rows, and so knows no share of the work.
  const int64_t rows = events != nullptr ? events->gpu_row_count : subject.record.gpu.record_count;
  const int64_t orphans =
      std::min(events != nullptr ? events->orphan_count : subject.record.gpu.orphan_count, rows);
  // Work that was launched before the window lacks no launch of the window.
  const int64_t earlier =
      events != nullptr ? std::clamp<int64_t>(events->earlier_work_count, 0, orphans) : 0;
  const double share = Share(orphans - earlier, rows);
  const std::string amount =
      events != nullptr ? Of(orphans - earlier, rows) : StrCat(orphans - earlier);
  std::string sentence =
      rows == 0 ? std::string("no GPU work was recorded")
                : StrCat("the capture lacks the launches of ", amount, " GPU activities");
  if (earlier > 0) StrAppend(&sentence, "; ", earlier, " more were launched before the window");
  const int64_t unknown_ns = events != nullptr ? events->unknown_gpu_ns : 0;
  const double unknown_share = Share(unknown_ns, subject.record.covered_ns);
  if (unknown_ns > 0) {
    StrAppend(&sentence, "; in the first ", Duration(unknown_ns),
              " of the window a GPU did work that was launched before the recording began, and is "
              "not in it");
  }
  return {.grade = std::max(share > kFewOrphans ? 'B' : 'A',
                            GradeOf(unknown_share, kFewOrphans, kWithholdSharesFrom, kNever)),
          .known = rows > 0,
          .is_share = true,
          .value = share,
          .bound = kFewOrphans,
          .sentence = std::move(sentence)};
}

// "4 launches failed, the first with error 700"; empty: none did.
std::string FailedLaunches(const EventChecks& events) {
  if (events.failed_launch_count == 0) return "";
  const bool is_one = events.failed_launch_count == 1;
  const std::string error = events.failed_result > 0 ? StrCat(is_one ? "" : ", the first",
                                                              " with error ", events.failed_result)
                                                     : std::string();
  return StrCat(events.failed_launch_count, is_one ? " launch" : " launches", " failed", error);
}

QualityCheck SilentLaunchesCheck(const Subject& subject) {
  const EventChecks* events = subject.events;
  if (events == nullptr) {
    return {.known = false, .is_share = true, .sentence = "launches were not checked"};
  }
  const std::string failed = FailedLaunches(*events);
  if (events->launch_count == 0) {
    return {.known = false,
            .is_share = true,
            .sentence = failed.empty() ? "no launches were recorded" : StrCat("all ", failed)};
  }
  if (events->captures_graphs && events->short_graph_count == 0) {
    return {.known = false,
            .is_share = true,
            .sentence = "the program captured CUDA graphs, whose launches may not run"};
  }
  // A replay that ran in part proves a loss, so then no share is small enough for an A.
  const SilentLaunches silent = SilentLaunchesOf(*events);
  const char grade = GradeOf(silent.share, silent.short_count > 0 ? 0 : kFewOrphans,
                             kWithholdSharesFrom, kManySilent);
  // Launches that failed are an error of the program, not of the recording, but what the program
  // was to do is not there.
  return {.grade = failed.empty() ? grade : std::max(grade, 'B'),
          .is_share = true,
          .value = silent.share,
          .bound = kFewOrphans,
          .sentence = failed.empty() ? StrCat(Of(silent.count, silent.of), silent.Clause())
                      : silent.count == 0
                          ? StrCat(failed, "; the others have GPU work in the recording")
                          : StrCat(Of(silent.count, silent.of), silent.Clause(), "; ", failed)};
}

QualityCheck Inversions(const Subject& subject) {
  const EventChecks* events = subject.events;
  if (events == nullptr || events->gpu_row_count == 0) {
    return {.known = false, .sentence = "the order of launches and GPU work was not checked"};
  }
  const double share = Share(events->inversion_count, events->gpu_row_count);
  return {.grade = events->inversion_count == 0 ? 'A'
                   : share > kFewInversions     ? 'C'
                                                : 'B',
          .value = static_cast<double>(events->inversion_count),
          .sentence = events->inversion_count == 0
                          ? std::string("all GPU work started after its launch")
                          : StrCat(Of(events->inversion_count, events->gpu_row_count),
                                   " GPU activities start before their launch, or end after the "
                                   "host waited for them, by up to ",
                                   Duration(events->worst_inversion_ns))};
}

QualityCheck ImpossibleTimes(const Subject& subject) {
  const EventChecks* events = subject.events;
  if (events == nullptr || (events->gpu_row_count == 0 && events->host_call_count == 0)) {
    return {.known = false, .sentence = "the times of GPU work and calls were not checked"};
  }
  const int64_t count = events->overlong_count + events->detached_count;
  if (count + events->overlong_call_count == 0) {
    return {.sentence = events->gpu_row_count > 0 ? "all times of GPU work and calls are possible"
                                                  : "all times of calls are possible"};
  }
  std::string sentence;
  if (count > 0) {
    StrAppend(&sentence, Of(count, events->gpu_row_count), " GPU activities have impossible times");
  }
  if (events->overlong_count > 0) {
    StrAppend(&sentence, ": ", events->overlong_count,
              events->overlong_count == 1
                  ? " lasts beyond the start of the next work of its stream, or beyond the host's "
                    "wait for it, where it is taken to end ("
                  : " last beyond the start of the next work of their streams, or beyond the "
                    "host's wait for them, where they are taken to end (",
              events->overlong_name.empty() ? "one" : events->overlong_name, ": ",
              Duration(events->overlong_ns), " recorded, at most ",
              Duration(events->overlong_possible_ns), " possible)");
  }
  if (events->detached_count > 0) {
    StrAppend(&sentence, events->overlong_count > 0 ? "; " : ": ", events->detached_count,
              events->detached_count == 1 ? " is " : " are up to ", Duration(events->detached_ns),
              events->detached_count == 1
                  ? " away from the launch on a GPU without other work, or after the host's wait "
                    "for it or later launches of its stream, and left out"
                  : " away from the launches on a GPU without other work, or after the host's "
                    "waits for them or later launches of their streams, and left out");
  }
  if (events->overlong_call_count > 0) {
    StrAppend(&sentence, count > 0 ? "; " : "",
              Of(events->overlong_call_count, events->host_call_count),
              events->overlong_call_count == 1
                  ? " calls of the host lasts beyond the start of what its thread did next, where "
                    "it is taken to end ("
                  : " calls of the host last beyond the start of what their threads did next, "
                    "where they are taken to end (",
              events->overlong_call_name, ": ", Duration(events->overlong_call_ns),
              " recorded, at most ", Duration(events->overlong_call_possible_ns), " possible)");
  }
  const double share = std::max(Share(count, events->gpu_row_count),
                                Share(events->overlong_call_count, events->host_call_count));
  return {.grade = share < kWithholdSharesFrom ? 'C' : 'D',
          .value = static_cast<double>(count + events->overlong_call_count),
          .sentence = std::move(sentence)};
}

QualityCheck Truncation(const Subject& subject) {
  const EventChecks* events = subject.events;
  if (events == nullptr) {
    return {.known = false, .is_share = true, .sentence = "cut ranges were not checked"};
  }
  const double share = Share(events->cut_range_count, events->range_count);
  return {.grade = share > kFewCutRanges ? 'B' : 'A',
          .is_share = true,
          .value = share,
          .bound = kFewCutRanges,
          .sentence = StrCat("the window cuts off ",
                             Of(events->cut_range_count, events->range_count), " ranges")};
}

QualityCheck Unended(const Subject& subject) {
  const EventChecks* events = subject.events;
  if (events == nullptr) {
    return {.known = false, .sentence = "ranges that threads left open were not checked"};
  }
  const int64_t count = events->unended_range_count;
  // Only profd's own exports mark such ranges.
  if (count == 0 && subject.imported()) {
    return {.known = false, .sentence = "a trace does not say which ranges threads left open"};
  }
  if (count == 0) return {.sentence = "no thread ended inside a range, and no step left one open"};
  const int64_t left_open = events->left_open_count;
  std::string how =
      count == 1 ? "it is taken to end with its thread" : "each is taken to end with its thread";
  if (left_open == count) {
    how = count == 1 ? "a later step began it again; it is taken to end with the window"
                     : "later steps began them again; each is taken to end with the window";
  } else if (left_open > 0) {
    StrAppend(&how, ", or (", left_open, ") with the window");
  }
  return {.grade = 'B',
          .value = static_cast<double>(count),
          .sentence = count == 1
                          ? StrCat("1 range '", events->unended_range_name, "' never ended; ", how)
                          : StrCat(count, " ranges never ended, most often '",
                                   events->unended_range_name, "'; ", how)};
}

QualityCheck Clock(const Subject& subject) {
  // Reports compare times of the CPU and of the GPU: the larger error counts.
  const auto error_ns = static_cast<double>(
      std::max(subject.record.clock_error_ns, subject.record.gpu.clock_error_ns));
  if (subject.imported()) {
    return {.known = false,
            .sentence = StrCat("times are multiples of ", subject.record.imported.time_unit_ns,
                               " ns; their error is unknown")};
  }
  return {.grade = GradeOf(error_ns, kTellingClockErrorNs, kLargeClockErrorNs, kNever),
          .value = error_ns,
          .bound = kTellingClockErrorNs,
          .sentence = StrCat("times may be off by ", Duration(static_cast<int64_t>(error_ns)))};
}

// The same capture for less, if recording made steps this much slower. Empty: what costs most of
// PyTorch was not recorded. Inputs are a third of the cost of an operator
// (tests/bench/README.md).
std::string AdviceForSlowdown(const CaptureRecord& record) {
  if (record.torch.operators != OperatorMode::kShapes || record.torch.operator_count == 0)
    return "";
  std::string advice =
      "; to record less, repeat it with --ops names, which leaves out the inputs of operators";
  if (record.covered_steps > 0) {
    StrAppend(&advice, " (", record.torch.operator_count / record.covered_steps,
              " operators a step)");
  }
  return advice;
}

QualityCheck Perturbation(const Subject& subject) {
  const SlowdownRecord& slowdown = subject.record.slowdown;
  if (!slowdown.known) {
    // They must not be taken for those of an undisturbed program.
    return {.grade = subject.imported() ? 'A' : 'B',
            .known = false,
            .is_share = true,
            .sentence = SlowdownClause(slowdown)};
  }
  const double proven = std::max(slowdown.low, 0.0);
  char grade = GradeOf(proven, kSlightlySlower, kMuchSlower, kNever);
  // Probably slower, though little or nothing of it is certain.
  if (grade == 'A' && slowdown.estimate > kProbablySlower) grade = 'B';
  return {.grade = grade,
          .is_share = true,
          .value = proven,
          .bound = kSlightlySlower,
          .sentence = StrCat(SlowdownClause(slowdown),
                             proven > kSlightlySlower ? AdviceForSlowdown(subject.record) : "")};
}

// Waits that may be missing make contention for CPUs unknown, not absent.
QualityCheck CpuWaits(const Subject& subject) {
  const CpuRecord& cpu = subject.record.cpu;
  if (cpu.watched_ns <= 0) {
    return {.known = false, .sentence = "how long threads waited for a CPU was not measured"};
  }
  if (!cpu.misses_waits()) {
    return {.sentence = StrCat("waits for a CPU were measured, of ", cpu.thread_count,
                               cpu.thread_count == 1 ? " thread" : " threads")};
  }
  return {.grade = cpu.misses_waits_of_target() ? 'B' : 'A',
          .value = static_cast<double>(cpu.unread_thread_count) +
                   static_cast<double>(cpu.unread_child_count),
          .sentence = StrCat("waits for a CPU are not all measured, so that contention is not "
                             "excluded: ",
                             UnwatchedClause(cpu))};
}

// A hung program has ranges that were open all the time, and nothing else.
QualityCheck Activity(const Subject& subject) {
  const CaptureRecord& record = subject.record;
  const EventChecks* events = subject.events;
  const int64_t spanning = events == nullptr ? 0 : events->spanning_range_count;
  const bool active =
      record.event_count > spanning || record.covered_steps > 0 || TotalDrops(record.drops) > 0 ||
      (events != nullptr && (events->range_count > spanning || events->gpu_row_count > 0));
  if (active) return {.sentence = "the program was active in the window"};
  std::string sentence = "no activity was recorded in the window: the program may hang";
  if (spanning > 0) {
    StrAppend(&sentence, "; ", spanning, spanning == 1 ? " range was" : " ranges were",
              " open from its start to its end");
  }
  return {.grade = 'C', .value = 1, .sentence = std::move(sentence)};
}

QualityCheck GpuRecording(const Subject& subject) {
  const GpuRecord& gpu = subject.record.gpu;
  if (gpu.outcome == GpuOutcome::kBroken) {
    // The tool that has taken CUPTI ended the capture, which says so. Otherwise it is not known how
    // much is missing.
    const bool has_nothing = gpu.record_count == 0 && !gpu.cupti_taken;
    return {.grade = gpu.cupti_taken ? 'B'
                     : has_nothing   ? 'D'
                                     : 'C',
            .value = 1,
            .sentence =
                has_nothing ? "nothing of the GPU was recorded" : "GPU recording stopped early"};
  }
  // Others are not in every version of CUPTI.
  constexpr std::string_view kEssential[] = {"runtime", "driver", "memcpy", "memset",
                                             "concurrent_kernel"};
  std::string missing;
  for (const GpuKindFailure& failure : gpu.kind_failures) {
    if (std::ranges::find(kEssential, failure.kind) == std::end(kEssential)) continue;
    StrAppend(&missing, missing.empty() ? "" : ", ", failure.kind, " (", failure.result, ")");
  }
  const auto failures = static_cast<int64_t>(gpu.kind_failures.size());
  return {.grade = missing.empty() ? 'A' : 'B',
          .value = static_cast<double>(missing.empty() ? 0 : 1),
          .sentence = StrCat(failures, " kinds of GPU records were not available",
                             missing.empty() ? "" : ": ", missing)};
}

QualityCheck Names(const Subject& subject) {
  const CaptureRecord& record = subject.record;
  const double share = Share(record.other_name_event_count, record.event_count);
  return {.grade = share > kFewOtherNames ? 'B' : 'A',
          .is_share = true,
          .value = share,
          .bound = kFewOtherNames,
          .sentence = StrCat(record.other_name_event_count, " events are named (other)")};
}

QualityCheck Understood(const Subject& subject) {
  if (!subject.imported()) return {.is_share = true, .sentence = "all events were understood"};
  int64_t left_out = 0;
  for (const auto& [kind, count] : subject.record.imported.not_understood) {
    if (kind.starts_with("arg:")) continue;  // A detail of an event that is there.
    if (count > 0 && __builtin_add_overflow(left_out, count, &left_out)) left_out = INT64_MAX;
  }
  const std::string devices = UnreadDevicesClause(subject.record);
  const double share = static_cast<double>(left_out) /
                       std::max(1.0, static_cast<double>(left_out) +
                                         static_cast<double>(subject.record.event_count));
  return {.grade = GradeOf(share, kFewNotUnderstood, kManyNotUnderstood, kNever),
          .is_share = true,
          .value = share,
          .bound = kFewNotUnderstood,
          .sentence = StrCat(left_out, left_out == 1 ? " event" : " events", " of the trace (",
                             Percent(share), left_out == 1 ? ") was" : ") were", " not understood",
                             devices.empty() ? "" : ": ", devices)};
}

using Check = QualityCheck (*)(const Subject&);
constexpr std::array<std::pair<std::string_view, Check>, 13> kChecks = {{
    {"loss", &Loss},
    {"coverage", &Coverage},
    {"orphans", &Orphans},
    {"silent_launches", &SilentLaunchesCheck},
    {"inversions", &Inversions},
    {"impossible_times", &ImpossibleTimes},
    {"truncation", &Truncation},
    {"unended_ranges", &Unended},
    {"clock_error_ns", &Clock},
    {"perturbation", &Perturbation},
    {"activity", &Activity},
    {"gpu_recording", &GpuRecording},
    {"names", &Names},
}};
constexpr std::pair<std::string_view, Check> kImportCheck = {"understood", &Understood};
constexpr std::pair<std::string_view, Check> kRecordedCheck = {"cpu_waits", &CpuWaits};

bool RecordedNothing(const CaptureRecord& record) {
  return record.start_unix_ns == 0 && (record.imported.source.empty() || record.event_count == 0);
}

}  // namespace

std::string UnwatchedClause(const CpuRecord& cpu) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    StrAppend(&text, text.empty() ? "" : "; ", part);
  };
  if (cpu.unread_thread_count > 0) {
    add(StrCat(cpu.unread_thread_count,
               cpu.unread_thread_count == 1 ? " thread was" : " threads were", " not watched"));
  }
  if (cpu.unread_child_count > 0) {
    add(StrCat(cpu.unread_child_count,
               cpu.unread_child_count == 1 ? " child process was" : " child processes were",
               " not watched, or only in part"));
  }
  if (cpu.ended_thread_count > 0) {
    add(StrCat(cpu.ended_thread_count, cpu.ended_thread_count == 1 ? " thread" : " threads",
               " ended, whose last waits are missing"));
  }
  if (cpu.unwatched_ran_ns > 0) {
    add(StrCat("threads that were not watched ran for ",
               Percent(Share(cpu.unwatched_ran_ns, cpu.unwatched_ran_ns + cpu.ran_ns)),
               " of the CPU time of the process"));
  }
  return text;
}

std::string_view CutOffPlace(const CaptureRecord& record) {
  const auto cut = record.imported.not_understood.lower_bound(std::string(kCutOffKind));
  if (cut == record.imported.not_understood.end()) return {};
  const std::string_view kind = cut->first;
  return kind.starts_with(kCutOffKind) ? kind.substr(kCutOffKind.size()) : std::string_view();
}

std::string UnreadDevicesClause(const CaptureRecord& record) {
  int64_t device_count = 0;
  int64_t event_count = 0;
  int64_t most = 0;
  std::string_view name;
  for (const auto& [kind, count] : record.imported.not_understood) {
    if (!kind.starts_with(kUnreadDeviceKind) || count <= 0) continue;
    ++device_count;
    if (__builtin_add_overflow(event_count, count, &event_count)) event_count = INT64_MAX;
    if (count <= most) continue;
    most = count;
    name = std::string_view(kind).substr(kUnreadDeviceKind.size());
  }
  if (device_count == 0) return {};
  std::string text = StrCat(event_count, event_count == 1 ? " event of " : " events of ", name);
  if (device_count > 1) {
    StrAppend(&text, " and ", device_count - 1,
              device_count == 2 ? " other device" : " other devices");
  }
  StrAppend(&text, event_count == 1 ? " is not read" : " are not read");
  return text;
}

std::string_view ToString(ShareTrust trust) {
  switch (trust) {
    case ShareTrust::kWhole:
      return "whole";
    case ShareTrust::kMarked:
      return "marked";
    case ShareTrust::kWithheld:
      return "withheld";
  }
  return "whole";
}

std::string SilentLaunches::Clause() const {
  std::string text = StrCat(" launches ", are_graphs ? "of graphs " : "", "have ");
  if (short_count < count || count == 0) StrAppend(&text, "no GPU work in the recording");
  if (short_count == 0) return text;
  StrAppend(&text, short_count < count ? StrCat(", or (", short_count, ") ") : std::string(),
            "less than other replays of their graph (", missing_node_count,
            missing_node_count == 1 ? " activity is" : " activities are", " missing)");
  return text;
}

SilentLaunches SilentLaunchesOf(const EventChecks& events) {
  // Work that is there without its launch was recorded, but does not name its call.
  const int64_t unlinked = std::max<int64_t>(events.orphan_count - events.earlier_work_count, 0);
  const auto share_of = [&](int64_t silent, int64_t launches, bool are_graphs) {
    const int64_t short_count = std::clamp<int64_t>(events.short_graph_count, 0, launches);
    const int64_t without_work =
        events.captures_graphs ? 0 : std::max<int64_t>(silent - unlinked, 0);
    const int64_t count = std::min(without_work + short_count, launches);
    return SilentLaunches{.count = count,
                          .of = launches,
                          .share = Share(count, launches),
                          .are_graphs = are_graphs,
                          .short_count = short_count,
                          .missing_node_count = events.missing_node_count};
  };
  const SilentLaunches all = share_of(events.silent_launch_count, events.launch_count, false);
  const SilentLaunches graphs =
      share_of(events.silent_graph_count, events.graph_launch_count, true);
  return graphs.share > all.share ? graphs : all;
}

ShareTrust TrustOfShares(double lost_share) {
  if (lost_share >= kWithholdSharesFrom) return ShareTrust::kWithheld;
  return lost_share > kMarkSharesAbove ? ShareTrust::kMarked : ShareTrust::kWhole;
}

double LostShare(int64_t lost_event_count, int64_t kept_event_count) {
  if (lost_event_count <= 0) return 0;
  const auto lost = static_cast<double>(lost_event_count);
  return lost / (lost + static_cast<double>(kept_event_count));
}

Quality ComputeQuality(const CaptureRecord& record, const EventChecks* events) {
  Quality quality = {.grade = "-", .checks = {}};
  if (RecordedNothing(record)) return quality;
  const Subject subject = {record, events};
  const auto add = [&](const std::pair<std::string_view, Check>& entry) {
    quality.checks.push_back(entry.second(subject));
    quality.checks.back().name = std::string(entry.first);
  };
  for (const auto& entry : kChecks) add(entry);
  add(subject.imported() ? kImportCheck : kRecordedCheck);
  char grade = 'A';
  for (const QualityCheck& check : quality.checks) grade = std::max(grade, check.grade);
  if (record.state == CaptureState::kPartial) grade = 'D';
  quality.grade = std::string(1, grade);
  quality.lost_share = LostShare(TotalDrops(record.drops), record.event_count);
  quality.shares = TrustOfShares(quality.lost_share);
  return quality;
}

Quality QualityOf(const CaptureRecord& record, const EventChecks* events) {
  if (record.graded.grade.empty()) return ComputeQuality(record, events);
  const double lost_share = LostShare(TotalDrops(record.drops), record.event_count);
  return {.grade = record.graded.grade,
          .lost_share = lost_share,
          .shares = TrustOfShares(lost_share),
          .checks = record.graded.checks,
          .stored = true};
}

std::string QualityGrade(const CaptureRecord& record) { return QualityOf(record).grade; }

bool IsGradeMissing(const CaptureRecord& record) {
  return IsTerminal(record.state) && !RecordedNothing(record) && record.graded.grade.empty();
}

}  // namespace profd
