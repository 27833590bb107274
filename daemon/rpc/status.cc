#include "daemon/rpc/status.h"

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::rpc {
namespace {

template <absl::StatusCode kAbsl, grpc::StatusCode kGrpc>
constexpr bool Agree() {
  return static_cast<int>(kAbsl) == static_cast<int>(kGrpc);
}
static_assert(Agree<absl::StatusCode::kOk, grpc::OK>());
static_assert(Agree<absl::StatusCode::kCancelled, grpc::CANCELLED>());
static_assert(Agree<absl::StatusCode::kUnknown, grpc::UNKNOWN>());
static_assert(Agree<absl::StatusCode::kInvalidArgument, grpc::INVALID_ARGUMENT>());
static_assert(Agree<absl::StatusCode::kDeadlineExceeded, grpc::DEADLINE_EXCEEDED>());
static_assert(Agree<absl::StatusCode::kNotFound, grpc::NOT_FOUND>());
static_assert(Agree<absl::StatusCode::kAlreadyExists, grpc::ALREADY_EXISTS>());
static_assert(Agree<absl::StatusCode::kPermissionDenied, grpc::PERMISSION_DENIED>());
static_assert(Agree<absl::StatusCode::kResourceExhausted, grpc::RESOURCE_EXHAUSTED>());
static_assert(Agree<absl::StatusCode::kFailedPrecondition, grpc::FAILED_PRECONDITION>());
static_assert(Agree<absl::StatusCode::kAborted, grpc::ABORTED>());
static_assert(Agree<absl::StatusCode::kOutOfRange, grpc::OUT_OF_RANGE>());
static_assert(Agree<absl::StatusCode::kUnimplemented, grpc::UNIMPLEMENTED>());
static_assert(Agree<absl::StatusCode::kInternal, grpc::INTERNAL>());
static_assert(Agree<absl::StatusCode::kUnavailable, grpc::UNAVAILABLE>());
static_assert(Agree<absl::StatusCode::kDataLoss, grpc::DATA_LOSS>());
static_assert(Agree<absl::StatusCode::kUnauthenticated, grpc::UNAUTHENTICATED>());

constexpr size_t kMaxReasonBytes = 64;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          ForDisplay(FromAbsl(status.message()), kMaxMessageBytes)};
}

std::string ReasonMetadata(const absl::Status& status) {
  std::string reason = ReasonOf(status);
  if (reason.size() > kMaxReasonBytes) return {};
  for (const char c : reason) {
    if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_') return {};
  }
  return reason;
}

}  // namespace profd::rpc
