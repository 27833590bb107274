// The commands' name for JsonWriter, which is in daemon/base because exports write JSON, too.
#ifndef PROFD_CLI_BASE_JSON_WRITER_H_
#define PROFD_CLI_BASE_JSON_WRITER_H_

#include "daemon/base/json_writer.h"

namespace profd::cli {
using profd::JsonWriter;
}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_JSON_WRITER_H_
