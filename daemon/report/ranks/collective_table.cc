#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/gpu/launched_work.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/ranks/collective_waits.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/ranks/cpu_waits.h"
#include "daemon/report/ranks/kernel_notes.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// No job has as many groups of ranks.
constexpr size_t kMostCommunicators = 4096;

// Ranges of the threads that run the backward pass.
constexpr std::string_view kAutogradPrefix = "autograd::engine::";

// Torch's operators that issue a collective to whatever backend the process group has.
constexpr std::string_view kIssuingPrefix = "c10d::";
// How long an idle worker takes to begin what it is given, at most, as on a busy machine.
constexpr uint64_t kMostWorkerWakeUpNs = 10'000'000;
constexpr int64_t kLongIssueNs = 1'000'000;

constexpr auto kUserScope = static_cast<uint8_t>(wire::OperatorScope::kUserScope);
constexpr auto kOperatorCategory = static_cast<uint8_t>(wire::RangeCategory::kOperator);

// ATen's operators compute, and those of c10d only issue a collective, which Work.wait() waits for.
// Other operators may contain a wait: autograd's, or those of the program.
bool NeverWaits(std::string_view name) {
  return name.starts_with("aten::") || name.starts_with("c10d::");
}

// Torch's operator that waits for a functional collective. An operator on the tensor that is not
// there yet is around it: "aten::mm".
bool OnlyWaits(std::string_view name) { return name.ends_with("c10d_functional::wait_tensor"); }

// What `record_param_comms` said of a collective.
struct Note {
  Communicator communicator;
  int64_t sequence = -1;
  int64_t elements = -1;
  int64_t bytes = -1;
  CollectiveKind kind = CollectiveKind::kOther;
  bool is_batch = false;  // Of what was issued before it and is done as one.
};

// The notes of a capture, found by the range that they belong to.
class Notes {
 public:
  absl::Status Read(store::CaptureReader& reader) {
    threads_.resize(reader.threads().size());
    std::vector<std::optional<bool>> is_note(reader.scalars().size());
    std::vector<std::optional<bool>> is_issued(reader.inputs().size());
    RETURN_IF_ERROR(reader.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const uint32_t inputs = batch.inputs[i];
        if (inputs != 0 && !is_issued[inputs].has_value()) {
          is_issued[inputs] = reader.inputs()[inputs].types.starts_with(kTensorsForGroup);
        }
        if (inputs != 0 && (batch.scope[i] == kUserScope || *is_issued[inputs])) {
          inputs_[{batch.thread, batch.start_ns[i], batch.depth[i]}] = batch.inputs[i];
        }
        const uint32_t scalars = batch.scalars[i];
        if (scalars == 0) continue;
        if (!is_note[scalars].has_value()) {
          is_note[scalars] = ParseCollectiveInputs(reader.scalars()[scalars], nullptr).has_value();
        }
        if (!*is_note[scalars]) continue;
        threads_[batch.thread].push_back(
            {batch.start_ns[i], batch.depth[i], scalars, batch.inputs[i]});
      }
      return absl::OkStatus();
    }));
    for (std::vector<Entry>& entries : threads_) {
      std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.start_ns, a.depth) < std::tie(b.start_ns, b.depth);
      });
    }
    return absl::OkStatus();
  }

  std::optional<Note> Find(const store::CaptureReader& reader, uint32_t thread, int64_t start_ns,
                           uint16_t depth) const {
    const std::vector<Entry>& entries = threads_[thread];
    const auto found = std::lower_bound(
        entries.begin(), entries.end(), std::pair(start_ns, depth),
        [](const Entry& a, const auto& key) { return std::pair(a.start_ns, a.depth) < key; });
    if (found == entries.end() || found->start_ns != start_ns || found->depth != depth) {
      return std::nullopt;
    }
    const OperatorInputs* const inputs =
        found->inputs == 0 ? nullptr : &reader.inputs()[found->inputs];
    const auto told = ParseCollectiveInputs(reader.scalars()[found->scalars], inputs);
    if (!told.has_value()) return std::nullopt;
    Note note = {.sequence = told->sequence,
                 .elements = told->elements.value_or(-1),
                 .bytes = told->bytes.value_or(-1),
                 .kind = CollectiveKindOf(told->name),
                 .is_batch = told->name.ends_with("coalesced")};
    note.communicator.size = std::max<int64_t>(told->group_size, 0);
    note.communicator.first_rank = told->first_rank.value_or(-1);
    note.communicator.rank_stride = told->rank_stride.value_or(-1);
    const GroupNames names = GroupNamesOf(told->group);
    note.communicator.id = names.id;
    note.communicator.name = names.name;
    return note;
  }

  // Of a range with inputs of its own, as NCCL's have in imported traces, and as torch's operators
  // have that issue a list of tensors to a process group.
  FirstInputSize SizeOf(const store::CaptureReader& reader, uint32_t thread, int64_t start_ns,
                        uint16_t depth) const {
    const auto found = inputs_.find({thread, start_ns, depth});
    return found == inputs_.end() ? FirstInputSize()
                                  : SizeOfFirstInput(reader.inputs()[found->second]);
  }

 private:
  struct Entry {
    int64_t start_ns;
    uint16_t depth;
    uint32_t scalars;
    uint32_t inputs;
  };
  std::vector<std::vector<Entry>> threads_;
  // A list of tensors, then an object without a type that is known: the process group.
  static constexpr std::string_view kTensorsForGroup = R"(["TensorList","")";
  // Of ranges of the program and of such operators, by thread, start, and depth.
  absl::flat_hash_map<std::tuple<uint32_t, int64_t, uint16_t>, uint32_t> inputs_;
};

