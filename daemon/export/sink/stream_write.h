// Writing to what may take nothing for as long as it likes: a pipe, a FIFO, a terminal.
//
// Threads: any.
#ifndef PROFD_DAEMON_EXPORT_SINK_STREAM_WRITE_H_
#define PROFD_DAEMON_EXPORT_SINK_STREAM_WRITE_H_

#include <functional>
#include <string_view>

namespace profd::exporter {

// Says whether to give up; called several times a second while nothing is taken. Empty: never.
using IsCancelled = std::function<bool()>;

// Writes all of `bytes`. Returns 0, an errno, or ECANCELED once `is_cancelled` returns true.
int WriteToStream(int fd, std::string_view bytes, const IsCancelled& is_cancelled);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_SINK_STREAM_WRITE_H_
