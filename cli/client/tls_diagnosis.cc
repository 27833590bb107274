#include "cli/client/tls_diagnosis.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "cli/base/errors.h"
#include "daemon/base/freed_by.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/tls_material.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

constexpr int kPatienceMs = 3000;
// What begins an HTTP/2 connection, and an empty SETTINGS frame.
constexpr std::string_view kHttp2Preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
                                         33);
constexpr std::string_view kHttp2Protocol("\x02h2", 3);

using SslContext = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using SslSession = std::unique_ptr<SSL, FreedBy<SSL_free>>;
using X509Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;

absl::Status NoDaemon(const Endpoint& endpoint, std::string_view why) {
  return WithReason(
      absl::UnavailableError(StrCat("no profd answers at ", endpoint.address, ": ", why)),
      kNoDaemonReason);
}

absl::Status NotTrusted(const Endpoint& endpoint, std::string_view why) {
  return WithReason(absl::UnauthenticatedError(StrCat(endpoint.address, ": ", why)),
                    kNotTrustedReason);
}

std::string HostOf(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return std::string(host);
}

// A connected socket, whose reads and writes give up after kPatienceMs.
absl::StatusOr<UniqueFd> Dial(const Endpoint& endpoint) {
  const UniqueFd spare(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!spare.valid() && (errno == EMFILE || errno == ENFILE)) {
    return LocalFailure(absl::ResourceExhaustedError(
        StrCat("cannot connect to ", endpoint.address, ": ", std::strerror(errno),
               "; raise the limit of open files (`ulimit -n`), or name fewer nodes")));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = endpoint.address.substr(endpoint.address.rfind(':') + 1);
  const int error = getaddrinfo(HostOf(endpoint.address).c_str(), port.c_str(), &hints, &found);
  if (error != 0) return NoDaemon(endpoint, gai_strerror(error));
  const std::unique_ptr<addrinfo, FreedBy<freeaddrinfo>> list(found);
  int last_error = 0;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    UniqueFd fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = kPatienceMs % 1000 * 1000};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);  // connect(), too.
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    last_error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  }
  return NoDaemon(endpoint, std::strerror(last_error));
}

// ---- with certificates ----

void AddAuthorities(SSL_CTX& context, const std::string& pem) {
  const std::unique_ptr<BIO, FreedBy<BIO_free_all>> reader(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), one);
    X509_free(one);
  }
  ERR_clear_error();
}

// Which name the daemon's certificate must have, as gRPC checks it.
void ExpectName(SSL& session, const std::string& name) {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(&session);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1) return;
  ERR_clear_error();
  X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size());
  SSL_set_tlsext_host_name(&session, name.c_str());
}

// What the daemon showed, and what is wrong with it: a handshake that fails keeps neither.
struct ShownCertificate {
  X509Certificate certificate;
  int error = X509_V_OK;
};

// Keeps the first fault, and ends the handshake there: who is not trusted does not get our
// certificate either.
int KeepFault(int is_good, X509_STORE_CTX* verification) {
  if (is_good == 1) return 1;
  const auto* const session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& shown = *static_cast<ShownCertificate*>(SSL_get_app_data(session));
  shown.error = X509_STORE_CTX_get_error(verification);
  X509* const theirs = X509_STORE_CTX_get0_cert(verification);
  X509_up_ref(theirs);
  shown.certificate.reset(theirs);
  return 0;
}

SslSession NewSession(const TlsMaterial& material, const ClientTls& tls, const std::string& name,
                      ShownCertificate& shown) {
  const SslContext context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  AddAuthorities(*context, material.authorities_pem);
  if (!tls.certificate_file.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate_file.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), tls.key_file.c_str(), SSL_FILETYPE_PEM);
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, &KeepFault);
  SSL_CTX_set_alpn_protos(context.get(),
                          reinterpret_cast<const unsigned char*>(kHttp2Protocol.data()),
                          static_cast<unsigned>(kHttp2Protocol.size()));
  SslSession session(SSL_new(context.get()));  // Keeps the context.
  SSL_set_app_data(session.get(), &shown);
  ExpectName(*session, name);
  return session;
}

std::string TextOf(const X509_NAME* name) {
  std::array<char, 256> text{};
  X509_NAME_oneline(name, text.data(), text.size());
  return ForDisplay(text.data(), text.size());
}

// "gpu001, localhost, 10.0.0.7"
std::string NamesOf(const X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreedBy<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string text;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(names.get(), i);
    int kind = 0;
    const void* const value = GENERAL_NAME_get0_value(one, &kind);
    std::string name;
    if (kind == GEN_DNS) {
      const auto* const dns = static_cast<const ASN1_IA5STRING*>(value);
      name.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(dns)),
                  static_cast<size_t>(ASN1_STRING_length(dns)));
    } else if (kind == GEN_IPADD) {
      const auto* const ip = static_cast<const ASN1_OCTET_STRING*>(value);
      std::array<char, INET6_ADDRSTRLEN> shown{};
      const int family = ASN1_STRING_length(ip) == 4 ? AF_INET : AF_INET6;
      if (family == AF_INET || ASN1_STRING_length(ip) == 16) {
        inet_ntop(family, ASN1_STRING_get0_data(ip), shown.data(), shown.size());
      }
      name = shown.data();
    }
    if (!name.empty()) StrAppend(&text, text.empty() ? "" : ", ", ForDisplay(name, 255));
  }
  return text.empty() ? "no name" : text;
}

