#include "daemon/report/memory/allocation_origins.h"

#include <algorithm>

#include "daemon/base/str_cat.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/place_index.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::string_view kNoRange = "(no range)";
// Ranges nest less than 128 deep, but for those without length at one moment.
constexpr size_t kMostAroundOne = 1024;
constexpr size_t kMostAtOneMoment = size_t{1} << 20;
constexpr std::string_view kEnginePrefix = "autograd::engine::evaluate_function: ";

std::string_view Without(std::string_view prefix, std::string_view name) {
  if (name.starts_with(prefix) && name.size() > prefix.size()) name.remove_prefix(prefix.size());
  return name;
}

}  // namespace

size_t AllocationOrigins::Add(uint32_t thread, int64_t time_ns, bool wants_stack) {
  const size_t handle = instants_.size();
  instants_.push_back({.time_ns = time_ns, .wants_stack = wants_stack});
  threads_[thread].instants.push_back(handle);
  first_ns_ = std::min(first_ns_, time_ns);
  last_ns_ = std::max(last_ns_, time_ns);
  return handle;
}

absl::Status AllocationOrigins::Resolve(store::CaptureReader& reader) {
  names_ = reader.names();
  if (instants_.empty()) return absl::OkStatus();
  is_module_.assign(names_.size(), 0);
  for (auto& [thread, of] : threads_) {
    std::stable_sort(of.instants.begin(), of.instants.end(), [&](size_t a, size_t b) {
      return instants_[a].time_ns < instants_[b].time_ns;
    });
  }
  AddPythonRows(reader.threads());
  const store::TimeFilter filter = {first_ns_, EndOf(last_ns_, 1)};
  return reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName | kRangeCategory, filter,
      [&](const RangeBatch& batch) {
        if (const auto found = threads_.find(batch.thread); found != threads_.end()) {
          return Match(batch, found->second, /*only_modules=*/false);
        }
        const auto found = python_rows_.find(batch.thread);
        return found == python_rows_.end() ? absl::OkStatus()
                                           : Match(batch, found->second, /*only_modules=*/true);
      });
}

void AllocationOrigins::AddPythonRows(std::span<const store::ReaderThread> threads) {
  absl::flat_hash_map<int64_t, uint32_t> with_instants;  // By the system's number.
  for (const auto& [thread, of] : threads_) {
    if (thread < threads.size()) with_instants.emplace(threads[thread].os_thread, thread);
  }
  for (uint32_t row = 0; row < threads.size(); ++row) {
    if (threads_.contains(row) || threads[row].os_thread <= 0) continue;
    const auto thread = with_instants.find(threads[row].os_thread);
    if (thread == with_instants.end()) continue;
    python_rows_[row].instants = threads_.at(thread->second).instants;
  }
}

// Ranges come in order of their end, so a range encloses the last of those that have been passed.
absl::Status AllocationOrigins::Match(const RangeBatch& batch, OfThread& of, bool only_modules) {
  for (size_t i = 0; i < batch.size; ++i) {
    const int64_t start_ns = batch.start_ns[i];
    const int64_t end_ns = EndOf(start_ns, batch.duration_ns[i]);
    while (of.next < of.instants.size() && instants_[of.instants[of.next]].time_ns <= end_ns) {
      ++of.next;
    }
    const bool is_operator =
        batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kOperator);
    for (size_t at = of.next; at-- > 0;) {
      Instant& instant = instants_[of.instants[at]];
      if (instant.time_ns < start_ns) break;
      if (only_modules) {
        EncloseInModule(instant, batch.name[i]);
      } else {
        Enclose(instant, of.instants[at], batch.name[i], is_operator);
      }
      // In a hostile file each range may enclose every instant, which would take quadratic time.
      if (++enclosed_ / kMostAroundOne > instants_.size() + kMostAtOneMoment / kMostAroundOne) {
        return absl::DataLossError(StrCat("the ranges of thread ", batch.thread, " do not nest"));
      }
    }
  }
  return absl::OkStatus();
}

void AllocationOrigins::Enclose(Instant& instant, size_t handle, uint32_t name, bool is_operator) {
  if (instant.innermost == 0) instant.innermost = name;
  if (is_operator) instant.op = name;
  EncloseInModule(instant, name);
  if (instant.wants_stack) stacks_[handle].push_back(name);
}

void AllocationOrigins::EncloseInModule(Instant& instant, uint32_t name) {
  if (is_module_[name] == 0) is_module_[name] = names_[name].starts_with(kModulePrefix) ? 2 : 1;
  if (is_module_[name] == 2) instant.module = ModuleAround(instant.module, name);
}

uint32_t AllocationOrigins::ModuleAround(uint32_t inner, uint32_t name) {
  const auto found = module_at_.find({inner, name});
  if (found != module_at_.end()) return found->second;
  if (modules_.size() > kMostModulePaths) return inner;
  const auto number = static_cast<uint32_t>(modules_.size());
  modules_.push_back({inner, name});
  module_at_.emplace(std::pair(inner, name), number);
  return number;
}

std::string_view AllocationOrigins::OpOf(size_t handle) const {
  const Instant& instant = instants_[handle];
  return instant.op == 0 ? InnermostOf(handle)
                         : Without(kEnginePrefix, std::string_view(names_[instant.op]));
}

std::string_view AllocationOrigins::InnermostOf(size_t handle) const {
  const uint32_t name = instants_[handle].innermost;
  return name == 0 ? kNoRange : std::string_view(names_[name]);
}

std::string AllocationOrigins::ModuleOf(size_t handle) const {
  std::string path;
  for (uint32_t at = instants_[handle].module; at != 0; at = modules_[at].inner) {
    StrAppend(&path, path.empty() ? "" : " > ",
              Without(kModulePrefix, std::string_view(names_[modules_[at].name])));
  }
  return path;
}

std::vector<std::string> AllocationOrigins::StackOf(size_t handle) const {
  std::vector<std::string> stack;
  const auto found = stacks_.find(handle);
  if (found == stacks_.end()) return stack;
  stack.reserve(found->second.size());
  for (auto name = found->second.rbegin(); name != found->second.rend(); ++name) {
    stack.push_back(names_[*name]);
  }
  return stack;
}

}  // namespace profd::report