struct HostCollective {
  int64_t start_ns;
  int64_t end_ns;  // Of its range.
  CollectiveKind kind;
  std::optional<Note> note;
  FirstInputSize size;             // Where the note does not tell it.
  bool lasts_until_done = false;   // Its range does.
  bool issues = false;             // It is one of torch's operators that issue a collective.
  bool is_nccl = false;            // NCCL ran it, and no worker.
  std::optional<int64_t> done_ns;  // When a worker was done with what the range issued.
  // When the training threads waited for it, after the range; by time.
  std::vector<std::pair<int64_t, int64_t>> waits;
  // Of the kernels that it launched; with `on_device` only.
  int64_t device_start_ns = 0;
  int64_t device_end_ns = 0;
  bool on_device = false;
};

struct Kernel {
  int64_t start_ns;
  int64_t end_ns;
  bool is_compute;
};

class CollectiveSummary {
 public:
  explicit CollectiveSummary(store::CaptureReader& reader)
      : reader_(reader), host_(reader.threads().size()), runs_backward_(reader.threads().size()) {}

  absl::StatusOr<CollectiveTable> Summarize(size_t limit) {
    RETURN_IF_ERROR(notes_.Read(reader_));
    RETURN_IF_ERROR(ReadRanges());
    JoinRuns();
    JoinLateRuns();
    if (reader_.gpu_row_count() > 0) {
      RETURN_IF_ERROR(ReadKernels());
      for (size_t thread = 0; thread < host_.size(); ++thread) {
        JoinBatches(BlocksSteps(thread), host_[thread]);
      }
    }
    RETURN_IF_ERROR(FindWaits());
    AddHostRows();
    std::stable_sort(
        table_.rows.begin(), table_.rows.end(),
        [](const CollectiveRow& a, const CollectiveRow& b) { return a.start_ns < b.start_ns; });
    if (table_.rows.size() > limit) {
      table_.left_out_count += static_cast<int64_t>(table_.rows.size() - limit);
    }
    MakeSets();
    ASSIGN_OR_RETURN(steps_, StepsOfRank());
    Measure();
    if (table_.rows.size() > limit) table_.rows.resize(limit);
    table_.exposed_on_host = std::move(on_host_);
    return std::move(table_);
  }

 private:
  // Which names are collectives; each is looked at once.
  std::optional<CollectiveKind> KindOfName(uint32_t name) {
    if (range_kinds_.empty()) range_kinds_.resize(reader_.names().size());
    auto& known = range_kinds_[name];
    if (!known.has_value()) known = CollectiveOfRange(reader_.names()[name]);
    return *known;
  }

