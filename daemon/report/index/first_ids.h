// For each name, the first ID with the same text. A target assigns IDs, so two names may be equal.
#ifndef PROFD_DAEMON_REPORT_INDEX_FIRST_IDS_H_
#define PROFD_DAEMON_REPORT_INDEX_FIRST_IDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace profd::report {

std::vector<uint32_t> FirstIds(std::span<const std::string> names);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_FIRST_IDS_H_
