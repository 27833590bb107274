#include "daemon/report/index/wide_streams.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/source_kinds.h"

namespace profd::report {

absl::StatusOr<WideStreams> WideStreams::Read(store::CaptureReader& reader) {
  WideStreams wide;
  // The record's list of streams would not do: of a file it is cut. Most captures need not be read.
  const bool may_have_any =
      std::ranges::find(reader.names(), kWideStreamKey) != reader.names().end();
  if (!may_have_any) return wide;
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.of[i] != kArgumentOfWideStream || batch.row[i] >= kMostWideStreams) continue;
      if (batch.type[i] != static_cast<uint8_t>(ArgumentType::kInteger)) continue;
      if (batch.row[i] >= wide.numbers_.size()) wide.numbers_.resize(size_t{batch.row[i]} + 1);
      wide.numbers_[batch.row[i]] = batch.value[i];
    }
    return absl::OkStatus();
  }));
  return wide;
}

int64_t WideStreams::NumberOf(uint32_t number) const {
  if (number < kFirstWideStream || number - kFirstWideStream >= numbers_.size()) return number;
  const int64_t wide = numbers_[number - kFirstWideStream];
  return wide != 0 ? wide : number;
}

}  // namespace profd::report
