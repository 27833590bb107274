#include "daemon/rpc/admission/remote_peer.h"

#include <grpc/grpc_security_constants.h>

#include <string_view>
#include <vector>

#include "daemon/base/text.h"

namespace profd::rpc {
namespace {

// As long as a host name or a path can be; a certificate may hold anything.
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxSpiffeBytes = 2048;  // By its specification.
constexpr size_t kMaxDnsNames = 64;

std::vector<std::string> ValuesOf(const grpc::AuthContext& context, const char* property,
                                  size_t max_bytes) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : context.FindPropertyValues(property)) {
    const std::string_view text(value.data(), value.size());
    if (!text.empty() && text.size() <= max_bytes && IsPrintableUtf8(text)) {
      values.emplace_back(text);
    }
  }
  return values;
}

// A certificate has one of them; where it says several, none is believed.
std::string OnlyOf(const std::vector<std::string>& values) {
  return values.size() == 1 ? values.front() : std::string();
}

}  // namespace

Principal RemotePrincipal(const grpc::AuthContext& context) {
  Principal principal;
  const auto kinds = context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  if (!context.IsPeerAuthenticated() || kinds.size() != 1 ||
      kinds.front() != GRPC_TLS_TRANSPORT_SECURITY_TYPE) {
    return principal;
  }
  principal.common_name = OnlyOf(ValuesOf(context, GRPC_X509_CN_PROPERTY_NAME, kMaxNameBytes));
  principal.dns_names = ValuesOf(context, GRPC_PEER_DNS_PROPERTY_NAME, kMaxNameBytes);
  if (principal.dns_names.size() > kMaxDnsNames) principal.dns_names.resize(kMaxDnsNames);
  principal.spiffe_id =
      OnlyOf(ValuesOf(context, GRPC_PEER_SPIFFE_ID_PROPERTY_NAME, kMaxSpiffeBytes));
  return principal;
}

}  // namespace profd::rpc
