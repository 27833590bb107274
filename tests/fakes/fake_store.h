// FakeStore: a StorePort in memory, with errors on command. Its files keep only what was
// done with them: finished or discarded.
//
// Threads: any.
#ifndef PROFD_TESTS_FAKES_FAKE_STORE_H_
#define PROFD_TESTS_FAKES_FAKE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "daemon/capture/ports.h"

namespace profd {

class FakeStore final : public StorePort {
 public:
  // What the next calls answer, until set again.
  absl::Status insert_error, update_error, create_error, room_error, finish_error;
  // What CreateFile() does first, unless empty.
  std::function<void()> before_create;
  EvictedCaptures evicted;  // For the capture that CheckRoom() was last called for.

  std::vector<std::string> finished() const {
    absl::MutexLock lock(&mu_);
    return finished_;
  }
  std::vector<std::string> discarded() const {
    absl::MutexLock lock(&mu_);
    return discarded_;
  }

  absl::Status InsertCapture(const CaptureRecord& record) override {
    absl::MutexLock lock(&mu_);
    if (!insert_error.ok()) return insert_error;
    if (!records_.emplace(record.id, record).second) return absl::FailedPreconditionError("exists");
    return absl::OkStatus();
  }
  absl::Status UpdateCapture(const CaptureRecord& record) override {
    if (!update_error.ok()) return update_error;
    absl::MutexLock lock(&mu_);
    const auto it = records_.find(record.id);
    if (it == records_.end()) return absl::NotFoundError(record.id);
    it->second = record;
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<CaptureFileSink>> CreateFile(
      const CaptureRecord& record) override {
    if (before_create) before_create();
    if (!create_error.ok()) return create_error;
    return std::make_unique<File>(*this, record.id);
  }
  absl::Status CheckRoom(std::string_view, std::string_view capture_id) override {
    absl::MutexLock lock(&mu_);
    room_checked_for_ = capture_id;
    return room_error;
  }
  void MakeRoom(std::string_view principal, std::string_view capture_id) override {
    absl::MutexLock lock(&mu_);
    room_made_for_.emplace_back(principal, capture_id);
  }
  absl::StatusOr<EvictedCaptures> ListEvictedFor(std::string_view id, std::string_view) override {
    absl::MutexLock lock(&mu_);
    return id == room_checked_for_ ? evicted : EvictedCaptures();
  }
  // The principals and captures that MakeRoom() was called for.
  std::vector<std::pair<std::string, std::string>> room_made_for() const {
    absl::MutexLock lock(&mu_);
    return room_made_for_;
  }
  // The capture that CheckRoom() was last called for.
  std::string room_checked_for() const {
    absl::MutexLock lock(&mu_);
    return room_checked_for_;
  }
  absl::StatusOr<CaptureRecord> GetCapture(std::string_view id) override {
    absl::MutexLock lock(&mu_);
    const auto it = records_.find(id);
    if (it == records_.end()) return absl::NotFoundError(std::string(id));
    return it->second;
  }
  absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                         int64_t requested_by_uid) override {
    absl::MutexLock lock(&mu_);
    std::vector<CaptureRecord> found;
    for (const auto& [id, record] : records_) {
      if (record.request_id == request_id && record.requested_by_uid == requested_by_uid) {
        found.push_back(record);
      }
    }
    return found;
  }
  absl::Status DeleteCapture(std::string_view id) override {
    absl::MutexLock lock(&mu_);
    const auto it = records_.find(id);
    if (it == records_.end()) return absl::NotFoundError(std::string(id));
    it->second.deleted = true;
    it->second.file_bytes = 0;
    return absl::OkStatus();
  }
  absl::Status PutGroup(const GroupRecord& group) override {
    absl::MutexLock lock(&mu_);
    groups_.insert_or_assign(group.id, group);
    return absl::OkStatus();
  }
  absl::StatusOr<GroupRecord> GetGroup(std::string_view id) override {
    absl::MutexLock lock(&mu_);
    const auto it = groups_.find(id);
    if (it == groups_.end()) return absl::NotFoundError(std::string(id));
    return it->second;
  }

 private:
  class File final : public CaptureFileSink {
   public:
    File(FakeStore& store, std::string id) : store_(store), id_(std::move(id)) {}
    absl::Status AddName(uint32_t, std::string_view) override { return absl::OkStatus(); }
    absl::Status AddThread(const ThreadRow&) override { return absl::OkStatus(); }
    absl::Status AddInputs(uint32_t, const OperatorInputs&) override { return absl::OkStatus(); }
    absl::Status AddScalars(uint32_t, std::string_view) override { return absl::OkStatus(); }
    absl::Status AppendRows(const EventRows&) override { return absl::OkStatus(); }
    int64_t approx_bytes() const override { return 0; }
    absl::Status Finish(CaptureRecord& record, int64_t) override {
      if (!store_.finish_error.ok()) return store_.finish_error;
      record.file_bytes = 4096;
      absl::MutexLock lock(&store_.mu_);
      store_.finished_.push_back(id_);
      return absl::OkStatus();
    }
    void Discard() override {
      absl::MutexLock lock(&store_.mu_);
      store_.discarded_.push_back(id_);
    }

   private:
    FakeStore& store_;
    const std::string id_;
  };

  mutable absl::Mutex mu_;
  std::map<std::string, CaptureRecord, std::less<>> records_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, GroupRecord, std::less<>> groups_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> finished_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<std::string, std::string>> room_made_for_ ABSL_GUARDED_BY(mu_);
  std::string room_checked_for_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> discarded_ ABSL_GUARDED_BY(mu_);
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_STORE_H_
