// TlsFiles: the certificate, the key and the authorities that profd shows to and asks of remote
// callers, kept as they were when they were last good.
//
// gRPC watches files by itself, but takes what it finds: a certificate that was replaced before
// its key, or a file half written, would turn every caller away. So the files are read and
// checked here, and gRPC watches copies in memory that are replaced as a whole:
//
//   tls.crt, tls.key ──read, checked──► memfd (both in one) ◄──watched── gRPC
//   ca.crt           ──read, checked──► memfd               ◄──watched── gRPC
//
// A change is taken up within two intervals, by new connections; those that are open go on until
// they are too old.
//
// Threads:    one of its own ("profd-certs"), which looks once an interval; CheckNow() anyone.
// Durability: none; the copies are never on a disk.
// Errors:     Load() says what is wrong with which file. Later only the log does, and what was
//             good before stays.
#ifndef PROFD_DAEMON_RPC_ADMISSION_TLS_FILES_H_
#define PROFD_DAEMON_RPC_ADMISSION_TLS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/tls_material.h"
#include "daemon/base/unique_fd.h"

namespace profd::rpc {

class TlsFiles {
 public:
  // As ReadTlsMaterial(). `interval` is at least a second.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Load(TlsPaths paths, absl::Duration interval);
  ~TlsFiles();

  // For gRPC to watch: a file with the key and the chain, and one with the authorities.
  std::string identity_path() const;
  std::string authorities_path() const;
  absl::Duration interval() const { return interval_; }
  // When the certificate in use ends.
  absl::Time not_after() const;

  // Takes up changes of the files now. True: there were any, and they are good.
  bool CheckNow();

 private:
  // What tells a file from what it was.
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Stamps {
    Stamp certificate, key, authorities;
    friend bool operator==(const Stamps&, const Stamps&) = default;
  };
  static Stamp StampOf(const std::filesystem::path& path);
  Stamps StampsNow() const;

  TlsFiles(TlsPaths paths, absl::Duration interval)
      : paths_(std::move(paths)), interval_(interval) {}
  absl::Status Publish(const TlsMaterial& material) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Loop(const std::stop_token& stop);

  const TlsPaths paths_;
  const absl::Duration interval_;

  mutable absl::Mutex mu_;
  Stamps seen_ ABSL_GUARDED_BY(mu_);  // As last looked at, good or not.
  std::string published_ ABSL_GUARDED_BY(mu_);
  absl::Time not_after_ ABSL_GUARDED_BY(mu_);
  // Their numbers stay the same; what they refer to is replaced.
  UniqueFd identity_;
  UniqueFd authorities_;
  std::jthread thread_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_TLS_FILES_H_
