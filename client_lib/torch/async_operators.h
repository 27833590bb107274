// AsyncOperators are what torch carries for us from the begin to the end of a record_function(),
// which may end on another thread (a collective's), or while others that began later are still open
// (in asyncio). Given to torch as the observer's context, whose virtual destructor gives it back.
//
// A collective may end while its window is open, and its thread say so only later: it wakes the
// thread that trains first, and loses its CPU to it. So spans that are open when a window ends are
// set aside, for the agent to write them as open ranges.
//
// Threads:  any.
// Hot path: no lock, no allocation.
// Errors:   at most kMaxAsyncOperators are under way at once; further ones are not recorded. Of
// those
//           that are open when a window ends, at most kMaxOpenSpans are kept; the others are
//           counted.
#ifndef PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_
#define PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_

#include <cstddef>
#include <cstdint>

namespace profd::client::torch {

inline constexpr uint32_t kMaxAsyncOperators = 1024;
inline constexpr uint32_t kMaxOpenSpans = 64;

class AsyncOperator {
 public:
  // One that carries `span` of BeginSpan(). Null: there is none left.
  static AsyncOperator* Take(uint64_t span);
  // One that carries a range for CloseRange(), which set_range() tells.
  static AsyncOperator* TakeForRange();

  virtual ~AsyncOperator() = default;
  AsyncOperator(const AsyncOperator&) = delete;
  AsyncOperator& operator=(const AsyncOperator&) = delete;

  bool is_range() const { return is_range_; }
  uint64_t range() const { return range_; }
  void set_range(uint64_t range) { range_ = range; }
  // The span, once; 0: it was taken, or set aside.
  uint64_t TakeSpan();

  // Gives it back.
  static void operator delete(void* operation);

 private:
  explicit AsyncOperator(bool is_range) : is_range_(is_range) {}
  static void* operator new(size_t, void* place) { return place; }

  uint64_t range_ = 0;
  const bool is_range_;
};

// A window has begun, or ended: sets aside the spans that are under way at its end. By one thread
// at a time, which may be inside a write.
void BeginSpans();
void EndSpans();
// Sets aside one more, which ended just after its window.
void KeepOpenSpan(uint64_t span);

// The spans of the last window that were set aside, into `spans`, which has room for kMaxOpenSpans,
// and how many there were no places for. Takes them. When no thread records any more.
struct OpenSpans {
  uint32_t count;
  uint64_t lost;
};
OpenSpans TakeOpenSpans(uint64_t* spans);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_
