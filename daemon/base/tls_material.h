// What TLS is spoken with: certificates and a key in PEM files, read and checked, so that a
// wrong file is named before a handshake fails for it.
//
// Threads: any.
#ifndef PROFD_DAEMON_BASE_TLS_MATERIAL_H_
#define PROFD_DAEMON_BASE_TLS_MATERIAL_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace profd {

struct TlsPaths {
  std::filesystem::path certificate;  // PEM: ours, and the chain up to an authority.
  std::filesystem::path key;          // PEM, without a passphrase.
  std::filesystem::path authorities;  // PEM: who signs the certificates of the others.
};

struct TlsMaterial {
  std::string chain_pem;
  std::string key_pem;
  std::string authorities_pem;
  // Of our certificate, for messages.
  std::string subject;  // Its common name, "gpu001".
  absl::Time not_before = absl::InfinitePast();
  absl::Time not_after = absl::InfiniteFuture();
};

// With neither a certificate nor a key, only the authorities are read. INVALID_ARGUMENT (no
// certificate in it, a key with a passphrase, a key of another certificate), NOT_FOUND,
// PERMISSION_DENIED: the message names the setting (tls-cert, tls-key, tls-ca), the file and
// the remedy. Dates are not judged here.
absl::StatusOr<TlsMaterial> ReadTlsMaterial(const TlsPaths& paths);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_TLS_MATERIAL_H_