absl::Status WhyNotTrusted(const Endpoint& endpoint, const ShownCertificate& shown,
                           const std::string& name) {
  switch (shown.error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return NotTrusted(endpoint,
                        "the daemon's certificate has expired; it needs a new one (profd takes it "
                        "up without a restart)");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return NotTrusted(
          endpoint, "the daemon's certificate is not valid yet; is this machine's clock right?");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return NotTrusted(endpoint,
                        StrCat("the daemon's certificate is for ", NamesOf(*shown.certificate),
                               ", not for ", name,
                               "; use one of these names, or name it as tls-server-name or "
                               "PROFD_TLS_SERVER_NAME"));
    default:
      return NotTrusted(endpoint, StrCat("the daemon's certificate, signed by ",
                                         TextOf(X509_get_issuer_name(shown.certificate.get())),
                                         ", is not trusted by ", endpoint.tls->ca_file, ": ",
                                         X509_verify_cert_error_string(shown.error)));
  }
}

// The handshake was done on our side; with TLS 1.3 the daemon judges our certificate after that.
absl::Status WhyRefused(const Endpoint& endpoint, const TlsMaterial& material) {
  const ClientTls& tls = *endpoint.tls;
  if (tls.certificate_file.empty()) {
    return NotTrusted(endpoint,
                      "the daemon asks for a certificate, and we have none: name one as tls-cert "
                      "and tls-key, or PROFD_TLS_CERT and PROFD_TLS_KEY");
  }
  return NotTrusted(endpoint, StrCat("the daemon refused our certificate ", tls.certificate_file,
                                     " (", material.subject,
                                     "): it must be signed by an authority of the daemon's "
                                     "tls-ca, for client authentication"));
}

absl::Status TryTls(const Endpoint& endpoint, const UniqueFd& connection) {
  const ClientTls& tls = *endpoint.tls;
  absl::StatusOr<TlsMaterial> material = ReadTlsMaterial(
      {.certificate = tls.certificate_file, .key = tls.key_file, .authorities = tls.ca_file});
  if (!material.ok()) return LocalFailure(material.status());
  const std::string name = tls.server_name.empty() ? HostOf(endpoint.address) : tls.server_name;
  ShownCertificate shown;
  const SslSession session = NewSession(*material, tls, name, shown);
  SSL_set_fd(session.get(), connection.get());
  ERR_clear_error();
  if (SSL_connect(session.get()) != 1) {
    if (shown.certificate != nullptr) return WhyNotTrusted(endpoint, shown, name);
    const unsigned long error = ERR_get_error();
    const int reason = ERR_GET_REASON(error);
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_UNSUPPORTED_PROTOCOL) {
      return NotTrusted(endpoint,
                        "what answers there does not speak TLS 1.2 or newer; is it another port, "
                        "or profd's plaintext-listen?");
    }
    if (reason == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
      return NoDaemon(endpoint, "the connection was closed before TLS had begun");
    }
    // With TLS 1.2 the daemon judges our certificate within the handshake.
    return WhyRefused(endpoint, *material);
  }
  // Who is let in is greeted at once.
  char byte = 0;
  const int got = SSL_read(session.get(), &byte, 1);
  if (got <= 0 && SSL_get_error(session.get(), got) != SSL_ERROR_WANT_READ) {
    return WhyRefused(endpoint, *material);
  }
  return NoDaemon(endpoint, "TLS works, but no call came through; is it profd?");
}

// ---- without ----

absl::Status TryPlaintext(const Endpoint& endpoint, const UniqueFd& connection) {
  if (send(connection.get(), kHttp2Preface.data(), kHttp2Preface.size(), MSG_NOSIGNAL) < 0) {
    return NoDaemon(endpoint, std::strerror(errno));
  }
  char byte = 0;
  const ssize_t got = recv(connection.get(), &byte, 1, 0);
  constexpr char kTlsAlert = 0x15;
  if (got == 0 || (got < 0 && errno == ECONNRESET) || (got == 1 && byte == kTlsAlert)) {
    return NotTrusted(endpoint,
                      "it hung up on a call without TLS: a daemon that serves other machines asks "
                      "for certificates; name them as PROFD_TLS_CA, PROFD_TLS_CERT and "
                      "PROFD_TLS_KEY, or in a context");
  }
  return NoDaemon(endpoint, "something listens, but does not answer; is it profd?");
}

}  // namespace

absl::Status ExplainNoConnection(const Endpoint& endpoint) {
  ASSIGN_OR_RETURN(const UniqueFd connection, Dial(endpoint));
  absl::Status why =
      endpoint.tls.has_value() ? TryTls(endpoint, connection) : TryPlaintext(endpoint, connection);
  ERR_clear_error();
  return why;
}

}  // namespace profd::cli
