// CaptureSet: the captures that a command line means, in files, in one daemon or in many: one by
// itself, or several that reports compare: those of a group, or files given one by one.
//
//   01J9ZK                a capture; or a group, if there is no such capture
//   groups/01J9ZK         a group
//   r0.profd r1.profd     several files
//
// Of a group on many nodes any one's daemon tells the members; those that it does not have are
// asked for where it says that they are, or with --nodes. What is out of reach stays a member, and
// `missing` says why.
//
// Threads: one caller; Abort() any thread.
// Errors:  as OpenCaptureSource.
#ifndef PROFD_CLI_CAPTURES_CAPTURE_SET_H_
#define PROFD_CLI_CAPTURES_CAPTURE_SET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/fleet.h"
#include "cli/client/invocation.h"
#include "daemon/report/ranks/clock_alignment.h"

namespace profd::cli {

class CaptureSetBuilder;

class CaptureSet {
 public:
  struct Member {
    std::string node;
    int64_t pid = 0;
    int64_t rank = -1;                        // -1: not known
    std::string capture_id;                   // Empty: it could not be prepared.
    CaptureView view;                         // Of no capture where it is missing.
    std::optional<report::ClockProbe> probe;  // As the caller that asked for the group measured it.
    std::string missing;  // Why there is nothing of it, for people; empty: there is.
  };

  // What the arguments of `invocation` name. FAILED_PRECONDITION: captures that are not of one run
  // (one_run.h), without the flag --group.
  static absl::StatusOr<CaptureSet> Open(Invocation& invocation);
  CaptureSet(CaptureSet&&) noexcept;
  CaptureSet& operator=(CaptureSet&&) noexcept;
  ~CaptureSet();

  // False: it is one capture, asked for by itself. Then there is one member, and Only() it.
  bool is_group() const;
  CaptureSource& Only();

  const std::string& group_id() const;      // Empty: the members have no group in common.
  std::span<const Member> members() const;  // By rank, node, pid.
  size_t present_count() const;             // Those that are not missing.

  // Calls `fn` for every member that is not missing, of different nodes at once. One for which it
  // fails is missing from then on. An error if none is left: the first one's.
  absl::Status ForEach(absl::FunctionRef<absl::Status(size_t member, CaptureSource& source)> fn);
  // The same for the `chosen` of them. The first error is returned; no member is missing for that.
  absl::Status ForSome(std::span<const size_t> chosen,
                       absl::FunctionRef<absl::Status(size_t member, CaptureSource& source)> fn);

  void Abort();

 private:
  friend class CaptureSetBuilder;
  class Impl;
  // FAILED_PRECONDITION if the members are not of one run (one_run.h), without --group.
  static absl::Status CheckSet(const Impl& impl, const Invocation& invocation);
  explicit CaptureSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_CAPTURE_SET_H_
