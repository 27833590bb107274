// Certificates: what is taken up, and what is not.
#include "daemon/rpc/admission/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/fakes/status_matchers.h"

namespace profd::rpc {
namespace {

using ::testing::HasSubstr;

struct Pair {
  std::string certificate;
  std::string key;
};

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(memory);
  return text;
}

// Signed by itself, valid for `seconds` from now on.
Pair MakePair(const std::string& name, long seconds = 3600, const char* passphrase = nullptr) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), seconds < 0 ? 2 * seconds : 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* const subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  X509_sign(certificate, key, EVP_sha256());
  BIO* const certificate_text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(certificate_text, certificate);
  BIO* const key_text = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(key_text, key, passphrase == nullptr ? nullptr : EVP_aes_128_cbc(),
                                passphrase, passphrase == nullptr ? 0 : 4, nullptr, nullptr);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {.certificate = TextOf(certificate_text), .key = TextOf(key_text)};
}

std::string ReadAll(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    std::string name = std::filesystem::temp_directory_path() / "profd-tls-XXXXXX";
    folder_ = mkdtemp(name.data());
    paths_ = {.certificate = folder_ / "tls.crt",
              .key = folder_ / "tls.key",
              .authorities = folder_ / "ca.crt"};
    Put(old_);
    Write(paths_.authorities, old_.certificate);
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path beside = path.string() + ".new";
    std::ofstream(beside) << text;
    std::filesystem::rename(beside, path);
  }
  void Put(const Pair& pair) const {
    Write(paths_.key, pair.key);
    Write(paths_.certificate, pair.certificate);
  }
  std::string WhyNot() const {
    const auto material = ReadTlsMaterial(paths_);
    return material.ok() ? "" : std::string(material.status().message());
  }

  const Pair old_ = MakePair("gpu001");
  std::filesystem::path folder_;
  TlsPaths paths_;
};

TEST_F(TlsFilesTest, WhatIsReadFitsTogether) {
  const auto material = ReadTlsMaterial(paths_);
  ASSERT_THAT(material, IsOk());
  EXPECT_EQ(material->subject, "gpu001");
  EXPECT_GT(material->not_after, absl::Now());
  EXPECT_EQ(material->chain_pem, old_.certificate);
  EXPECT_EQ(material->authorities_pem, old_.certificate);
}

TEST_F(TlsFilesTest, AFileThatIsNotWhatItMustBeIsNamed) {
  Write(paths_.key, MakePair("other").key);
  EXPECT_THAT(WhyNot(), HasSubstr("tls-key: " + paths_.key.string() + " is not the key of"));
  Write(paths_.key, MakePair("locked", 3600, "word").key);
  EXPECT_THAT(WhyNot(), HasSubstr("without a passphrase"));
  Write(paths_.key, "-----BEGIN PRIVATE KEY-----\nnonsense\n");
  EXPECT_THAT(WhyNot(), HasSubstr("tls-key: no private key in"));
  Write(paths_.certificate, old_.certificate.substr(0, 100));
  EXPECT_THAT(WhyNot(), HasSubstr("tls-cert: no certificate in"));
  Put(old_);
  Write(paths_.authorities, "");
  EXPECT_THAT(WhyNot(), HasSubstr("tls-ca: no certificate in"));
  Write(paths_.authorities, std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(WhyNot(), HasSubstr("is larger than"));
  std::filesystem::remove(paths_.authorities);
  EXPECT_THAT(ReadTlsMaterial(paths_).status(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TlsFilesTest, TheChainIsKeptAsItIs) {
  const std::string chain = old_.certificate + MakePair("issuer").certificate;
  Write(paths_.certificate, chain);
  const auto material = ReadTlsMaterial(paths_);
  ASSERT_THAT(material, IsOk());
  EXPECT_EQ(material->chain_pem, chain);
  EXPECT_EQ(material->subject, "gpu001") << "the first one is ours";
}

TEST_F(TlsFilesTest, AnExpiredCertificateIsServedAtTheStart) {
  Put(MakePair("late", -10));
  EXPECT_THAT(TlsFiles::Load(paths_, absl::Hours(1)), IsOk()) << "the local socket is worth it";
}

TEST_F(TlsFilesTest, NewFilesAreTakenUpAsAWhole) {
  const auto files = TlsFiles::Load(paths_, absl::Hours(1));
  ASSERT_THAT(files, IsOk());
  const std::string path = (*files)->identity_path();
  EXPECT_THAT(ReadAll(path), HasSubstr(old_.certificate));
  EXPECT_THAT(ReadAll(path), HasSubstr(old_.key));
  EXPECT_FALSE((*files)->CheckNow()) << "nothing has changed";

  const absl::Time old_end = (*files)->not_after();
  EXPECT_GT(old_end, absl::Now());

  const Pair renewed = MakePair("gpu001", 7200);
  Write(paths_.certificate, renewed.certificate);
  EXPECT_FALSE((*files)->CheckNow()) << "the key is still the old one";
  EXPECT_EQ((*files)->not_after(), old_end);
  EXPECT_THAT(ReadAll(path), HasSubstr(old_.certificate));

  Write(paths_.key, renewed.key);
  EXPECT_TRUE((*files)->CheckNow());
  EXPECT_EQ((*files)->identity_path(), path);
  EXPECT_THAT(ReadAll(path), HasSubstr(renewed.certificate));
  EXPECT_THAT(ReadAll(path), HasSubstr(renewed.key));
  EXPECT_GE((*files)->not_after(), old_end + absl::Hours(1));
}

TEST_F(TlsFilesTest, AuthoritiesAreTakenUpToo) {
  const auto files = TlsFiles::Load(paths_, absl::Hours(1));
  ASSERT_THAT(files, IsOk());
  const std::string both = old_.certificate + MakePair("new authority").certificate;
  Write(paths_.authorities, both);
  EXPECT_TRUE((*files)->CheckNow());
  EXPECT_EQ(ReadAll((*files)->authorities_path()), both);
  std::filesystem::remove(paths_.authorities);
  EXPECT_FALSE((*files)->CheckNow());
  EXPECT_EQ(ReadAll((*files)->authorities_path()), both) << "what was good stays";
}

TEST_F(TlsFilesTest, AFolderThatALinkNamesIsFollowed) {
  // As Kubernetes replaces a secret: the files are links through a link to a folder.
  std::filesystem::create_directory(folder_ / "v1");
  std::filesystem::create_directory(folder_ / "v2");
  std::filesystem::create_directory_symlink("v1", folder_ / "data");
  const TlsPaths linked = {.certificate = folder_ / "data/tls.crt",
                           .key = folder_ / "data/tls.key",
                           .authorities = paths_.authorities};
  const auto put = [&](const char* version, const Pair& pair) {
    Write(folder_ / version / "tls.crt", pair.certificate);
    Write(folder_ / version / "tls.key", pair.key);
  };
  put("v1", old_);
  const auto files = TlsFiles::Load(linked, absl::Hours(1));
  ASSERT_THAT(files, IsOk());
  const Pair renewed = MakePair("gpu001");
  put("v2", renewed);
  EXPECT_FALSE((*files)->CheckNow());
  std::filesystem::create_directory_symlink("v2", folder_ / "data.new");
  std::filesystem::rename(folder_ / "data.new", folder_ / "data");
  EXPECT_TRUE((*files)->CheckNow());
  EXPECT_THAT(ReadAll((*files)->identity_path()), HasSubstr(renewed.certificate));
}

}  // namespace
}  // namespace profd::rpc
