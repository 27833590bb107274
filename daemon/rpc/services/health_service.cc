// The health service, open to all that can connect: SERVING until the daemon is asked to stop.
#include <optional>
#include <set>
#include <string>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/server/call.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/services.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace profd::rpc {
namespace {

namespace health = ::grpc::health::v1;
using ServingStatus = health::HealthCheckResponse::ServingStatus;

// nullopt: no such service.
std::optional<ServingStatus> StatusOf(const std::string& service, bool closing) {
  static const std::set<std::string> kServices = {"",
                                                  "profd.v1.TargetService",
                                                  "profd.v1.CaptureService",
                                                  "profd.v1.ReportService",
                                                  "profd.v1.ExportService",
                                                  "profd.v1.NodeService"};
  if (!kServices.contains(service)) return std::nullopt;
  return closing ? health::HealthCheckResponse::NOT_SERVING : health::HealthCheckResponse::SERVING;
}

class HealthWatch final : public StreamHandler {
 public:
  HealthWatch(std::string service, ServerStream<health::HealthCheckResponse>& stream)
      : service_(std::move(service)), stream_(stream) {}

  void Pump() override {
    if (stream_.cancelled()) return stream_.Finish(absl::CancelledError("the caller went away"));
    const ServingStatus now = StatusOf(service_, stream_.closing())
                                  .value_or(health::HealthCheckResponse::SERVICE_UNKNOWN);
    if (sent_ != now) {
      sent_ = now;
      health::HealthCheckResponse response;
      response.set_status(now);
      return stream_.Write(response);
    }
    if (stream_.closing()) stream_.Finish(absl::UnavailableError("profd is stopping"));
  }

 private:
  const std::string service_;
  ServerStream<health::HealthCheckResponse>& stream_;
  std::optional<ServingStatus> sent_;
};

class HealthService final : public RpcService {
 public:
  explicit HealthService(const ServiceParts& parts) : admission_(parts.admission) {}
  grpc::Service& grpc_service() override { return service_; }

  void Serve() override {
    using Async = health::Health::AsyncService;
    ServeUnary(
        admission_, admission_.work(), service_, &Async::RequestCheck, kNothing,
        [this](const CallInfo&, const health::HealthCheckRequest& request,
               health::HealthCheckResponse& response) -> absl::Status {
          const auto status = StatusOf(request.service(), admission_.closed());
          if (!status.has_value()) {
            return absl::NotFoundError(StrCat("no service ", ForDisplay(request.service(), 80)));
          }
          response.set_status(*status);
          return absl::OkStatus();
        });
    ServeStream(admission_, service_, &Async::RequestWatch, kNothing,
                [](const CallInfo&, const health::HealthCheckRequest& request,
                   ServerStream<health::HealthCheckResponse>& stream) {
                  return std::make_unique<HealthWatch>(request.service(), stream);
                });
  }

 private:
  Admission& admission_;
  health::Health::AsyncService service_;
};

}  // namespace

std::unique_ptr<RpcService> NewHealthService(const ServiceParts& parts) {
  return std::make_unique<HealthService>(parts);
}

}  // namespace profd::rpc
