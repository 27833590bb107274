// Cells of comma-separated values (RFC 4180) that are safe in a terminal and in a spreadsheet.
#ifndef PROFD_DAEMON_BASE_CSV_H_
#define PROFD_DAEMON_BASE_CSV_H_

#include <string>
#include <string_view>

namespace profd {

// Returns `untrusted` as a cell: valid UTF-8, quoted where necessary. The characters that
// ForDisplay() replaces, other than line ends, become "\\u001b" and the like. A cell that a
// spreadsheet would evaluate (it begins with '=', '+', '-', '@', tab, or carriage return) gets a
// "'" in front. For text only: numbers are written as they are.
std::string CsvCell(std::string_view untrusted);

// The shortest text that is the same double when it is read: 36.4, not 36.399999999999999.
std::string CsvNumber(double value);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CSV_H_
