// Journal sends entries to systemd's journal, for a record that leaves the daemon.
//
// Threads: any.
// Errors:  Send() never waits: what the journal does not take at once is lost, and false returned.
//          Without a journal (no systemd, or in a container) that is always so.
#ifndef PROFD_DAEMON_BASE_JOURNAL_H_
#define PROFD_DAEMON_BASE_JOURNAL_H_

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/unique_fd.h"

namespace profd {

class Journal {
 public:
  // The socket of systemd-journald; replaced in tests.
  explicit Journal(std::filesystem::path socket = "/run/systemd/journal/socket");

  // Fields by name, in capitals; values are any bytes.
  using Field = std::pair<std::string_view, std::string>;
  bool Send(std::span<const Field> fields) const;

 private:
  const std::filesystem::path path_;
  const UniqueFd socket_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_JOURNAL_H_
