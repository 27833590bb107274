#include "daemon/rpc/admission/audit.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <array>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/admission/names.h"

namespace profd::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMaxResourceBytes = 128;
constexpr std::string_view kRequestSuffix = "Request";
// How requests and resources call what they are about.
constexpr std::array<const char*, 7> kNamingFields = {"name",     "capture", "target",  "group",
                                                      "schedule", "targets", "resource"};

std::string FirstOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return reflection.GetString(message, &field);
  const int count = reflection.FieldSize(message, &field);
  if (count == 0) return {};
  const std::string first = reflection.GetRepeatedString(message, &field, 0);
  return count == 1 ? first : StrCat(first, " and ", count - 1, " more");
}

}  // namespace

bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

std::string MethodOf(const Message& request) {
  std::string_view name = request.GetDescriptor()->name();
  if (name.ends_with(kRequestSuffix)) name.remove_suffix(kRequestSuffix.size());
  return std::string(name);
}

std::string ResourceOf(const Message& message) {
  for (const char* name : kNamingFields) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
    std::string text = FirstOf(message, *field);
    if (!text.empty()) return ForDisplay(text, kMaxResourceBytes);
  }
  for (const char* name : {"declaration", "schedule"}) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated())
      return ResourceOf(message.GetReflection()->GetMessage(message, field));
  }
  return {};
}

bool AuditGate::MayProceed() {
  asked_.store(true, std::memory_order_release);
  if (is_exempt_) return true;
  absl::Status status = audit_.Check();
  if (status.ok()) return true;
  absl::MutexLock lock(&mu_);
  why_ = std::move(status);
  return false;
}

absl::Status AuditGate::Explain(const absl::Status& status) const {
  absl::MutexLock lock(&mu_);
  // What one may not act on may look as if it were not there.
  const bool is_refused = IsRefusal(status) || absl::IsNotFound(status);
  return !why_.ok() && is_refused ? why_ : status;
}

bool IsEmergency(std::string_view method) {
  return method == "CancelCapture" || method == "AbortGroup" || method == "DeleteCapture" ||
         method == "PurgeCaptures" || method == "SetCapturesAllowed";
}

bool AuditLog::Wants(Verb verb, const absl::Status& status, std::string_view principal) {
  if (!IsRefusal(status)) return verb != Verb::kList;
  refusals_.fetch_add(1, std::memory_order_relaxed);
  if (refusal_lines_.Allow(principal, clock_.Monotonic())) return true;
  CountUnwritten();
  return false;
}

// Numbers of targets mean nothing to those who read the log next week.
std::string AuditLog::Describe(std::string resource) const {
  const auto number = ParseTargetName(resource);
  if (!number.ok()) return resource;
  const std::optional<TargetInfo> target = targets_.Find(*number);
  if (!target.has_value()) return resource;
  return StrCat(resource, " (pid ", target->pid, ", uid ", target->uid, ")");
}

void AuditLog::Write(store::AuditEntry entry, const absl::Status& status) {
  static RateLimiter failures(absl::Minutes(1));
  entry.outcome = absl::StatusCodeToString(status.code());
  entry.reason = ReasonOf(status);
  if (IsRefusal(status)) entry.kind = store::AuditKind::kRefusal;
  entry.resource = Describe(std::move(entry.resource));
  const absl::Status written = store_.AppendAudit(entry);
  if (written.ok()) return;
  CountUnwritten();
  if (const auto n = failures.Allow()) {
    LogError(StrCat("the audit log cannot be written: ", FromAbsl(written.message()), " (", *n,
                    " more)"));
  }
}

}  // namespace profd::rpc
