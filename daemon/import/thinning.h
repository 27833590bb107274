// Detects that events were removed from a trace before its import.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_THINNING_H_
#define PROFD_DAEMON_IMPORT_THINNING_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace profd::importer {

// torch.profiler numbers operators one after another ("External id", "Ev Idx"). Returns how many
// numbers between those in `ids` are missing; 0 if complete traces lack as many, or if the missing
// ones are in a few places. nullopt for too few ids.
std::optional<int64_t> MissingIds(std::vector<int64_t> ids);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_THINNING_H_
