// NameTable gives names their ids as a capture file has them, and tells the file of each once.
//
// Threads: one.
// Memory:  kMaxBytes and kMaxIds of distinct names, and as many of the ways to write them in JSON;
//          later ones are "(other)", and are counted.
#ifndef PROFD_DAEMON_IMPORT_NAMES_H_
#define PROFD_DAEMON_IMPORT_NAMES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/capture/ports.h"

namespace profd::importer {

class NameTable {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr uint32_t kMaxIds = 500'000;
  static constexpr size_t kMaxNameBytes = 4096;  // Longer ones: proto/wire/long_names.h.

  // Must outlive it.
  explicit NameTable(CaptureSink& sink) : sink_(sink) {}

  // `json` is the inside of a JSON string, as written.
  absl::StatusOr<uint32_t> IdOfJson(std::string_view json);
  absl::StatusOr<uint32_t> IdOf(std::string_view text);

  int64_t other_count() const { return other_count_; }  // Uses of "(other)".

 private:
  absl::StatusOr<uint32_t> Add(std::string_view text);

  CaptureSink& sink_;
  std::deque<std::string> kept_;  // What the keys of the maps show.
  absl::flat_hash_map<std::string_view, uint32_t> by_json_;
  absl::flat_hash_map<std::string_view, uint32_t> by_text_;
  size_t bytes_ = 0;
  uint32_t last_id_ = 0;
  uint32_t other_id_ = 0;
  int64_t other_count_ = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NAMES_H_
