// CorrelationSet remembers which correlation ids CUDA calls had, and whether the call is in
// the capture. CUDA counts them up from 1, so they are pages of bits: a million calls take
// some hundred KiB.
//
// Memory: kMaxPages pages of 1 KiB, enough for 256 million ids that are not scattered by
//         design. Calls after that are forgotten.
// Threads: one at a time.
#ifndef PROFD_DAEMON_INGEST_DECODE_CORRELATION_SET_H_
#define PROFD_DAEMON_INGEST_DECODE_CORRELATION_SET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"

namespace profd {

class CorrelationSet {
 public:
  enum class Call : uint8_t {
    kUnseen = 0,
    kLeftOut = 1,  // Seen, not in the capture.
    kKept = 2,
  };
  static constexpr size_t kMaxPages = 65536;

  // A call that was kept stays kept.
  void Add(uint32_t correlation, Call call) {
    Page* page = PageOf(correlation);
    if (page == nullptr) return;
    uint8_t& byte = (*page)[correlation % kIdsPerPage / 4];
    const int shift = static_cast<int>(correlation % 4 * 2);
    byte = static_cast<uint8_t>(byte | (static_cast<unsigned>(call) << shift));
  }
  Call Find(uint32_t correlation) const {
    const auto found = pages_.find(correlation / kIdsPerPage);
    if (found == pages_.end()) return Call::kUnseen;
    const uint8_t byte = (*found->second)[correlation % kIdsPerPage / 4];
    const auto bits = static_cast<uint8_t>((byte >> (correlation % 4 * 2)) & 3);
    if ((bits & static_cast<uint8_t>(Call::kKept)) != 0) return Call::kKept;
    return static_cast<Call>(bits);
  }

 private:
  static constexpr uint32_t kIdsPerPage = 4096;
  using Page = std::array<uint8_t, kIdsPerPage / 4>;

  // Null: there are too many.
  Page* PageOf(uint32_t correlation) {
    const uint32_t number = correlation / kIdsPerPage;
    if (number == last_number_ && last_page_ != nullptr) return last_page_;
    const auto found = pages_.find(number);
    if (found == pages_.end() && pages_.size() >= kMaxPages) return nullptr;
    std::unique_ptr<Page>& page = found != pages_.end() ? found->second : pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_number_ = number;
    last_page_ = page.get();
    return last_page_;
  }

  absl::flat_hash_map<uint32_t, std::unique_ptr<Page>> pages_;
  uint32_t last_number_ = 0;
  Page* last_page_ = nullptr;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_CORRELATION_SET_H_
