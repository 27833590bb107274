// The commands' name for CsvCell(), which is in daemon/base because exports write CSV, too.
#ifndef PROFD_CLI_BASE_CSV_H_
#define PROFD_CLI_BASE_CSV_H_

#include "daemon/base/csv.h"

namespace profd::cli {
using profd::CsvCell;
}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_CSV_H_
