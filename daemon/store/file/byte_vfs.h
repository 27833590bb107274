// An SQLite VFS over one read-only ByteFile. A process without access to any file system reads a
// capture with it from a descriptor that another process opened, and profctl reads one that is in
// object storage. It opens no other file: temporary data must stay in memory (PRAGMA
// temp_store=MEMORY), and journals do not exist.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_FILE_BYTE_VFS_H_
#define PROFD_DAEMON_STORE_FILE_BYTE_VFS_H_

#include <string>

#include "absl/status/status.h"
#include "daemon/store/file/byte_file.h"

struct sqlite3;

namespace profd::store {

inline constexpr char kByteVfs[] = "profd-bytes";

// Registers the VFS with SQLite, once per process. Returns an SQLite result code.
int RegisterByteVfs();

// Gives `file` a name in the VFS, for as long as this lives; the file must live longer.
class ByteVfsName {
 public:
  explicit ByteVfsName(ByteFile& file);
  ByteVfsName(const ByteVfsName&) = delete;
  ByteVfsName& operator=(const ByteVfsName&) = delete;
  ~ByteVfsName();
  const std::string& text() const { return text_; }

 private:
  const int number_;
  const std::string text_;
};

// Returns why the last read of a database in this VFS failed, which SQLite does not tell; OK: no
// read failed, or the database is not in it.
absl::Status LastReadError(sqlite3* db);

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_BYTE_VFS_H_
