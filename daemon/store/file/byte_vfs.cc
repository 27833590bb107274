#include "daemon/store/file/byte_vfs.h"

#include <sqlite3.h>
#include <sys/random.h>
#include <time.h>

#include <charconv>
#include <cstring>
#include <map>
#include <new>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/str_cat.h"

namespace profd::store {
namespace {

// The files that have a name, by number.
class NamedFiles {
 public:
  static NamedFiles& Get() {
    static NamedFiles& files = *new NamedFiles;  // Databases may be closed late.
    return files;
  }
  // Names are numbers that are never reused. One that is no longer known finds no file, where an
  // address as a name would find freed memory.
  int Add(ByteFile& file) {
    absl::MutexLock lock(&mu_);
    files_[++last_] = &file;
    return last_;
  }
  void Remove(int number) {
    absl::MutexLock lock(&mu_);
    files_.erase(number);
  }
  ByteFile* Find(int number) {
    absl::MutexLock lock(&mu_);
    const auto found = files_.find(number);
    return found == files_.end() ? nullptr : found->second;
  }

 private:
  absl::Mutex mu_;
  int last_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, ByteFile*> files_ ABSL_GUARDED_BY(mu_);
};

// SQLite allocates one of these for each open file.
struct OpenByteFile {
  sqlite3_file base;
  ByteFile* bytes;
  absl::Status error;  // Of the last read that failed.
};

OpenByteFile& Opened(sqlite3_file* file) { return *reinterpret_cast<OpenByteFile*>(file); }

int Close(sqlite3_file* file) {
  // SQLite allocates the struct as bytes, and frees it as such.
  Opened(file).error.~Status();
  return SQLITE_OK;
}

// SQLite wants what lies beyond the end as zeros, and to know that it was short.
int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  auto* const out = static_cast<char*>(to);
  const auto wanted = static_cast<size_t>(size);
  const absl::StatusOr<size_t> got = Opened(file).bytes->Read(offset, {out, wanted});
  if (!got.ok()) {
    Opened(file).error = got.status();
    return SQLITE_IOERR_READ;
  }
  if (*got == wanted) return SQLITE_OK;
  std::memset(out + *got, 0, wanted - *got);
  return SQLITE_IOERR_SHORT_READ;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  const absl::StatusOr<int64_t> bytes = Opened(file).bytes->Size();
  if (!bytes.ok()) {
    Opened(file).error = bytes.status();
    return SQLITE_IOERR_FSTAT;
  }
  *size = *bytes;
  return SQLITE_OK;
}

int Write(sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; }
int Truncate(sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; }
int Sync(sqlite3_file*, int) { return SQLITE_OK; }
int Lock(sqlite3_file*, int) { return SQLITE_OK; }
int CheckReservedLock(sqlite3_file*, int* reserved) {
  *reserved = 0;
  return SQLITE_OK;
}
int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 4096; }
// Immutable: SQLite takes no locks, looks for no journal, and trusts its cache of pages.
int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; }

// Version 1 has no shared memory, so SQLite never tries to open a write-ahead log next to the
// bytes.
constexpr sqlite3_io_methods kMethods = {.iVersion = 1,
                                         .xClose = Close,
                                         .xRead = Read,
                                         .xWrite = Write,
                                         .xTruncate = Truncate,
                                         .xSync = Sync,
                                         .xFileSize = FileSize,
                                         .xLock = Lock,
                                         .xUnlock = Lock,
                                         .xCheckReservedLock = CheckReservedLock,
                                         .xFileControl = FileControl,
                                         .xSectorSize = SectorSize,
                                         .xDeviceCharacteristics = DeviceCharacteristics};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // Or SQLite would close it.
  if (name == nullptr || (flags & SQLITE_OPEN_MAIN_DB) == 0) return SQLITE_CANTOPEN;
  int number = 0;
  const std::string_view digits = name;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return SQLITE_CANTOPEN;
  ByteFile* const bytes = NamedFiles::Get().Find(number);
  if (bytes == nullptr) return SQLITE_CANTOPEN;
  // SQLite allocates szOsFile raw bytes and frees them after xClose. The Status in it is therefore
  // made here and destroyed in Close().
  new (file) OpenByteFile{.base = {.pMethods = &kMethods}, .bytes = bytes, .error = {}};
  if (out_flags != nullptr) *out_flags = flags & ~SQLITE_OPEN_READWRITE;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char*, int) { return SQLITE_IOERR_DELETE; }
int Access(sqlite3_vfs*, const char*, int, int* result) {
  *result = 0;
  return SQLITE_OK;
}
int FullPathname(sqlite3_vfs*, const char* name, int size, char* out) {
  const size_t length = std::strlen(name) + 1;
  if (length > static_cast<size_t>(size)) return SQLITE_CANTOPEN;
  std::memcpy(out, name, length);
  return SQLITE_OK;
}
// Returns how many bytes are random. SQLite does not look at it, so the others are zeros. Files are
// only read here, so the numbers need not be unpredictable.
int Randomness(sqlite3_vfs*, int size, char* out) {
  if (size <= 0) return 0;
  std::memset(out, 0, static_cast<size_t>(size));
  const ssize_t got = getrandom(out, static_cast<size_t>(size), GRND_NONBLOCK);
  return got < 0 ? 0 : static_cast<int>(got);
}
int Sleep(sqlite3_vfs*, int microseconds) { return microseconds; }  // Nothing to wait for.
int CurrentTime(sqlite3_vfs*, sqlite3_int64* julian_ms) {
  constexpr sqlite3_int64 kUnixEpochJulianMs = 210'866'760'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *julian_ms = kUnixEpochJulianMs + now.tv_sec * sqlite3_int64{1000} + now.tv_nsec / 1'000'000;
  return SQLITE_OK;
}
int LastError(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

int RegisterByteVfs() {
  // Since version 2, SQLite asks for the time in milliseconds and never calls xCurrentTime.
  static sqlite3_vfs vfs = {.iVersion = 2,
                            .szOsFile = sizeof(OpenByteFile),
                            .mxPathname = 32,
                            .zName = kByteVfs,
                            .xOpen = Open,
                            .xDelete = Delete,
                            .xAccess = Access,
                            .xFullPathname = FullPathname,
                            .xRandomness = Randomness,
                            .xSleep = Sleep,
                            .xGetLastError = LastError,
                            .xCurrentTimeInt64 = CurrentTime};
  return sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
}

ByteVfsName::ByteVfsName(ByteFile& file)
    : number_(NamedFiles::Get().Add(file)), text_(StrCat(number_)) {}
ByteVfsName::~ByteVfsName() { NamedFiles::Get().Remove(number_); }

absl::Status LastReadError(sqlite3* db) {
  sqlite3_file* file = nullptr;
  // A database of another VFS has another kind of file behind this pointer, so its methods are
  // compared before the cast.
  const int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code != SQLITE_OK || file == nullptr || file->pMethods != &kMethods) return absl::OkStatus();
  return Opened(file).error;
}

}  // namespace profd::store
