// Cells of comma-separated values, as RFC 4180 has them.
#ifndef PROFD_DAEMON_BASE_CSV_H_
#define PROFD_DAEMON_BASE_CSV_H_

#include <string>
#include <string_view>

namespace profd {

// Valid UTF-8, in quotes where it has to be.
std::string CsvCell(std::string_view untrusted);

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_CSV_H_
