#include "daemon/base/budget.h"

#include <cstddef>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace internal {

constinit thread_local int64_t t_heap_bytes = 0;
constinit bool g_counts_heap = false;

}  // namespace internal

namespace {

constinit thread_local const HeapLimit* t_limit = nullptr;

}  // namespace

absl::Status OverBudget(std::string_view what, int64_t needed, int64_t budget,
                        std::string_view unit) {
  return WithReason(absl::ResourceExhaustedError(StrCat(what, " needs ", needed, " ", unit,
                                                        ", the budget is ", budget, " ", unit)),
                    kOverBudgetReason);
}

absl::Status OverHeapBudget(std::string_view what, int64_t budget_bytes) {
  return WithReason(
      absl::ResourceExhaustedError(StrCat(what, " needs more than ", budget_bytes >> 20,
                                          " MiB of memory, the budget is ", budget_bytes >> 20,
                                          " MiB; capture fewer steps or a shorter time")),
      kOverBudgetReason);
}

bool IsOverBudget(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && ReasonOf(status) == kOverBudgetReason;
}

std::string LeftOut(const absl::Status& status) { return LeftOut(FromAbsl(status.message())); }
std::string LeftOut(std::string_view what) { return StrCat("left out: ", what); }

HeapLimit::HeapLimit(std::string_view what, int64_t limit_bytes)
    : what_(what), limit_bytes_(limit_bytes), begin_bytes_(internal::t_heap_bytes) {}

absl::Status HeapLimit::Check() const {
  if (internal::t_heap_bytes - begin_bytes_ <= limit_bytes_) return absl::OkStatus();
  return OverHeapBudget(what_, limit_bytes_);
}

ScopedHeapLimit::ScopedHeapLimit(std::string_view what, int64_t limit_bytes)
    : limit_(what, limit_bytes), outer_(t_limit) {
  t_limit = &limit_;
}
ScopedHeapLimit::~ScopedHeapLimit() { t_limit = outer_; }
const HeapLimit* ScopedHeapLimit::Current() { return t_limit; }

bool HeapIsCounted() { return internal::g_counts_heap; }
int64_t ThreadHeapBytes() { return internal::t_heap_bytes; }

}  // namespace profd
