#include "daemon/rpc/server/status.h"

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::rpc {
namespace {

template <absl::StatusCode kAbsl, grpc::StatusCode kGrpc>
constexpr bool SameCode() {
  return static_cast<int>(kAbsl) == static_cast<int>(kGrpc);
}
static_assert(SameCode<absl::StatusCode::kOk, grpc::OK>());
static_assert(SameCode<absl::StatusCode::kCancelled, grpc::CANCELLED>());
static_assert(SameCode<absl::StatusCode::kUnknown, grpc::UNKNOWN>());
static_assert(SameCode<absl::StatusCode::kInvalidArgument, grpc::INVALID_ARGUMENT>());
static_assert(SameCode<absl::StatusCode::kDeadlineExceeded, grpc::DEADLINE_EXCEEDED>());
static_assert(SameCode<absl::StatusCode::kNotFound, grpc::NOT_FOUND>());
static_assert(SameCode<absl::StatusCode::kAlreadyExists, grpc::ALREADY_EXISTS>());
static_assert(SameCode<absl::StatusCode::kPermissionDenied, grpc::PERMISSION_DENIED>());
static_assert(SameCode<absl::StatusCode::kResourceExhausted, grpc::RESOURCE_EXHAUSTED>());
static_assert(SameCode<absl::StatusCode::kFailedPrecondition, grpc::FAILED_PRECONDITION>());
static_assert(SameCode<absl::StatusCode::kAborted, grpc::ABORTED>());
static_assert(SameCode<absl::StatusCode::kOutOfRange, grpc::OUT_OF_RANGE>());
static_assert(SameCode<absl::StatusCode::kUnimplemented, grpc::UNIMPLEMENTED>());
static_assert(SameCode<absl::StatusCode::kInternal, grpc::INTERNAL>());
static_assert(SameCode<absl::StatusCode::kUnavailable, grpc::UNAVAILABLE>());
static_assert(SameCode<absl::StatusCode::kDataLoss, grpc::DATA_LOSS>());
static_assert(SameCode<absl::StatusCode::kUnauthenticated, grpc::UNAUTHENTICATED>());

constexpr size_t kMaxStatusReasonBytes = 64;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          ForDisplay(FromAbsl(status.message()), kMaxMessageBytes)};
}

std::string ReasonMetadata(const absl::Status& status) {
  std::string reason = ReasonOf(status);
  if (reason.size() > kMaxStatusReasonBytes) return {};
  for (const char c : reason) {
    if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_') return {};
  }
  return reason;
}

}  // namespace profd::rpc
