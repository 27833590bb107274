// What we call of libtorch, in our own words: nothing of torch's headers, which differ from
// release to release where these few do not.
//
// A RecordFunction is torch's announcement of an operator to those that have registered a callback:
// an object on the stack of the thread that runs the operator. Of its fields we know no place
// but what record_function.h proves. An IValue is 16 bytes: a payload and a tag.
#ifndef PROFD_CLIENT_LIB_TORCH_TORCH_ABI_H_
#define PROFD_CLIENT_LIB_TORCH_TORCH_ABI_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace profd::client::torch {

// What a start callback returns, and its end callback gets: in torch, a std::unique_ptr to an
// object with a virtual destructor. As that, it is not trivial, so that the compiler returns it the
// same way, on every architecture. Who returns one that is not empty gives the object to torch.
class CallbackContext {
 public:
  CallbackContext() {}  // NOLINT(modernize-use-equals-default)
  explicit CallbackContext(void* object) : object_(object) {}
  CallbackContext(CallbackContext&& other) noexcept : object_(other.object_) {
    other.object_ = nullptr;
  }
  ~CallbackContext() { object_ = nullptr; }
  CallbackContext(const CallbackContext&) = delete;
  CallbackContext& operator=(const CallbackContext&) = delete;

 private:
  void* object_ = nullptr;
};
static_assert(sizeof(CallbackContext) == 8 && !std::is_trivially_copyable_v<CallbackContext>);

inline constexpr uint32_t kRecordScopes = 10;

using StartCallback = CallbackContext (*)(const void* record_function);
using EndCallback = void (*)(const void* record_function, void* context);

// at::RecordFunctionCallback, passed by value.
struct RecordFunctionCallback {
  StartCallback start;
  EndCallback end;
  double sampling_probability;
  uint8_t scopes[kRecordScopes];
  uint8_t needs_inputs;
  uint8_t needs_outputs;
  uint8_t needs_ids;
};
static_assert(sizeof(RecordFunctionCallback) == 40);
static_assert(std::is_trivially_copyable_v<RecordFunctionCallback>);

// A std::variant<std::string_view, ...> that holds a text: how newer releases take a name.
struct NameOrSchema {
  size_t text_length;
  const char* text;
  uint8_t alternative;  // 0: the text.
};
static_assert(sizeof(NameOrSchema) == 24 && std::is_trivially_copyable_v<NameOrSchema>);

// c10::IValue.
struct IValue {
  uint64_t payload;
  uint32_t tag;
  uint32_t unused;
};
static_assert(sizeof(IValue) == 16);

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_TORCH_ABI_H_
