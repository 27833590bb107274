// Comma-separated values for spreadsheets and scripts, as RFC 4180 has them, with "\n" line ends.
#ifndef PROFD_CLI_CSV_H_
#define PROFD_CLI_CSV_H_

#include <string>
#include <string_view>

namespace profd::cli {

// One cell: valid UTF-8, quoted where it must be.
std::string CsvCell(std::string_view untrusted);

}  // namespace profd::cli

#endif  // PROFD_CLI_CSV_H_
