#include "daemon/store/file/descriptor_vfs.h"

#include <sqlite3.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace profd::store {
namespace {

// SQLite allocates one of these for each open file.
struct DescriptorFile {
  sqlite3_file base;
  int descriptor;
};

int DescriptorOf(sqlite3_file* file) { return reinterpret_cast<DescriptorFile*>(file)->descriptor; }

int Close(sqlite3_file* /*file*/) { return SQLITE_OK; }

// SQLite wants what lies beyond the end as zeros, and to know that it was short.
int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  auto* out = static_cast<char*>(to);
  size_t filled = 0;
  while (filled < static_cast<size_t>(size)) {
    const ssize_t got = pread(DescriptorOf(file), out + filled, static_cast<size_t>(size) - filled,
                              offset + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SQLITE_IOERR_READ;
    if (got == 0) {
      std::memset(out + filled, 0, static_cast<size_t>(size) - filled);
      return SQLITE_IOERR_SHORT_READ;
    }
    filled += static_cast<size_t>(got);
  }
  return SQLITE_OK;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  struct stat info {};
  if (fstat(DescriptorOf(file), &info) != 0) return SQLITE_IOERR_FSTAT;
  *size = info.st_size;
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
int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; }

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
  int descriptor = -1;
  const std::string_view digits = name;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), descriptor);
  if (error != std::errc() || end != digits.data() + digits.size()) return SQLITE_CANTOPEN;
  auto* opened = reinterpret_cast<DescriptorFile*>(file);
  opened->descriptor = descriptor;
  opened->base.pMethods = &kMethods;
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
int Randomness(sqlite3_vfs*, int size, char* out) {
  return static_cast<int>(getrandom(out, static_cast<size_t>(size), GRND_NONBLOCK));
}
int Sleep(sqlite3_vfs*, int microseconds) { return microseconds; }  // Nobody to wait for.
int CurrentTime(sqlite3_vfs*, sqlite3_int64* julian_ms) {
  constexpr sqlite3_int64 kUnixEpochJulianMs = 210'866'760'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *julian_ms = kUnixEpochJulianMs + now.tv_sec * sqlite3_int64{1000} + now.tv_nsec / 1'000'000;
  return SQLITE_OK;
}
int LastError(sqlite3_vfs*, int, char*) { return errno; }

}  // namespace

int RegisterDescriptorVfs() {
  static sqlite3_vfs vfs = {.iVersion = 2,
                            .szOsFile = sizeof(DescriptorFile),
                            .mxPathname = 32,
                            .zName = kDescriptorVfs,
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

}  // namespace profd::store
