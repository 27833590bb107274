#include "daemon/report/memory/out_of_memory.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "proto/wire/event.h"

namespace profd::report {

absl::StatusOr<std::vector<OutOfMemoryNote>> FindOutOfMemory(store::CaptureReader& reader) {
  std::vector<OutOfMemoryNote> found;
  RETURN_IF_ERROR(reader.ForEach<NoteRow>([&](const NoteBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kOutOfMemory)) continue;
      found.push_back({.event = {.time_ns = std::max<int64_t>(0, batch.time_ns[i]),
                                 .device = reader.names()[batch.subject[i]],
                                 .bytes = batch.value[i]},
                       .thread = batch.thread});
    }
    return absl::OkStatus();
  }));
  std::stable_sort(found.begin(), found.end(),
                   [](const OutOfMemoryNote& a, const OutOfMemoryNote& b) {
                     return a.event.time_ns < b.event.time_ns;
                   });
  return found;
}

}  // namespace profd::report
