#include "cli/captures/capture_set.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/base/errors.h"
#include "cli/captures/find_group.h"
#include "cli/captures/group_start.h"
#include "cli/captures/one_run.h"
#include "cli/client/daemon_client.h"
#include "cli/client/resource_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr size_t kMostFiles = 4096;

std::string WhyWithoutEvents(const CaptureView& view) {
  if (view.HasEvents()) return "";
  if (view.record.deleted) return std::string(WhyEventsAreGone(view.record));
  if (!IsTerminal(view.record.state)) return StrCat("it is not over yet (", view.state, ")");
  if (!view.record.error_message.empty()) return view.record.error_message;
  return StrCat("nothing was recorded (", view.ended_by, ")");
}

CaptureSet::Member SetMemberOf(CaptureView view) {
  CaptureSet::Member member = {.node = view.record.node,
                               .pid = view.record.target.pid,
                               .rank = RankOf(view.record.target),
                               .capture_id = view.record.id,
                               .missing = WhyWithoutEvents(view)};
  member.view = std::move(view);
  return member;
}

// What is known of it from hearsay.
CaptureSet::Member SetMemberOf(const GroupMember& told) {
  CaptureSet::Member member = {
      .node = told.node, .pid = told.pid, .rank = told.rank, .capture_id = told.capture_id};
  if (told.capture_id.empty()) {
    member.missing = told.error.empty() ? "it could not be prepared" : told.error;
  } else {
    member.missing = "its node is out of reach";
  }
  return member;
}

std::string MessageOf(const absl::Status& status) {
  return std::string(FromAbsl(status.message()));
}

}  // namespace

class CaptureSet::Impl {
 public:
  bool is_group = true;
  std::string group_id;
  std::vector<Member> members;
  const Style* progress = nullptr;  // As NewDaemonSource() has it.

  // Files, or a daemon's.
  void Add(Member member, std::unique_ptr<CaptureSource> source) {
    members.push_back(std::move(member));
    places_.push_back({.source = std::move(source)});
  }
  void AddOfFleet(Member member, size_t fleet, size_t fleet_member) {
    members.push_back(std::move(member));
    places_.push_back({.fleet = fleet, .fleet_member = fleet_member});
  }
  void AddMissing(Member member) { Add(std::move(member), nullptr); }

  size_t AddFleet(Fleet fleet) {
    const absl::MutexLock lock(&mu_);
    fleets_.push_back(std::move(fleet));
    return fleets_.size() - 1;
  }
  Fleet& fleet(size_t index) { return fleets_[index]; }

