// What callers with certificates may send, through SSL_read() as gRPC calls it.
#include "daemon/rpc/admission/tls_receive_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/freed_by.h"
#include "daemon/base/str_cat.h"
#include "tests/rpc/admission/http2.h"

namespace profd::rpc {
namespace {

using Key = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using Tls = std::unique_ptr<SSL, FreedBy<SSL_free>>;

Certificate CertificateOf(const Key& key, const std::string& common_name,
                          const std::string& dns_name) {
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 1000);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(certificate.get(), subject);
  const std::unique_ptr<X509_EXTENSION, FreedBy<X509_EXTENSION_free>> names(X509V3_EXT_conf_nid(
      nullptr, nullptr, NID_subject_alt_name, StrCat("DNS:", dns_name).c_str()));
  X509_add_ext(certificate.get(), names.get(), -1);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  return certificate;
}

Context ContextOf(const SSL_METHOD* method, const std::string& common_name,
                  const std::string& dns_name) {
  Context context(SSL_CTX_new(method));
  const Key key(EVP_EC_gen("P-256"));
  SSL_CTX_use_certificate(context.get(), CertificateOf(key, common_name, dns_name).get());
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     [](int, X509_STORE_CTX*) { return 1; });
  return context;
}

// A caller and the daemon, with a handshake done.
class TlsSession {
 public:
  TlsSession(const std::string& common_name, const std::string& dns_name)
      : server_context_(ContextOf(TLS_server_method(), "gpu001", "gpu001")),
        client_context_(ContextOf(TLS_client_method(), common_name, dns_name)),
        server(SSL_new(server_context_.get())),
        client(SSL_new(client_context_.get())) {
    BIO* servers = nullptr;
    BIO* clients = nullptr;
    EXPECT_EQ(BIO_new_bio_pair(&servers, 1 << 20, &clients, 1 << 20), 1);
    SSL_set_bio(server.get(), servers, servers);
    SSL_set_bio(client.get(), clients, clients);
    SSL_set_accept_state(server.get());
    SSL_set_connect_state(client.get());
    for (int turn = 0; turn < 4; ++turn) {
      SSL_do_handshake(client.get());
      SSL_do_handshake(server.get());
    }
    EXPECT_EQ(SSL_is_init_finished(server.get()), 1);
  }

  // Whether all of it arrives at `to`, sent by `from`.
  static bool Pass(const Tls& from, const Tls& to, std::string_view bytes) {
    EXPECT_EQ(SSL_write(from.get(), bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
    std::string received;
    std::array<char, 8192> part;
    while (received.size() < bytes.size()) {
      const int got = SSL_read(to.get(), part.data(), static_cast<int>(part.size()));
      if (got <= 0) return false;
      received.append(part.data(), static_cast<size_t>(got));
    }
    EXPECT_EQ(received, bytes);
    return true;
  }

 private:
  const Context server_context_;
  const Context client_context_;

 public:
  const Tls server;
  const Tls client;
};

std::string Beginning() {
  return StrCat(kPreface, FrameOf(kSettings, 0), FrameOf(kSettings, 0, /*flags=*/1));
}

std::string HundredResets() {
  std::string resets;
  for (int i = 0; i < 100; ++i) resets += FrameOf(kHeaders, 5) + FrameOf(kReset, 4);
  return resets;
}

// How many times a hundred resets of calls come through, at most 100.
int HundredsPassed(const TlsSession& session) {
  const std::string resets = HundredResets();
  int passed = 0;
  while (passed < 100 && TlsSession::Pass(session.client, session.server, resets)) ++passed;
  return passed;
}

TEST(TlsReceiveHookTest, ItIsWhatLibrariesCall) { EXPECT_TRUE(TlsReceiveHookIsInPlace()); }

TEST(TlsReceiveHookTest, AFloodOfResetsEndsTheConnectionAndTakesTheBudgetOfTheNames) {
  const int64_t ended_before = TlsConnectionsEnded();
  const TlsSession first("bob", "bob.example");
  ASSERT_TRUE(TlsSession::Pass(first.client, first.server, Beginning()));
  const int passed = HundredsPassed(first);
  const auto used_up = std::chrono::steady_clock::now();
  EXPECT_GE(passed, 10);   // 1,000 at once.
  EXPECT_LT(passed, 100);  // Those take 18 s.
  EXPECT_EQ(TlsConnectionsEnded(), ended_before + 1);
  EXPECT_FALSE(TlsSession::Pass(first.client, first.server, "x")) << "it stays at an end";

  const TlsSession same("bob", "bob.example");  // With another key.
  ASSERT_TRUE(TlsSession::Pass(same.client, same.server, Beginning()));
  const int more = HundredsPassed(same);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - used_up;
  EXPECT_LE(more, 5 * seconds.count() + 1) << "500 a second";

  const TlsSession other("bob", "bob.other");
  ASSERT_TRUE(TlsSession::Pass(other.client, other.server, Beginning()));
  EXPECT_GE(HundredsPassed(other), 10) << "other names have a budget of their own";
}

TEST(TlsReceiveHookTest, WhatThisProcessAsksOthersIsNotCounted) {
  const TlsSession session("alice", "alice.example");
  EXPECT_TRUE(TlsSession::Pass(session.server, session.client, Beginning()));
  const std::string resets = HundredResets();
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(TlsSession::Pass(session.server, session.client, resets)) << i;
  }
}

}  // namespace
}  // namespace profd::rpc
