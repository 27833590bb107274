#include "daemon/base/tls_material.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/freed_by.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/base/unique_fd.h"

namespace profd {
namespace {

// A bundle of all public authorities has a quarter of that.
constexpr size_t kMaxFileBytes = 1 << 20;

using Bio = std::unique_ptr<BIO, FreedBy<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;

Bio Reader(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path, std::string_view setting) {
  // Not to be held up by a pipe. If this fails, reading says why.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  absl::StatusOr<std::string> text = ReadUpTo(kMaxFileBytes + 1, path, fd.get());
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        StrCat(setting, ": ", FromAbsl(text.status().message())));
  }
  if (text->size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        StrCat(setting, ": ", path.string(), " is larger than ", kMaxFileBytes, " bytes"));
  }
  return text;
}

// All certificates of a PEM file; other blocks are skipped.
std::vector<Certificate> ParseCertificates(std::string_view pem) {
  std::vector<Certificate> certificates;
  const Bio reader = Reader(pem);
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(one);
  }
  ERR_clear_error();  // The end of the file counts as one.
  return certificates;
}

// No passphrase is asked for on the terminal of a daemon.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

PrivateKey ParseKey(std::string_view pem) {
  const Bio reader = Reader(pem);
  PrivateKey key(PEM_read_bio_PrivateKey(reader.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

std::string CommonNameOf(const X509& certificate) {
  std::array<char, 256> name{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), NID_commonName,
                                               name.data(), name.size());
  return length <= 0 ? "(no common name)"
                     : ForDisplay({name.data(), static_cast<size_t>(length)}, name.size());
}

// Fills in what is said of the certificate.
absl::Status ReadIdentity(const TlsPaths& paths, TlsMaterial& material) {
  ASSIGN_OR_RETURN(material.chain_pem, ReadFile(paths.certificate, "tls-cert"));
  ASSIGN_OR_RETURN(material.key_pem, ReadFile(paths.key, "tls-key"));
  const std::vector<Certificate> certificates = ParseCertificates(material.chain_pem);
  if (certificates.empty()) {
    return absl::InvalidArgumentError(
        StrCat("tls-cert: no certificate in ", paths.certificate.string(), "; it must be PEM"));
  }
  const PrivateKey key = ParseKey(material.key_pem);
  if (key == nullptr) {
    return absl::InvalidArgumentError(StrCat("tls-key: no private key in ", paths.key.string(),
                                             "; it must be PEM, without a passphrase"));
  }
  X509& ours = *certificates.front();
  if (X509_check_private_key(&ours, key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(StrCat("tls-key: ", paths.key.string(),
                                             " is not the key of the certificate in ",
                                             paths.certificate.string()));
  }
  material.subject = CommonNameOf(ours);
  material.not_before = TimeOf(X509_get0_notBefore(&ours));
  material.not_after = TimeOf(X509_get0_notAfter(&ours));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsMaterial(const TlsPaths& paths) {
  TlsMaterial material;
  if (!paths.certificate.empty() || !paths.key.empty()) {
    RETURN_IF_ERROR(ReadIdentity(paths, material));
  }
  ASSIGN_OR_RETURN(material.authorities_pem, ReadFile(paths.authorities, "tls-ca"));
  if (ParseCertificates(material.authorities_pem).empty()) {
    return absl::InvalidArgumentError(
        StrCat("tls-ca: no certificate in ", paths.authorities.string(), "; it must be PEM"));
  }
  return material;
}

}  // namespace profd