  // By rank, node and pid; then the places move along.
  void Sort() {
    std::vector<size_t> order;
    for (size_t i = 0; i < members.size(); ++i) order.push_back(i);
    const auto key = [&](size_t i) {
      const Member& member = members[i];
      return std::tuple(member.rank < 0, member.rank, std::cref(member.node).get(), member.pid);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    std::vector<Member> sorted;
    std::vector<Place> places;
    for (const size_t i : order) {
      sorted.push_back(std::move(members[i]));
      places.push_back(std::move(places_[i]));
    }
    members = std::move(sorted);
    places_ = std::move(places);
  }

  CaptureSource& Only() {
    Place& place = places_.front();
    if (place.source == nullptr) {
      DaemonClient* const daemon = fleets_[place.fleet].connection(place.fleet_member);
      // The search gave the connection its deadline.
      daemon->LimitCalls(absl::InfiniteDuration());
      place.source = NewDaemonSource(*daemon, members.front().view, progress);
    }
    return *place.source;
  }

  absl::Status ForEach(absl::FunctionRef<absl::Status(size_t, CaptureSource&)> fn) {
    std::vector<size_t> all(members.size());
    std::iota(all.begin(), all.end(), 0);
    return MarkFailed(Call(all, fn));
  }

  absl::Status ForSome(std::span<const size_t> chosen,
                       absl::FunctionRef<absl::Status(size_t, CaptureSource&)> fn) {
    for (const absl::Status& status : Call(chosen, fn)) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  void Abort() {
    const absl::MutexLock lock(&mu_);
    for (Fleet& fleet : fleets_) fleet.Abort();
    for (Place& place : places_) {
      if (place.source != nullptr) place.source->Abort();
    }
  }

 private:
  // By member; OK for those that are not chosen or missing.
  std::vector<absl::Status> Call(std::span<const size_t> chosen,
                                 absl::FunctionRef<absl::Status(size_t, CaptureSource&)> fn) {
    std::vector<absl::Status> statuses(members.size());
    // Nodes work at the same time. The captures of one node are asked for one after the other, on
    // its connection.
    std::map<size_t, std::map<size_t, std::vector<size_t>>> of_fleets;  // By fleet and its member.
    for (const size_t i : chosen) {
      if (!members[i].missing.empty()) continue;
      if (places_[i].source != nullptr) {
        statuses[i] = fn(i, *places_[i].source);
      } else {
        of_fleets[places_[i].fleet][places_[i].fleet_member].push_back(i);
      }
    }
    for (const auto& [fleet, of_nodes] : of_fleets) {
      const auto& nodes = of_nodes;
      std::vector<size_t> asked;
      asked.reserve(nodes.size());
      for (const auto& [node, mine] : nodes) asked.push_back(node);
      fleets_[fleet].RunOn(
          asked, absl::FromChrono(kReportDeadline),
          [&](size_t node, DaemonClient& daemon) {
            for (const size_t i : nodes.at(node)) {
              const std::unique_ptr<CaptureSource> source =
                  NewDaemonSource(daemon, members[i].view);
              statuses[i] = fn(i, *source);
            }
            return absl::OkStatus();
          },
          [&](size_t node, const absl::Status& status) {
            if (status.ok()) return;
            for (const size_t i : nodes.at(node)) statuses[i] = status;
          });
    }
    return statuses;
  }

  struct Place {
    std::unique_ptr<CaptureSource> source;  // nullptr: of a fleet, or missing.
    size_t fleet = 0;
    size_t fleet_member = 0;
  };

  absl::Status MarkFailed(const std::vector<absl::Status>& statuses) {
    absl::Status first;
    bool any_left = false;
    for (size_t i = 0; i < members.size(); ++i) {
      if (!members[i].missing.empty()) continue;
      if (statuses[i].ok()) {
        any_left = true;
        continue;
      }
      if (first.ok()) first = statuses[i];
      if (statuses[i].code() == absl::StatusCode::kCancelled) return statuses[i];
      members[i].missing = MessageOf(statuses[i]);
    }
    if (any_left || !first.ok()) return any_left ? absl::OkStatus() : first;
    return absl::NotFoundError("no capture of the group can be read");
  }

  absl::Mutex mu_;  // Of adding fleets, against Abort().
  std::vector<Fleet> fleets_;
  std::vector<Place> places_;  // By member.
};

namespace {

// The id in `text`, which names a capture or a group.
struct AskedId {
  std::string id;
  bool is_group = false;  // It says so.
};
absl::StatusOr<AskedId> ParseAskedId(std::string_view text) {
  const bool is_group = text.starts_with(kGroupsPrefix);
  ASSIGN_OR_RETURN(std::string id, ParseCaptureId(WithoutPrefix(text, kGroupsPrefix)));
  return AskedId{std::move(id), is_group};
}

// What one daemon has of what was asked for.
struct Found {
  std::optional<CaptureView> capture;  // By itself.
  std::optional<GroupView> group;
};
absl::StatusOr<Found> FindCaptureOrGroup(DaemonClient& daemon, const AskedId& asked) {
  absl::Status not_found;
  if (!asked.is_group) {
    absl::StatusOr<CaptureView> capture = daemon.GetCapture(asked.id);
    if (capture.ok()) return Found{.capture = *std::move(capture)};
    if (capture.status().code() != absl::StatusCode::kNotFound) return capture.status();
    not_found = capture.status();
  }
  absl::StatusOr<GroupView> group = daemon.GetCaptureGroup(asked.id);
  if (group.ok()) return Found{.group = *std::move(group)};
  const bool no_group = group.status().code() == absl::StatusCode::kNotFound ||
                        group.status().code() == absl::StatusCode::kInvalidArgument;
  return no_group && !not_found.ok() ? not_found : group.status();
}

}  // namespace

// Puts a set together from what daemons answered.
class CaptureSetBuilder {
 public:
  explicit CaptureSetBuilder(CaptureSet::Impl& set) : set_(set) {}

  absl::Status FromFiles(const std::vector<std::string>& paths, const Style& progress) {
    if (paths.size() > kMostFiles) {
      return UsageError(StrCat("at most ", kMostFiles, " files at once"));
    }
    std::set<std::string> ids;
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(std::unique_ptr<CaptureSource> source, OpenCaptureFile(path, &progress));
      if (!ids.insert(source->view().record.id).second) {
        return UsageError(
            StrCat("'", ForDisplay(path, 200), "' is a capture that was given before"));
      }
      CaptureSet::Member member = SetMemberOf(source->view());
      // A file can be read, whatever its record says of another.
      member.missing.clear();
      set_.Add(std::move(member), std::move(source));
    }
    set_.is_group = paths.size() > 1;
    set_.group_id = set_.members.front().view.record.group_id;
    for (const CaptureSet::Member& member : set_.members) {
      if (member.view.record.group_id != set_.group_id) set_.group_id.clear();
    }
    return absl::OkStatus();
  }

  absl::Status FromDaemon(Invocation& invocation, const AskedId& asked) {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(Found found, FindCaptureOrGroup(*daemon, asked));
    const auto open_source = [&](CaptureView view) {
      return NewDaemonSource(*daemon, std::move(view), &invocation.error_style());
    };
    if (found.capture.has_value()) {
      set_.is_group = false;
      CaptureSet::Member member = SetMemberOf(*found.capture);
      // Its source says better why there is no report.
      member.missing.clear();
      set_.Add(std::move(member), open_source(*std::move(found.capture)));
      return absl::OkStatus();
    }
    GroupView& group = *found.group;
    set_.group_id = group.record.id;
    Learn(group);
    for (CaptureView& view : group.captures) {
      CaptureSet::Member member = Told(SetMemberOf(view));
      set_.Add(std::move(member), open_source(std::move(view)));
    }
    if (IsOfWindow()) {
      const CaptureRecord of = set_.members.front().view.record;
      ASSIGN_OR_RETURN(const std::vector<GroupMember> others, OthersOfWindow(*daemon, "", of));
      AddMissing(others);
    }
    RETURN_IF_ERROR(AskWhereTheyAre(invocation));
    NameRanksWithoutTrace();
    return absl::OkStatus();
  }

  absl::Status FromFleet(Invocation& invocation, Fleet fleet, const AskedId& asked) {
    ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
    const size_t index = set_.AddFleet(std::move(fleet));
    set_.progress = &invocation.error_style();
    Fleet& nodes = set_.fleet(index);
    std::vector<Found> found(nodes.members().size());
    std::vector<NodeOutcome> outcomes =
        RunOnAll(invocation, nodes, timeout, [&](size_t member, DaemonClient& daemon) {
          absl::StatusOr<Found> one = FindCaptureOrGroup(daemon, asked);
          if (!one.ok()) return one.status();
          found[member] = *std::move(one);
          return absl::OkStatus();
        });
    RETURN_IF_ERROR(TakeFound(found, index));
    if (IsOfWindow()) {
      const CaptureRecord of = set_.members.front().view.record;
      std::vector<std::vector<GroupMember>> others(nodes.members().size());
      const std::vector<NodeOutcome> told = RunOnAll(
          invocation, nodes, timeout, [&](size_t member, DaemonClient& daemon) -> absl::Status {
            ASSIGN_OR_RETURN(others[member],
                             OthersOfWindow(daemon, nodes.members()[member].node, of));
            return absl::OkStatus();
          });
      for (size_t node = 0; node < others.size(); ++node) {
        if (outcomes[node].status.ok()) outcomes[node].status = told[node].status;
        AddMissing(others[node]);
      }
    }
    NameOutOfReach(outcomes);
    NameRanksWithoutTrace();
    if (!set_.members.empty()) return absl::OkStatus();
    invocation.Note(RenderNodeFailures(outcomes));
    for (const NodeOutcome& outcome : outcomes) {
      if (!outcome.status.ok()) return outcome.status;
    }
    return absl::NotFoundError("no node has a capture or a group of that id");
  }

 private:
  // Whether a schedule made the group.
  bool IsOfWindow() const {
    return set_.is_group && !set_.members.empty() &&
           !set_.members.front().view.record.schedule_id.empty();
  }

  void AddMissing(std::span<const GroupMember> members) {
    for (const GroupMember& member : members) set_.AddMissing(SetMemberOf(member));
  }

  void NameRanksWithoutTrace() {
    if (!set_.is_group) return;
    std::vector<const CaptureRecord*> records;
    for (const CaptureSet::Member& member : set_.members) records.push_back(&member.view.record);
    for (const int64_t rank : RanksWithoutTrace(records)) {
      set_.AddMissing({.pid = -1, .rank = rank, .missing = std::string(kNoTraceMessage)});
    }
  }

  void Learn(const GroupView& group) {
    for (const GroupMember& member : group.record.members) {
      told_.try_emplace(KeyOf(member), member);
    }
  }
  // Those that could not be prepared have no id.
  static std::string KeyOf(const GroupMember& member) {
    return member.capture_id.empty() ? StrCat(member.node, "/", member.pid) : member.capture_id;
  }

  // What is said of it besides its capture; it is then accounted for.
  CaptureSet::Member Told(CaptureSet::Member member) {
    const auto told = told_.find(member.capture_id);
    if (told == told_.end()) return member;
    if (member.rank < 0) member.rank = told->second.rank;
    if (told->second.clock_bound_ns >= 0) {
      member.probe = report::ClockProbe{.offset_ns = told->second.clock_offset_ns,
                                        .bound_ns = told->second.clock_bound_ns};
    }
    told_.erase(told);
    return member;
  }

  absl::Status TakeFound(std::vector<Found>& found, size_t fleet) {
    for (const Found& one : found) {
      if (!one.group.has_value()) continue;
      set_.group_id = one.group->record.id;
      Learn(*one.group);
    }
    // A daemon that has two names in the list of nodes answers twice.
    std::set<std::string> taken;
    const auto take = [&](CaptureView& view, size_t member, bool is_group) {
      if (!taken.insert(view.record.id).second) return;
      CaptureSet::Member of = Told(SetMemberOf(view));
      of.view = std::move(view);
      if (!is_group) of.missing.clear();
      set_.AddOfFleet(std::move(of), fleet, member);
    };
    for (size_t member = 0; member < found.size(); ++member) {
      if (found[member].group.has_value()) {
        for (CaptureView& view : found[member].group->captures) take(view, member, true);
      } else if (found[member].capture.has_value()) {
        take(*found[member].capture, member, false);
        set_.is_group = false;
      }
    }
    if (!set_.is_group && set_.members.size() > 1) {
      return UsageError("several nodes have a capture whose id begins so; give more of it");
    }
    return absl::OkStatus();
  }

  void NameOutOfReach(const std::vector<NodeOutcome>& outcomes) {
    std::map<std::string, std::string> errors;
    for (const NodeOutcome& outcome : outcomes) {
      if (!outcome.status.ok()) errors[outcome.node] = MessageOf(outcome.status);
    }
    for (const auto& [id, told] : told_) {
      CaptureSet::Member member = SetMemberOf(told);
      const auto error = errors.find(told.node);
      if (error != errors.end() && !told.capture_id.empty()) member.missing = error->second;
      set_.AddMissing(std::move(member));
    }
  }

  // Members that the daemon asked does not have, by the addresses that it was told.
  absl::Status AskWhereTheyAre(Invocation& invocation) {
    ASSIGN_OR_RETURN(const ClientSettings settings, invocation.Settings());
    std::map<std::string, std::vector<GroupMember>> by_address;
    for (const auto& [id, told] : told_) {
      if (!told.capture_id.empty() && !told.address.empty()) {
        by_address[told.address].push_back(told);
      }
    }
    std::vector<Fleet::Member> nodes;
    std::vector<std::vector<GroupMember>> wanted;
    for (auto& [address, members] : by_address) {
      // Hearsay: what is no address is out of reach.
      absl::StatusOr<Endpoint> endpoint = ParseAddress(address, "the group", settings.tls);
      if (!endpoint.ok()) continue;
      nodes.push_back({members.front().node, *std::move(endpoint)});
      wanted.push_back(std::move(members));
    }
    std::map<std::string, std::string> errors;  // By capture.
    if (!nodes.empty()) Fetch(std::move(nodes), wanted, errors);
    for (const auto& [id, told] : told_) {
      CaptureSet::Member member = SetMemberOf(told);
      if (const auto error = errors.find(id); error != errors.end()) member.missing = error->second;
      set_.AddMissing(std::move(member));
    }
    return absl::OkStatus();
  }

  void Fetch(std::vector<Fleet::Member> nodes, const std::vector<std::vector<GroupMember>>& wanted,
             std::map<std::string, std::string>& errors) {
    constexpr absl::Duration kDeadline = absl::Seconds(10);
    const size_t index = set_.AddFleet(Fleet(std::move(nodes)));
    absl::Mutex mu;
    std::vector<std::pair<size_t, CaptureView>> views;
    const auto note = [&](const GroupMember& member, const absl::Status& status) {
      const absl::MutexLock lock(&mu);
      errors[member.capture_id] = MessageOf(status);
    };
    set_.fleet(index).Run(
        kDeadline,
        [&](size_t node, DaemonClient& daemon) {
          for (const GroupMember& member : wanted[node]) {
            absl::StatusOr<CaptureView> view = daemon.GetCapture(member.capture_id);
            if (!view.ok()) {
              note(member, view.status());
              continue;
            }
            const absl::MutexLock lock(&mu);
            views.emplace_back(node, *std::move(view));
          }
          return absl::OkStatus();
        },
        [&](size_t node, const absl::Status& status) {
          if (status.ok()) return;
          for (const GroupMember& member : wanted[node]) note(member, status);
        });
    for (auto& [node, view] : views) {
      CaptureSet::Member member = Told(SetMemberOf(view));
      member.view = std::move(view);
      set_.AddOfFleet(std::move(member), index, node);
    }
  }

  CaptureSet::Impl& set_;
  std::map<std::string, GroupMember> told_;  // Not accounted for yet, by capture.
};

absl::Status CaptureSet::CheckSet(const Impl& impl, const Invocation& invocation) {
  if (!impl.is_group || invocation.flags().Has("group")) return absl::OkStatus();
  std::vector<const CaptureRecord*> captures;
  for (const Member& member : impl.members) {
    if (member.missing.empty()) captures.push_back(&member.view.record);
  }
  return CheckOneRun(captures);
}

CaptureSet::CaptureSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CaptureSet::CaptureSet(CaptureSet&&) noexcept = default;
CaptureSet& CaptureSet::operator=(CaptureSet&&) noexcept = default;
CaptureSet::~CaptureSet() = default;

absl::StatusOr<CaptureSet> CaptureSet::Open(Invocation& invocation) {
  const std::vector<std::string>& arguments = invocation.arguments();
  auto impl = std::make_unique<Impl>();
  CaptureSetBuilder builder(*impl);
  if (std::all_of(arguments.begin(), arguments.end(),
                  [](const std::string& argument) { return NamesFile(argument); })) {
    RETURN_IF_ERROR(builder.FromFiles(arguments, invocation.error_style()));
  } else if (arguments.size() > 1) {
    return UsageError("give one ID, of a capture or a group, or FILES.profd");
  } else {
    ASSIGN_OR_RETURN(const AskedId asked, ParseAskedId(arguments.front()));
    ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
    RETURN_IF_ERROR(fleet.has_value() ? builder.FromFleet(invocation, *std::move(fleet), asked)
                                      : builder.FromDaemon(invocation, asked));
  }
  impl->Sort();
  RETURN_IF_ERROR(CheckSet(*impl, invocation));
  return CaptureSet(std::move(impl));
}

bool CaptureSet::is_group() const { return impl_->is_group; }
CaptureSource& CaptureSet::Only() { return impl_->Only(); }
const std::string& CaptureSet::group_id() const { return impl_->group_id; }
std::span<const CaptureSet::Member> CaptureSet::members() const { return impl_->members; }

size_t CaptureSet::present_count() const {
  return static_cast<size_t>(
      std::count_if(impl_->members.begin(), impl_->members.end(),
                    [](const Member& member) { return member.missing.empty(); }));
}

absl::Status CaptureSet::ForEach(absl::FunctionRef<absl::Status(size_t, CaptureSource&)> fn) {
  return impl_->ForEach(fn);
}
absl::Status CaptureSet::ForSome(std::span<const size_t> chosen,
                                 absl::FunctionRef<absl::Status(size_t, CaptureSource&)> fn) {
  return impl_->ForSome(chosen, fn);
}
void CaptureSet::Abort() { impl_->Abort(); }

}  // namespace profd::cli
