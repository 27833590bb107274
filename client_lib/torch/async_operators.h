// AsyncOperators are what torch carries for us from the begin to the end of a record_function(),
// which may end on another thread (a collective's), or while others that began later are still open
// (in asyncio). Given to torch as the observer's context, whose virtual destructor gives it back.
//
// Threads:  any.
// Hot path: no lock, no allocation.
// Errors:   at most kMaxAsyncOperators are under way at once; further ones are not recorded.
#ifndef PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_
#define PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_

#include <cstddef>
#include <cstdint>

namespace profd::client::torch {

inline constexpr uint32_t kMaxAsyncOperators = 1024;

class AsyncOperator {
 public:
  // One that carries `span` of BeginSpan(). Null: there is none left.
  static AsyncOperator* Take(uint64_t span);
  // One that carries a range for CloseRange(), which set_range() tells.
  static AsyncOperator* TakeForRange();

  virtual ~AsyncOperator() = default;
  AsyncOperator(const AsyncOperator&) = delete;
  AsyncOperator& operator=(const AsyncOperator&) = delete;

  uint64_t span() const { return span_; }
  bool is_range() const { return is_range_; }
  void set_range(uint64_t range) { span_ = range; }

  // Gives it back.
  static void operator delete(void* operation);

 private:
  AsyncOperator(uint64_t span, bool is_range) : span_(span), is_range_(is_range) {}
  static void* operator new(size_t, void* place) { return place; }

  uint64_t span_;
  const bool is_range_;
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_
