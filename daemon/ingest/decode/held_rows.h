// HeldRows keeps rows until later data decides what to do with them.
//
// Memory:  at most kMaxRows. With more, the older half is decided by what is known.
// Threads: one at a time.
#ifndef PROFD_DAEMON_INGEST_DECODE_HELD_ROWS_H_
#define PROFD_DAEMON_INGEST_DECODE_HELD_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace profd {

template <typename Row>
class HeldRows {
 public:
  static constexpr size_t kMaxRows = 1u << 18;

  void Add(const Row& row) { rows_.push_back(row); }

  // Asks decide(row, last) for every row if there are enough to make that worth it; true: it
  // is decided. With `last` it must be.
  template <typename Decide>
  void Sweep(Decide decide) {
    if (rows_.size() < sweep_at_) return;
    std::erase_if(rows_, [&](const Row& row) { return decide(row, /*last=*/false); });
    if (rows_.size() > kMaxRows / 2) {
      const auto older = rows_.begin() + static_cast<std::ptrdiff_t>(rows_.size() / 2);
      std::for_each(rows_.begin(), older, [&](const Row& row) { decide(row, /*last=*/true); });
      rows_.erase(rows_.begin(), older);
    }
    sweep_at_ = std::clamp(2 * rows_.size(), kMinSweepRows, kMaxRows);
  }
  // Nothing more will come.
  template <typename Decide>
  void Finish(Decide decide) {
    for (const Row& row : rows_) decide(row, /*last=*/true);
    rows_.clear();
  }

 private:
  static constexpr size_t kMinSweepRows = 4096;
  std::vector<Row> rows_;
  size_t sweep_at_ = kMinSweepRows;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_HELD_ROWS_H_
