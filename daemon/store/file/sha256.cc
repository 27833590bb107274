#include "daemon/store/file/sha256.h"

#include <openssl/evp.h>

#include <array>

namespace profd::store {
namespace {

std::string Hex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text.push_back(kDigits[bytes[i] >> 4]);
    text.push_back(kDigits[bytes[i] & 15]);
  }
  return text;
}

}  // namespace

void Sha256::Free::operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
    context_.reset();
  }
}

void Sha256::Append(std::string_view bytes) {
  if (context_ != nullptr) EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

absl::StatusOr<std::string> Sha256::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int digest_bytes = 0;
  if (context_ == nullptr ||
      EVP_DigestFinal_ex(context_.get(), digest.data(), &digest_bytes) != 1) {
    return absl::InternalError("SHA-256 is not to be had from libcrypto");
  }
  return Hex(digest.data(), digest_bytes);
}

}  // namespace profd::store
