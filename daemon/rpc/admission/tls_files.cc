#include "daemon/rpc/admission/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "daemon/base/cond_var.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

absl::StatusOr<UniqueFd> InMemory(const char* name, std::string_view text) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  while (!text.empty()) {
    const ssize_t written = write(fd.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "write to a memfd");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return fd;
}

// `fd` becomes what `replacement` is, at once for all that open it by its number.
absl::Status Replace(UniqueFd& fd, UniqueFd replacement) {
  if (!fd.valid()) {
    fd = std::move(replacement);
    return absl::OkStatus();
  }
  if (dup3(replacement.get(), fd.get(), O_CLOEXEC) < 0) return absl::ErrnoToStatus(errno, "dup3");
  return absl::OkStatus();
}

// In one file, so that they change together.
std::string IdentityOf(const TlsMaterial& material) {
  return StrCat(material.key_pem, "\n", material.chain_pem);
}

std::string PathOf(const UniqueFd& fd) { return StrCat("/proc/self/fd/", fd.get()); }

}  // namespace

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Load(TlsPaths paths, absl::Duration interval) {
  std::unique_ptr<TlsFiles> files(new TlsFiles(std::move(paths), interval));
  {
    const absl::MutexLock lock(&files->mu_);
    files->seen_ = files->StampsNow();
    ASSIGN_OR_RETURN(const TlsMaterial material, ReadTlsMaterial(files->paths_));
    RETURN_IF_ERROR(files->Publish(material));
    struct stat info {};
    if (stat(files->paths_.key.c_str(), &info) == 0 && (info.st_mode & S_IROTH) != 0) {
      LogWarning(StrCat("every user of this machine can read the key ", files->paths_.key.string(),
                        "; chmod 600 it"));
    }
  }
  files->thread_ =
      std::jthread([raw = files.get()](const std::stop_token& stop) { raw->Loop(stop); });
  return files;
}

TlsFiles::~TlsFiles() = default;

std::string TlsFiles::identity_path() const { return PathOf(identity_); }
std::string TlsFiles::authorities_path() const { return PathOf(authorities_); }

absl::Time TlsFiles::not_after() const {
  const absl::MutexLock lock(&mu_);
  return not_after_;
}

TlsFiles::Stamp TlsFiles::StampOf(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  const auto ns = [](const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .modified_ns = ns(info.st_mtim),
          .changed_ns = ns(info.st_ctim)};
}

TlsFiles::Stamps TlsFiles::StampsNow() const {
  return {.certificate = StampOf(paths_.certificate),
          .key = StampOf(paths_.key),
          .authorities = StampOf(paths_.authorities)};
}

absl::Status TlsFiles::Publish(const TlsMaterial& material) {
  const std::string identity_pem = IdentityOf(material);
  ASSIGN_OR_RETURN(UniqueFd identity, InMemory("profd-identity", identity_pem));
  ASSIGN_OR_RETURN(UniqueFd authorities, InMemory("profd-authorities", material.authorities_pem));
  RETURN_IF_ERROR(Replace(identity_, std::move(identity)));
  RETURN_IF_ERROR(Replace(authorities_, std::move(authorities)));
  published_ = StrCat(identity_pem, material.authorities_pem);
  not_after_ = material.not_after;
  const std::string until = absl::FormatTime(material.not_after, absl::UTCTimeZone());
  if (material.not_after < absl::Now()) {
    LogError(StrCat("the certificate of ", material.subject, " in ", paths_.certificate.string(),
                    " ended at ", until, ": callers refuse it; put a new one in its place"));
  } else {
    LogInfo(StrCat("certificate of ", material.subject, " in use, valid until ", until));
  }
  return absl::OkStatus();
}

bool TlsFiles::CheckNow() {
  const absl::MutexLock lock(&mu_);
  const Stamps now = StampsNow();
  if (now == seen_) return false;
  // Taken before they are read: what changes meanwhile is another change.
  seen_ = now;
  const absl::StatusOr<TlsMaterial> material = ReadTlsMaterial(paths_);
  if (!material.ok()) {
    LogError(StrCat("certificates unchanged: ", FromAbsl(material.status().message())));
    return false;
  }
  // The files were touched and are as before. Publishing them would make gRPC build its TLS context
  // anew.
  if (StrCat(IdentityOf(*material), material->authorities_pem) == published_) return false;
  if (const absl::Status status = Publish(*material); !status.ok()) {
    LogError(StrCat("certificates unchanged: ", FromAbsl(status.message())));
    return false;
  }
  return true;
}

void TlsFiles::Loop(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "profd-certs");
  absl::Mutex mu;
  bool stopped = false;
  CondVar changed;
  const std::stop_callback on_stop(stop, [&] {
    const absl::MutexLock lock(&mu);
    stopped = true;
    changed.Signal();
  });
  while (true) {
    {
      const absl::MutexLock lock(&mu);
      // It may return for no reason: then this looks a little earlier.
      if (!stopped) changed.WaitWithTimeout(&mu, interval_);
      if (stopped) return;
    }
    CheckNow();
  }
}

}  // namespace profd::rpc
