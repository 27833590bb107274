#include "daemon/rpc/capture_lookup.h"

#include <span>
#include <string>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/rpc/names.h"

namespace profd::rpc {
namespace {

// Asks before every batch whether anybody still wants the answer.
class AbandonableReader final : public store::CaptureReader {
 private:
  absl::Status StillWanted() const {
    if (cancelled_->load(std::memory_order_acquire)) {
      return absl::CancelledError("the caller went away");
    }
    return door_.closed() ? door_.TurnedAway() : absl::OkStatus();
  }
  // `fn`, unless nobody waits any more.
  template <typename Batch>
  auto Asking(absl::FunctionRef<absl::Status(const Batch&)> fn) const {
    return [this, fn](const Batch& batch) -> absl::Status {
      RETURN_IF_ERROR(StillWanted());
      return fn(batch);
    };
  }

 public:
  AbandonableReader(std::unique_ptr<store::CaptureReader> reader, const Door& door,
                    const CallInfo& info)
      : reader_(std::move(reader)), door_(door), cancelled_(info.cancelled) {}

  const CaptureRecord& record() const override { return reader_->record(); }
  std::span<const std::string> names() const override { return reader_->names(); }
  std::span<const store::ReaderThread> threads() const override { return reader_->threads(); }
  std::span<const StepRecord> steps() const override { return reader_->steps(); }

  int64_t step_thread() override { return reader_->step_thread(); }
  int64_t gpu_row_count() const override { return reader_->gpu_row_count(); }
  std::span<const OperatorInputs> inputs() const override { return reader_->inputs(); }
  std::span<const std::string> scalars() const override { return reader_->scalars(); }
  int64_t framework_row_count() const override { return reader_->framework_row_count(); }

  absl::Status ForEachRange(uint32_t columns, const store::TimeFilter& filter,
                            absl::FunctionRef<absl::Status(const store::RangeBatch&)> fn) override {
    return reader_->ForEachRange(columns, filter, Asking(fn));
  }
  absl::Status ForEachInstant(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::InstantBatch&)> fn) override {
    return reader_->ForEachInstant(filter, Asking(fn));
  }
  absl::Status ForEachCounter(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::CounterBatch&)> fn) override {
    return reader_->ForEachCounter(filter, Asking(fn));
  }
  absl::Status ForEachMemory(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::MemoryBatch&)> fn) override {
    return reader_->ForEachMemory(filter, Asking(fn));
  }
  absl::Status ForEachApiCall(const store::TimeFilter& filter,
                              absl::FunctionRef<absl::Status(const store::ApiBatch&)> fn) override {
    return reader_->ForEachApiCall(filter, Asking(fn));
  }
  absl::Status ForEachGpu(uint32_t columns, const store::TimeFilter& filter,
                          absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) override {
    return reader_->ForEachGpu(columns, filter, Asking(fn));
  }
  absl::Status ForEachSync(const store::TimeFilter& filter,
                           absl::FunctionRef<absl::Status(const store::SyncBatch&)> fn) override {
    return reader_->ForEachSync(filter, Asking(fn));
  }
  absl::Status ForEachOverhead(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OverheadBatch&)> fn) override {
    return reader_->ForEachOverhead(filter, Asking(fn));
  }
  absl::Status ForEachCudaEvent(
      absl::FunctionRef<absl::Status(const store::CudaEventBatch&)> fn) override {
    return reader_->ForEachCudaEvent(Asking(fn));
  }
  absl::Status ForEachOperator(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::OperatorBatch&)> fn) override {
    return reader_->ForEachOperator(filter, Asking(fn));
  }
  absl::Status ForEachTensorUse(
      const store::TimeFilter& filter,
      absl::FunctionRef<absl::Status(const store::TensorUseBatch&)> fn) override {
    return reader_->ForEachTensorUse(filter, Asking(fn));
  }
  absl::Status ForEachNote(absl::FunctionRef<absl::Status(const store::NoteBatch&)> fn) override {
    return reader_->ForEachNote(Asking(fn));
  }
  absl::Status ForEachBlock(absl::FunctionRef<absl::Status(const store::BlockBatch&)> fn) override {
    return reader_->ForEachBlock(Asking(fn));
  }

 private:
  const std::unique_ptr<store::CaptureReader> reader_;
  const Door& door_;
  const std::shared_ptr<const std::atomic<bool>> cancelled_;
};

absl::Status NoEvents(const CaptureRecord& record) {
  const std::string_view why = record.deleted
                                   ? "its events were deleted; what `profctl show` prints is kept"
                                   : "nothing was recorded; `profctl show` says why";
  return WithReason(absl::NotFoundError(StrCat("capture ", record.id, " holds no events: ", why)),
                    "NO_EVENTS");
}

}  // namespace

std::optional<int64_t> VisibleOwner(const Caller& caller) {
  if (caller.rules != nullptr || caller.MayAll(Verb::kList)) return std::nullopt;
  return caller.uid;
}

absl::StatusOr<CaptureRecord> FindCapture(CaptureManager& manager, store::CaptureStore& store,
                                          const Caller& caller, std::string_view name) {
  ASSIGN_OR_RETURN(std::string id, ParseCaptureName(name));
  if (!IsUlid(id)) {
    const auto may_list = [&caller](const CaptureRecord& record) {
      return caller.May(Verb::kList, OwnerOf(record));
    };
    ASSIGN_OR_RETURN(CaptureRecord resolved, store.ResolvePrefix(id, may_list));
    id = std::move(resolved.id);
  }
  return manager.Get(caller, id);
}

absl::StatusOr<CaptureRecord> FindStoredCapture(CaptureManager& manager, store::CaptureStore& store,
                                                const Caller& caller, std::string_view name) {
  ASSIGN_OR_RETURN(CaptureRecord record, FindCapture(manager, store, caller, name));
  if (!caller.May(Verb::kRead, OwnerOf(record))) {
    return NotAllowed(caller, Verb::kRead, StrCat("capture ", record.id));
  }
  if (!IsTerminal(record.state)) {
    return WithReason(absl::FailedPreconditionError(StrCat("capture ", record.id, " is still ",
                                                           ToString(record.state),
                                                           "; wait for its end, or cancel it")),
                      "CAPTURE_LIVE");
  }
  if (record.deleted || record.file_bytes == 0) return NoEvents(record);
  return record;
}

absl::StatusOr<std::unique_ptr<store::CaptureReader>> OpenEvents(const Door& door,
                                                                 store::CaptureStore& store,
                                                                 const CallInfo& info,
                                                                 const CaptureRecord& record) {
  ASSIGN_OR_RETURN(std::unique_ptr<store::CaptureReader> reader, store.OpenReader(record.id));
  return std::make_unique<AbandonableReader>(std::move(reader), door, info);
}

}  // namespace profd::rpc
