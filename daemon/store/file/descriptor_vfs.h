// An SQLite VFS over one read-only descriptor that another process opened. A process without access
// to any file system reads a capture with it. It opens no other file: temporary data must stay in
// memory (PRAGMA temp_store=MEMORY), and journals do not exist.
//
// The name of a database is the descriptor's number, "7". The descriptor is borrowed.
//
// Threads: any.
#ifndef PROFD_DAEMON_STORE_FILE_DESCRIPTOR_VFS_H_
#define PROFD_DAEMON_STORE_FILE_DESCRIPTOR_VFS_H_

namespace profd::store {

inline constexpr char kDescriptorVfs[] = "profd-descriptor";

// Registers the VFS with SQLite, once per process. Returns an SQLite result code.
int RegisterDescriptorVfs();

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_FILE_DESCRIPTOR_VFS_H_
