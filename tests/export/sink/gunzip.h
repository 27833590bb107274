// Unpacks a gzip file that has to be one member, as viewers demand.
#ifndef PROFD_TESTS_EXPORT_SINK_GUNZIP_H_
#define PROFD_TESTS_EXPORT_SINK_GUNZIP_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace profd {

// DATA_LOSS: not gzip, cut, or with something behind its first member.
absl::StatusOr<std::string> GunzipOneMember(std::string_view bytes);

}  // namespace profd

#endif  // PROFD_TESTS_EXPORT_SINK_GUNZIP_H_
