// ChromeLabels writes the events that name rows and put them in order: those that an imported trace
// had, as it had them, and profd's own for all other rows.
//
// Threads: one.
#ifndef PROFD_DAEMON_EXPORT_CHROME_LABELS_H_
#define PROFD_DAEMON_EXPORT_CHROME_LABELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/source_arguments.h"

namespace profd::exporter {

class ChromeLabels {
 public:
  // Borrows `out`. A merged trace has only labels of its own.
  ChromeLabels(const SourceArguments& source, const TracePlace& place, OutputBuffer& out);

  // The trace's own. Before all others.
  void WriteSource();

  // `{"ph":"M","name":NAME,"pid":PID,"tid":TID,"args":{KEY:VALUE}}`, unless the trace has its own.
  void WriteText(std::string_view name, int64_t pid, int64_t tid, std::string_view key,
                 std::string_view untrusted);
  void WriteNumber(std::string_view name, int64_t pid, int64_t tid, std::string_view key,
                   int64_t value);

 private:
  void Write(std::string_view name, int64_t pid, int64_t tid, std::string_view key,
             std::string_view json);
  void Append(std::string_view event);

  OutputBuffer& out_;
  bool is_first_;  // The first event of a trace is the only one without a comma before it.
  std::vector<std::string> source_;
  absl::flat_hash_set<std::string> rows_;  // Name, pid, and tid.
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_CHROME_LABELS_H_
