// What traces call the notes of a capture, and what they say of each.
#ifndef PROFD_DAEMON_EXPORT_TRACE_NOTE_TEXT_H_
#define PROFD_DAEMON_EXPORT_TRACE_NOTE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

struct TraceNote {
  std::string name;                                             // A TraceName: "Graph Break"
  std::vector<std::pair<std::string_view, std::string>> texts;  // TraceNames.
  std::vector<std::pair<std::string_view, int64_t>> numbers;
};

// Whether a trace has the note: not those that only say where generated code comes from, which the
// stacks show.
bool IsShown(const NoteBatch& batch, size_t i);

// `names` are the reader's.
TraceNote DescribeNote(const NoteBatch& batch, size_t i, std::span<const std::string> names);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_NOTE_TEXT_H_
