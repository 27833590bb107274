// Sha256 hashes bytes that arrive in pieces.
//
//   Sha256 hash;
//   hash.Append("ab");
//   hash.Append("c");
//   hash.Finish();  // "ba7816bf..."
//
// Threads: one. Errors: INTERNAL if libcrypto has no SHA-256.
#ifndef PROFD_DAEMON_STORE_FILE_SHA256_H_
#define PROFD_DAEMON_STORE_FILE_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

extern "C" {
typedef struct evp_md_ctx_st EVP_MD_CTX;
}

namespace profd::store {

class Sha256 {
 public:
  Sha256();
  void Append(std::string_view bytes);
  // Returns lower-case hex; call once, last.
  absl::StatusOr<std::string> Finish();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const;
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;  // nullptr: not available.
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_SHA256_H_
