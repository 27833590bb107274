// CollectiveWaits finds when the training threads waited for collectives that other threads ran:
// gloo's workers, DDP's reducer, Work.wait(). Nothing is recorded of such a wait but its ends.
//
//   training thread   ── op ──┤P       (records nothing)        N├── op ──
//   worker              ├─────────── gloo:all_reduce ──────────┤E
//                             └──────── wait ──────────────────┘
//
// A wait is a time in which the training threads recorded no begin and no end and were in no
// operator, and after which they went on right when a collective had ended: at most 1 ms, or a
// third of the wait, later, as on a busy machine. A thread that sleeps or runs Python while a
// collective is under way goes on at another time.
//
// A worker wakes who waits before its own range ends, and may lose its CPU to that thread. So where
// no such wait is found that is longer than a pause between operators (100 us; a tenth of the other
// wait if the end comes within that time or 1 ms; a third if three times as many are waited for
// until they end), a thread may also have gone on that much earlier, if it did nothing for more
// than half of the collective:
//
//   training thread   ── op ──┤P       (records nothing)     N├── op ──┤├── op ──
//   worker              ├───────────── gloo:all_reduce ────────────────────────┤E
//                             └──────── wait ────────────────┘
//
// Such a collective was done at N. It is the exception: more of these than of the others are no
// waits, but a thread that does something else meanwhile.
//
// Threads: one. Memory: 128 bytes per collective. Any times are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_WAITS_H_
#define PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace profd::report {

class CollectiveWaits {
 public:
  struct Running {
    int64_t start_ns = 0;  // When the program issued it.
    int64_t end_ns = 0;    // When it was done.
  };
  struct Wait {
    size_t collective = 0;  // Index into what the constructor got.
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    bool ended_late = false;  // The collective's end was recorded late: it was done at `end_ns`.
  };

  explicit CollectiveWaits(const std::vector<Running>& collectives);

  // Adds a time at which a training thread was seen at work: a begin or an end. In any order.
  // `begins_work`: an operator began, so that the thread did not wait right after it.
  void AddEvent(int64_t time_ns, bool begins_work = false);

  // Adds a time in which a training thread worked all along, whatever begins and ends in it. In
  // any order.
  void AddWork(int64_t start_ns, int64_t end_ns);

  // Returns the waits by time. They do not overlap: where several collectives were waited for, the
  // time until the first one's end is the first one's. Call it after all was added.
  std::vector<Wait> Find();

 private:
  // The events next to each of some times, as far as none of the other times lies between.
  class Neighbors {
   public:
    struct Events {
      std::optional<int64_t> before_ns;
      bool is_at_work = false;  // After `before_ns`.
      std::optional<int64_t> after_ns;
    };

    explicit Neighbors(std::vector<int64_t> times);  // Ascending.
    void Add(int64_t time_ns, bool begins_work);
    void AddWork(int64_t start_ns, int64_t end_ns);
    // No more work is added: the times that lie in it are at work.
    void EndOfWork();
    const Events& operator[](size_t i) const { return events_[i]; }
    // Also where other times lie between.
    std::vector<Events> Nearest() const;

   private:
    std::vector<int64_t> times_;
    std::vector<Events> events_;
    // Of `times_`: how much more work lies around this time than around the one before it.
    std::vector<int64_t> more_work_;
  };

  // `waits` are the others, by time, without overlap. A wait that is so many times as long as
  // another one for the same collective explains more.
  std::vector<Wait> FindEndedLate(std::span<const Wait> waits, uint64_t waits_per_pause) const;

  std::vector<Running> collectives_;
  std::vector<size_t> by_end_;  // Indices of collectives.
  std::vector<size_t> by_middle_;
  Neighbors ends_;     // By end.
  Neighbors middles_;  // Of the time from start to end.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_COLLECTIVE_WAITS_H_
