#include "daemon/rpc/admission/tls_receive_hook.h"

#include <dlfcn.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/freed_by.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/admission/caller_traffic.h"

namespace profd::rpc {
namespace {

using SslRead = int (*)(SSL*, void*, int);

SslRead OpensslRead() {
  static const auto real = reinterpret_cast<SslRead>(dlsym(RTLD_NEXT, "SSL_read"));
  return real;
}

// Never destroyed: gRPC's threads read until the process ends.
const std::shared_ptr<CallerTraffic>& TheTraffic() {
  static const auto* const traffic =
      new std::shared_ptr<CallerTraffic>(std::make_shared<CallerTraffic>());
  return *traffic;
}

// What one session received.
struct Session {
  Session(std::string caller, std::string connection)
      : meter(TheTraffic(), std::move(caller), std::move(connection)) {}
  CallerMeter meter;
  bool has_ended = false;
};

void FreeSession(void* /*ssl*/, void* session, CRYPTO_EX_DATA* /*all*/, int /*index*/,
                 long /*argument*/, void* /*pointer*/) {  // NOLINT(google-runtime-int): OpenSSL's.
  delete static_cast<Session*>(session);
}

int SessionIndex() {
  // OpenSSL frees the session together with the connection it belongs to: gRPC reports no end of a
  // connection.
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeSession);
  return index;
}

std::string_view BytesOf(const ASN1_STRING* text) {
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// A digest of the subject and of the alternative names, as the certificate has them.
std::string NamesOf(X509* certificate) {
  std::string names;
  const unsigned char* subject = nullptr;
  size_t size = 0;
  if (X509_NAME_get0_der(X509_get_subject_name(certificate), &subject, &size) == 1) {
    names.append(reinterpret_cast<const char*>(subject), size);
  }
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  if (at >= 0) names += BytesOf(X509_EXTENSION_get_data(X509_get_ext(certificate, at)));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_size = 0;
  EVP_Digest(names.data(), names.size(), digest.data(), &digest_size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest.data()), digest_size};
}

std::string CommonNameOf(X509* certificate) {
  std::array<char, 256> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                            static_cast<int>(name.size()));
  return ForDisplay(name.data(), 120);
}

Session* NewSession(SSL* ssl) {
  const std::unique_ptr<X509, FreedBy<X509_free>> certificate(SSL_get1_peer_certificate(ssl));
  std::string caller;
  std::string connection = "mutual TLS: a caller without a certificate";
  if (certificate != nullptr) {
    caller = NamesOf(certificate.get());
    connection = StrCat("mutual TLS: ", CommonNameOf(certificate.get()));
  }
  auto session = std::make_unique<Session>(std::move(caller), std::move(connection));
  if (SSL_set_ex_data(ssl, SessionIndex(), session.get()) != 1) return nullptr;
  return session.release();
}

// False: gRPC must not have the bytes.
bool Show(SSL* ssl, std::span<const std::byte> bytes) {
  // A TLS client in this process reads by the same function, and is no caller.
  if (SSL_is_server(ssl) == 0) return true;
  auto* session = static_cast<Session*>(SSL_get_ex_data(ssl, SessionIndex()));
  if (session == nullptr) session = NewSession(ssl);
  if (session == nullptr) return false;  // No memory.
  if (!session->has_ended) session->has_ended = !session->meter.OnReceived(bytes);
  return !session->has_ended;
}

}  // namespace

int64_t TlsConnectionsEnded() { return TheTraffic()->ended_count(); }

bool TlsReceiveHookIsInPlace() {
  return dlsym(RTLD_DEFAULT, "SSL_read") == reinterpret_cast<void*>(&SSL_read);
}

}  // namespace profd::rpc

extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int size) {
  const int got = profd::rpc::OpensslRead()(ssl, buffer, size);
  if (got <= 0) return got;
  const std::span bytes(static_cast<const std::byte*>(buffer), static_cast<size_t>(got));
  // gRPC closes a connection that it cannot read from.
  return profd::rpc::Show(ssl, bytes) ? got : -1;
}
