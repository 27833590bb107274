// AsyncOperators are what torch carries for us from the begin to the end of an operator that may
// end on another thread: a collective's, say. Given to torch as the observer's context, whose
// virtual destructor gives it back.
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

  virtual ~AsyncOperator() = default;
  AsyncOperator(const AsyncOperator&) = delete;
  AsyncOperator& operator=(const AsyncOperator&) = delete;

  uint64_t span() const { return span_; }

  // Gives it back.
  static void operator delete(void* operation);

 private:
  explicit AsyncOperator(uint64_t span) : span_(span) {}
  static void* operator new(size_t, void* place) { return place; }

  const uint64_t span_;
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_ASYNC_OPERATORS_H_