  absl::Status ReadRanges() {
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            const std::string& name = reader_.names()[batch.name[i]];
            const std::optional<CollectiveKind> kind = KindOfName(batch.name[i]);
            if (!kind.has_value()) {
              if (name.starts_with(kAutogradPrefix)) runs_backward_[batch.thread] = true;
              continue;
            }
            if (batch.duration_ns[i] < 0) continue;
            HostCollective collective = {.start_ns = batch.start_ns[i],
                                         .end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                         .kind = *kind,
                                         .lasts_until_done = LastsUntilDone(name),
                                         .issues = name.starts_with(kIssuingPrefix),
                                         .is_nccl = name.starts_with("nccl")};
            collective.size =
                notes_.SizeOf(reader_, batch.thread, batch.start_ns[i], batch.depth[i]);
            if (EndsOnWorker(name)) {
              runs_.push_back(collective);
              continue;
            }
            if (name == kCollectiveOperator) {
              collective.note =
                  notes_.Find(reader_, batch.thread, batch.start_ns[i], batch.depth[i]);
              if (collective.note.has_value()) collective.kind = collective.note->kind;
            }
            Add(collective, host_[batch.thread]);
          }
          return absl::OkStatus();
        });
  }

  // Ranges come by their end: what lies inside this one is the last of what came before.
  static void Add(HostCollective collective, std::vector<HostCollective>& thread) {
    while (!thread.empty() && thread.back().start_ns >= collective.start_ns) {
      HostCollective& inside = thread.back();
      if (!collective.note.has_value()) collective.note = inside.note;
      const bool says_more = !collective.size.elements.has_value() ||
                             (!collective.size.bytes.has_value() && inside.size.bytes.has_value());
      if (says_more) collective.size = inside.size;
      collective.is_nccl |= inside.is_nccl;
      if (collective.kind == CollectiveKind::kOther) collective.kind = inside.kind;
      thread.pop_back();
    }
    thread.push_back(collective);
  }

  // What a worker ran is of the call in which it began, where there is a range of that.
  void JoinRuns() {
    for (const HostCollective& run : runs_) run_ends_.push_back(run.end_ns);
    std::sort(run_ends_.begin(), run_ends_.end());
    std::erase_if(runs_, [&](const HostCollective& run) {
      for (size_t thread = 0; thread < host_.size(); ++thread) {
        HostCollective* const call = Around(static_cast<uint32_t>(thread), run.start_ns);
        if (call == nullptr) continue;
        if (call->kind != run.kind && call->kind != CollectiveKind::kOther) continue;
        call->kind = run.kind;
        call->done_ns = std::max(call->done_ns.value_or(run.end_ns), run.end_ns);
        return true;
      }
      return false;
    });
  }

  // A worker may also begin when the call has returned already. Workers take collectives in the
  // order in which these were issued. A call that they could have begun with long before is not the
  // one: its run was lost.
  void JoinLateRuns() {
    std::map<CollectiveKind, std::vector<HostCollective*>> calls;
    for (std::vector<HostCollective>& thread : host_) {
      for (HostCollective& call : thread) {
        if (call.issues && !call.is_nccl && !call.done_ns.has_value()) {
          calls[call.kind].push_back(&call);
        }
      }
    }
    if (calls.empty()) return;
    const auto by_start = [](const HostCollective* a, const HostCollective* b) {
      return a->start_ns < b->start_ns;
    };
    for (auto& [kind, of_kind] : calls) std::ranges::stable_sort(of_kind, by_start);
    std::ranges::stable_sort(runs_, {}, &HostCollective::start_ns);
    std::map<CollectiveKind, size_t> next;  // The first call that may be of a later run.
    std::erase_if(runs_, [&](const HostCollective& run) {
      const std::vector<HostCollective*>& of_kind = calls[run.kind];
      const auto first = of_kind.begin() + static_cast<ptrdiff_t>(next[run.kind]);
      const auto found = FindCall(run, first, of_kind.end());
      if (found == of_kind.end()) return false;
      (*found)->done_ns = run.end_ns;
      next[run.kind] = static_cast<size_t>(found - of_kind.begin()) + 1;
      return true;
    });
  }

  // Of calls by their start: the first one that `run` can be of. If the workers had nothing to do
  // for longer before the run, that is the last one since then, or the first one. `end`: all began
  // later.
  std::vector<HostCollective*>::const_iterator FindCall(
      const HostCollective& run, std::vector<HostCollective*>::const_iterator first,
      std::vector<HostCollective*>::const_iterator end) const {
    const auto start_of = [](const HostCollective* call) { return call->start_ns; };
    const auto after = std::ranges::upper_bound(first, end, run.start_ns, {}, start_of);
    if (after == first) return end;
    const auto is_soon_after = [&](int64_t time_ns) {
      return static_cast<uint64_t>(run.start_ns) - static_cast<uint64_t>(time_ns) <=
             kMostWorkerWakeUpNs;
    };
    int64_t idle_since_ns = std::numeric_limits<int64_t>::min();
    const auto later_end = std::ranges::upper_bound(run_ends_, run.start_ns);
    if (later_end != run_ends_.begin()) idle_since_ns = *(later_end - 1);
    if (is_soon_after(idle_since_ns)) return first;
    const auto soon = std::partition_point(
        first, after, [&](const HostCollective* call) { return !is_soon_after(call->start_ns); });
    if (soon != after) return soon;
    return (*(after - 1))->start_ns > idle_since_ns ? after - 1 : first;
  }

  bool IsTrainingThread(size_t thread) {
    return static_cast<int64_t>(thread) == reader_.step_thread() || runs_backward_[thread];
  }

  // Reads the ranges of the training threads again if workers ran collectives.
  absl::Status FindWaits() {
    if (reader_.step_thread() < 0) return absl::OkStatus();
    std::vector<HostCollective*> waited_for;
    std::vector<CollectiveWaits::Running> running;
    const auto add = [&](HostCollective& collective, int64_t done_ns) {
      waited_for.push_back(&collective);
      running.push_back({collective.start_ns, done_ns});
    };
    for (HostCollective& run : runs_) add(run, run.end_ns);
    for (std::vector<HostCollective>& calls : host_) {
      for (HostCollective& call : calls) {
        if (call.done_ns.has_value() && !call.on_device) add(call, *call.done_ns);
      }
    }
    if (running.empty()) return absl::OkStatus();
    CollectiveWaits waits(running);
    // By thread: when the last operator that waits began. Ranges come by their end.
    std::vector<std::optional<int64_t>> waits_since(reader_.threads().size());
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeCategory, {},
        [&](const RangeBatch& batch) {
          if (!IsTrainingThread(batch.thread)) return absl::OkStatus();
          for (size_t i = 0; i < batch.size; ++i) {
            const std::string& name = reader_.names()[batch.name[i]];
            const bool is_collective = KindOfName(batch.name[i]).has_value();
            // Its end is the worker's.
            if (is_collective && EndsOnWorker(name)) continue;
            const bool is_operator = batch.category[i] == kOperatorCategory;
            const bool only_waits = OnlyWaits(name);
            waits.AddEvent(batch.start_ns[i], is_operator && !is_collective && !only_waits);
            if (batch.duration_ns[i] < 0) continue;
            const int64_t end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]);
            waits.AddEvent(end_ns);
            std::optional<int64_t>& wait_ns = waits_since[batch.thread];
            if (only_waits) wait_ns = batch.start_ns[i];
            const bool has_wait = wait_ns.has_value() && *wait_ns >= batch.start_ns[i];
            if (is_operator && NeverWaits(name) && !has_wait) {
              waits.AddWork(batch.start_ns[i], end_ns);
            }
          }
          return absl::OkStatus();
        }));
    for (const StepRecord& step : reader_.steps()) {
      waits.AddEvent(step.start_ns);
      waits.AddEvent(EndOf(step.start_ns, step.duration_ns));
    }
    for (const CollectiveWaits::Wait& wait : waits.Find()) {
      HostCollective& collective = *waited_for[wait.collective];
      collective.waits.push_back({wait.start_ns, wait.end_ns});
      if (!wait.ended_late) continue;
      std::optional<int64_t>& done_ns = collective.done_ns;
      (done_ns.has_value() ? *done_ns : collective.end_ns) = wait.end_ns;
    }
    return absl::OkStatus();
  }

  absl::Status ReadKernels() {
    ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader_));
    CommunicationKernels communication(reader_.names(), attribution);
    uint32_t row = 0;
    RETURN_IF_ERROR(
        reader_.ForEach<GpuRow>(kGpuTime | kGpuWhat | kGpuCause, {}, [&](const GpuBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i, ++row) {
            const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
            if (IsMemoryWork(kind)) continue;
            const GpuAttribution::Call* const call = attribution.Find(batch.correlation[i]);
            const bool is_compute =
                kind == GpuRowKind::kGraphLaunch || !communication.Has(batch.name[i], call);
            const int64_t start_ns = batch.start_ns[i];
            const int64_t end_ns = start_ns + batch.duration_ns[i];
            kernels_.push_back({start_ns, end_ns, is_compute});
            if (is_compute) continue;
            HostCollective* const around =
                call == nullptr ? nullptr : Around(call->thread, call->start_ns);
            AddKernel(around, reader_.names()[batch.name[i]], start_ns, end_ns);
            if (around == nullptr) unissued_.back().row = row;
            if (around == nullptr || !around->note.has_value()) without_note_.push_back(row);
            if (around != nullptr && !around->note.has_value()) row_of_[around] = row;
          }
          return absl::OkStatus();
        }));
    return AskKernels();
  }

  // Of collectives without a note, their kernels may say what they are.
  absl::Status AskKernels() {
    ASSIGN_OR_RETURN(const auto notes, ReadKernelNotes(reader_, without_note_));
    const auto note_of = [&](uint32_t row) {
      std::optional<Note> note;
      if (const auto found = notes.find(row); found != notes.end()) {
        note = Note{.communicator = found->second.communicator,
                    .elements = found->second.elements,
                    .bytes = found->second.bytes,
                    .kind = found->second.kind};
      }
      return note;
    };
    for (const Unissued& kernel : unissued_) {
      const std::optional<Note> note = note_of(kernel.row);
      CollectiveKind kind = kernel.kind;
      if (note.has_value() && note->kind != CollectiveKind::kOther) kind = note->kind;
      AddRow({.start_ns = kernel.start_ns,
              .duration_ns = kernel.end_ns - kernel.start_ns,
              .kind = kind,
              .on_device = true},
             note, {});
    }
    for (const auto& [collective, row] : row_of_) {
      collective->note = note_of(row);
      const bool says_kind =
          collective->kind == CollectiveKind::kOther && collective->note.has_value();
      if (says_kind) collective->kind = collective->note->kind;
    }
    return absl::OkStatus();
  }

  // Between the start and the end of a batch, calls only say what is in it: the end launches the
  // kernel of all. A batch of sends and receives sends as much as they do.
  void JoinBatches(bool blocks_steps, std::vector<HostCollective>& thread) {
    std::vector<HostCollective> joined;
    for (HostCollective& collective : thread) {
      const bool is_batch =
          collective.on_device && collective.note.has_value() && collective.note->is_batch;
      if (is_batch) {
        std::vector<const HostCollective*> parts;
        auto first = joined.end();
        while (first != joined.begin() && IsPartOf(*std::prev(first), collective)) {
          parts.push_back(&*--first);
        }
        if (!parts.empty()) TakeParts(parts, collective);
        for (const HostCollective* part : parts) {
          // Saying what is in a batch is short, unless it makes the connection.
          const bool is_long = Difference(part->end_ns, part->start_ns) >= kLongIssueNs;
          if (blocks_steps && is_long) on_host_parts_.push_back({part->start_ns, part->end_ns});
        }
        joined.erase(first, joined.end());
      }
      joined.push_back(std::move(collective));
    }
    thread = std::move(joined);
  }

  static bool IsPartOf(const HostCollective& call, const HostCollective& batch) {
    return !call.on_device && !call.done_ns.has_value() && call.note.has_value() &&
           !call.note->is_batch && call.note->communicator == batch.note->communicator &&
           call.kind != CollectiveKind::kOther;
  }

  static void TakeParts(std::span<const HostCollective* const> parts, HostCollective& batch) {
    std::map<CollectiveKind, std::pair<int64_t, int64_t>> sums;  // Elements and bytes.
    for (const HostCollective* part : parts) {
      auto& [elements, bytes] = sums[part->kind];
      AddKnown(part->note->elements, elements);
      AddKnown(part->note->bytes, bytes);
    }
    const auto most = std::ranges::max_element(
        sums, {}, [](const auto& sum) { return std::pair(sum.second.second, sum.first); });
    const bool is_point_to_point = std::ranges::all_of(sums, [](const auto& sum) {
      return sum.first == CollectiveKind::kSend || sum.first == CollectiveKind::kReceive;
    });
    if (batch.kind == CollectiveKind::kOther) {
      if (sums.size() == 1) batch.kind = sums.begin()->first;
      if (is_point_to_point && sums.size() > 1) batch.kind = CollectiveKind::kSend;
    }
    if (batch.note->elements > 0 || (sums.size() > 1 && !is_point_to_point)) return;
    batch.note->elements = most->second.first;
    batch.note->bytes = most->second.second;
  }

  // -1: not known.
  static void AddKnown(int64_t value, int64_t& sum) {
    sum = value < 0 || sum < 0 ? -1 : Sum(sum, value);
  }

  void AddKernel(HostCollective* around, std::string_view name, int64_t start_ns, int64_t end_ns) {
    if (around == nullptr) {
      unissued_.push_back({.start_ns = start_ns, .end_ns = end_ns, .kind = CollectiveKindOf(name)});
      return;
    }
    if (!around->on_device) {
      around->device_start_ns = start_ns;
      around->device_end_ns = end_ns;
    }
    around->on_device = true;
    around->device_start_ns = std::min(around->device_start_ns, start_ns);
    around->device_end_ns = std::max(around->device_end_ns, end_ns);
    if (around->kind == CollectiveKind::kOther) around->kind = CollectiveKindOf(name);
  }

  HostCollective* Around(uint32_t thread, int64_t time_ns) {
    std::vector<HostCollective>& collectives = host_[thread];
    const auto after = std::upper_bound(
        collectives.begin(), collectives.end(), time_ns,
        [](int64_t time, const HostCollective& collective) { return time < collective.start_ns; });
    if (after == collectives.begin()) return nullptr;
    HostCollective& before = *(after - 1);
    return time_ns < before.end_ns ? &before : nullptr;
  }

  bool BlocksSteps(size_t thread) {
    const int64_t step_thread = reader_.step_thread();
    return step_thread < 0 || thread == static_cast<size_t>(step_thread);
  }

  void AddHostRows() {
    for (size_t thread = 0; thread < host_.size(); ++thread) {
      const bool blocks_steps = BlocksSteps(thread);
      for (const HostCollective& call : host_[thread]) {
        CollectiveRow row = {
            .start_ns = call.on_device ? call.device_start_ns : call.start_ns,
            .kind = call.kind,
            .on_device = call.on_device,
            .has_completion = call.on_device || call.lasts_until_done || call.done_ns.has_value()};
        const int64_t end_ns = call.on_device
                                   ? call.device_end_ns
                                   : std::max(call.end_ns, call.done_ns.value_or(call.end_ns));
        if (__builtin_sub_overflow(end_ns, row.start_ns, &row.duration_ns)) continue;
        // torch also records waits and numbers so: they are no collectives of their own.
        const bool is_collective = call.on_device || call.kind != CollectiveKind::kOther;
        if (blocks_steps && !call.on_device) AddExposedOnHost(call.start_ns, call.end_ns, row);
        for (const auto& [from_ns, to_ns] : call.waits) {
          AddExposedOnHost(std::max(from_ns, call.end_ns), to_ns, row);
        }
        if (is_collective) AddRow(row, call.note, call.size);
      }
    }
    for (const HostCollective& run : runs_) {
      CollectiveRow row = {.start_ns = run.start_ns, .kind = run.kind};
      if (__builtin_sub_overflow(run.end_ns, run.start_ns, &row.duration_ns)) continue;
      for (const auto& [from_ns, to_ns] : run.waits) AddExposedOnHost(from_ns, to_ns, row);
      AddRow(row, std::nullopt, run.size);
    }
  }

  void AddExposedOnHost(int64_t start_ns, int64_t end_ns, CollectiveRow& row) {
    int64_t exposed_ns = 0;
    if (end_ns <= start_ns || __builtin_sub_overflow(end_ns, start_ns, &exposed_ns)) return;
    on_host_parts_.push_back({start_ns, end_ns});
    row.exposed_ns += std::min(exposed_ns, row.duration_ns - row.exposed_ns);
  }

  void AddRow(CollectiveRow row, const std::optional<Note>& note, const FirstInputSize& size) {
    Communicator communicator;
    if (note.has_value()) {
      communicator = note->communicator;
      row.sequence = note->sequence;
      row.elements = note->elements;
      row.bytes = note->bytes;
    }
    if (row.elements < 0) row.elements = size.elements.value_or(-1);
    if (row.bytes < 0) row.bytes = size.bytes.value_or(-1);
    if (communicator_ids_.size() < kMostCommunicators || communicator_ids_.contains(communicator)) {
      const auto [at, inserted] = communicator_ids_.try_emplace(
          communicator, static_cast<uint32_t>(table_.communicators.size()));
      if (inserted) {
        communicator.number = at->second;
        table_.communicators.push_back(communicator);
      }
      row.communicator = at->second;
      table_.rows.push_back(row);
    } else {
      ++table_.left_out_count;
    }
  }

  void MakeSets() {
    std::sort(kernels_.begin(), kernels_.end(),
              [](const Kernel& a, const Kernel& b) { return a.start_ns < b.start_ns; });
    for (const Kernel& kernel : kernels_) {
      all_kernels_.Add(kernel.start_ns, kernel.end_ns);
      if (kernel.is_compute) compute_.Add(kernel.start_ns, kernel.end_ns);
    }
    std::sort(on_host_parts_.begin(), on_host_parts_.end());
    for (const auto& [start_ns, end_ns] : on_host_parts_) on_host_.Add(start_ns, end_ns);
  }

  // Of communication alone.
  uint64_t ExposedOnDevice(int64_t begin_ns, int64_t end_ns) const {
    return all_kernels_.MeasureIn(begin_ns, end_ns) - compute_.MeasureIn(begin_ns, end_ns);
  }

  StepWorkRow WorkIn(int64_t step, int64_t begin_ns, int64_t end_ns) const {
    StepWorkRow work = {.step = step};
    if (end_ns <= begin_ns || __builtin_sub_overflow(end_ns, begin_ns, &work.duration_ns)) {
      return work;
    }
    const uint64_t exposed =
        on_host_.MeasureIn(begin_ns, end_ns) + ExposedOnDevice(begin_ns, end_ns);
    work.exposed_ns =
        static_cast<int64_t>(std::min(exposed, static_cast<uint64_t>(work.duration_ns)));
    return work;
  }

  // On the device the step in which most of it ran: the last one of a step often ends a little
  // after it. On the host the program's order counts, which is the same on all ranks: a worker may
  // be done in another step.
  static int64_t StepOf(const CollectiveRow& row, StepLookup& lookup) {
    size_t position = StepLookup::kNone;
    if (row.on_device) position = lookup.PositionAt(row.start_ns + row.duration_ns / 2);
    if (position == StepLookup::kNone) position = lookup.PositionAt(row.start_ns);
    return position == StepLookup::kNone ? -1 : lookup.steps()[position].index;
  }

  // Where the host runs ahead of its GPU, the steps of the GPU: collectives run in those.
  absl::StatusOr<std::vector<StepRecord>> StepsOfRank() {
    const std::span<const StepRecord> steps = reader_.steps();
    std::vector<StepRecord> of_host(steps.begin(), steps.end());
    if (of_host.size() < 2 || all_kernels_.empty()) return of_host;
    const StepRecord& last = of_host.back();
    const bool may_be_ahead =
        all_kernels_.end_ns() > EndOf(EndOf(last.start_ns, last.duration_ns), last.duration_ns / 2);
    if (!may_be_ahead) return of_host;
    ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader_));
    ASSIGN_OR_RETURN(const DeviceWork work, DeviceWork::Read(reader_, attribution));
    return DeviceSteps(attribution, work, of_host);
  }

  // On the device that does most of the work; `of_host`, if the host is not ahead of it in all.
  static std::vector<StepRecord> DeviceSteps(const GpuAttribution& attribution,
                                             const DeviceWork& work,
                                             const std::vector<StepRecord>& of_host) {
    const std::optional<uint32_t> stream = BusiestStream(work);
    if (!stream.has_value() || attribution.steps().size() != of_host.size()) return of_host;
    const uint32_t device = work.streams()[*stream].device;
    const auto step_of = [](const GpuAttribution::Call& call) { return int64_t{call.step}; };
    const std::vector<LaunchedWork> launched =
        LaunchedWorkOfSteps(work, device, of_host.size(), step_of, stream);
    std::vector<int64_t> lengths_ns;
    for (const StepRecord& step : attribution.steps()) lengths_ns.push_back(step.duration_ns);
    if (!HostRunsAhead(lengths_ns, launched)) return of_host;
    std::vector<StepRecord> of_device(attribution.steps().begin(), attribution.steps().end());
    for (size_t i = 0; i < of_device.size(); ++i) {
      of_device[i].start_ns = launched[i].start_ns;
      of_device[i].duration_ns = Difference(
          FollowEachOther(attribution.steps(), i) ? launched[i + 1].start_ns : launched[i].end_ns,
          launched[i].start_ns);
    }
    // Until the last of its work, on whatever stream.
    const LaunchedWork end = LaunchedWorkOfSteps(work, device, of_device.size(), step_of).back();
    of_device.back().duration_ns =
        Difference(std::max(end.end_ns, launched.back().end_ns), launched.back().start_ns);
    return of_device;
  }

  void Measure() {
    StepLookup lookup(steps_);
    for (CollectiveRow& row : table_.rows) {
      const int64_t end_ns = EndOf(row.start_ns, row.duration_ns);
      if (row.on_device) {
        row.exposed_ns = static_cast<int64_t>(ExposedOnDevice(row.start_ns, end_ns));
      }
      row.step = StepOf(row, lookup);
    }
    const std::vector<int64_t> training_threads = TrainingThreads();
    const StepCpuWaits cpu_waits(reader_.record().cpu, training_threads);
    const auto add_step = [&](int64_t step, int64_t start_ns, int64_t end_ns) {
      StepWorkRow work = WorkIn(step, start_ns, end_ns);
      work.cpu_wait_ns =
          std::min(cpu_waits.In(start_ns, work.duration_ns), MostHostDelay(work, start_ns));
      table_.steps.push_back(work);
    };
    for (const StepRecord& step : lookup.steps()) {
      add_step(step.index, step.start_ns, EndOf(step.start_ns, step.duration_ns));
    }
    if (!lookup.steps().empty()) return;
    for (const WindowRecord& window : reader_.record().windows) {
      add_step(-1, window.start_ns, window.end_ns);
    }
  }

  // How late the host can make a step: with a GPU, no later than that idles, since its work was
  // queued before. -1: not known, as the recording of the GPU's work broke off.
  int64_t MostHostDelay(const StepWorkRow& work, int64_t start_ns) const {
    const GpuOutcome outcome = reader_.record().gpu.outcome;
    if (outcome == GpuOutcome::kBroken || outcome == GpuOutcome::kUnknown) return -1;
    const uint64_t busy_ns = all_kernels_.MeasureIn(start_ns, EndOf(start_ns, work.duration_ns));
    return work.duration_ns -
           static_cast<int64_t>(std::min(busy_ns, static_cast<uint64_t>(work.duration_ns)));
  }

  // As the system numbers them; first the one that marks the steps. Empty: that is not known.
  std::vector<int64_t> TrainingThreads() const {
    const int64_t step_thread = reader_.step_thread();
    if (step_thread < 0 || step_thread >= std::ssize(reader_.threads())) return {};
    std::vector<int64_t> threads = {reader_.threads()[static_cast<size_t>(step_thread)].os_thread};
    for (size_t thread = 0; thread < runs_backward_.size(); ++thread) {
      const int64_t os_thread = reader_.threads()[thread].os_thread;
      if (runs_backward_[thread] && os_thread != threads.front()) threads.push_back(os_thread);
    }
    return threads;
  }

  store::CaptureReader& reader_;
  Notes notes_;
  std::vector<std::optional<std::optional<CollectiveKind>>> range_kinds_;  // By name.
  std::vector<std::vector<HostCollective>> host_;  // By thread, then by start; none overlap.
  std::vector<Kernel> kernels_;
  struct Unissued {
    int64_t start_ns;
    int64_t end_ns;
    CollectiveKind kind;
    uint32_t row = 0;  // Its position among the GPU rows.
  };
  std::vector<Unissued> unissued_;                         // Kernels without a call around them.
  std::vector<uint32_t> without_note_;                     // Rows of kernels.
  absl::flat_hash_map<HostCollective*, uint32_t> row_of_;  // Of one of its kernels.
  IntervalSet all_kernels_;
  IntervalSet compute_;
  std::vector<HostCollective> runs_;  // Of workers, that no call is known of; they may overlap.
  std::vector<int64_t> run_ends_;     // Of all runs, ascending.
  std::vector<bool> runs_backward_;   // By thread: nodes of autograd.
  std::vector<std::pair<int64_t, int64_t>> on_host_parts_;
  IntervalSet on_host_;  // When the training threads were in collectives, or waited for them.
  std::vector<StepRecord> steps_;  // StepsOfRank()
  std::map<Communicator, uint32_t> communicator_ids_;
  CollectiveTable table_;
};

}  // namespace

absl::StatusOr<CollectiveTable> SummarizeCollectives(store::CaptureReader& recorded,
                                                     int64_t limit) {
  BelievedReader reader(recorded);
  if (limit < 0 || limit > kMostCollectives) {
    return absl::InvalidArgumentError(
        StrCat("limit has to be 0 to ", kMostCollectives, ", not ", limit));
  }
  return CollectiveSummary(reader).Summarize(
      static_cast<size_t>(limit == 0 ? kMostCollectives : limit));
}

}  // namespace profd::report
