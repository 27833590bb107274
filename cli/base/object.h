// Descriptions of JSON objects (daemon/base/table/object.h), by the names that lists use.
#ifndef PROFD_CLI_BASE_OBJECT_H_
#define PROFD_CLI_BASE_OBJECT_H_

#include "daemon/base/table/object.h"

namespace profd::cli {

using table::ColumnsOf;
using table::FieldsOf;
using table::IntsOf;
using table::ListOf;
using table::MapOf;
using table::Member;
using table::ObjectDescription;
using table::ObjectOf;
using table::ObjectOrNull;
using table::Optional;
using table::TextOf;
using table::TextOrNull;
using table::TextsOf;

// The priority of a column that is only in JSON.
inline constexpr int kOnlyInData = table::Column::kOnlyInData;

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_OBJECT_H_
