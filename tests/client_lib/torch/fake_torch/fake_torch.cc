// See fake_torch.h. Namespaces, classes and functions are named as torch's, since their mangled
// names are what is looked up.
#include "tests/client_lib/torch/fake_torch/fake_torch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <variant>

namespace at {

struct ObserverContext {
  virtual ~ObserverContext() = default;
};

class RecordFunction;

enum class RecordScope : uint8_t {};

// With torch's arguments, members and order.
class RecordFunctionCallback {
 public:
  std::unique_ptr<ObserverContext> (*start)(const RecordFunction&);
  void (*end)(const RecordFunction&, ObserverContext*);
  double sampling_probability;
  std::array<bool, 10> scopes;
  bool needs_inputs;
  bool needs_outputs;
  bool needs_ids;
};
static_assert(sizeof(RecordFunctionCallback) == 40);

constexpr size_t kFieldBytes = 512;
constexpr size_t kMostActive = 6;

}  // namespace at

namespace c10 {
class FunctionSchema;
}

namespace at {

// Fields where the layout says; behind them what torch has among its fields, too.
class RecordFunction {
 public:
  explicit RecordFunction(RecordScope scope);
  ~RecordFunction();
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;

#if defined(FAKE_TORCH_VARIANT_BEFORE)
  void before(
      std::variant<std::string_view, std::reference_wrapper<const c10::FunctionSchema>> name,
      int64_t sequence);
#else
  void before(const char* name, int64_t sequence);
#endif
  const char* name() const;
  size_t num_inputs() const;
  bool isAsync() const;
  static uint64_t currentThreadId();

  void Prepare(const profd::testing::FakeCall& call);
  void Start(const char* name, int64_t sequence);

  template <typename Value>
  void Put(int offset, Value value) {
    if (offset >= 0) memcpy(fields_ + offset, &value, sizeof(value));
  }

 private:
  struct Active {
    RecordFunctionCallback callback;
    std::unique_ptr<ObserverContext> context;
  };

  alignas(64) uint8_t fields_[kFieldBytes];
  const char* name_ = nullptr;
  size_t input_count_ = 0;
  bool is_async_ = false;
  bool is_started_ = false;
  bool needs_inputs_ = false;
  size_t active_count_ = 0;
  std::array<Active*, kMostActive> active_{};
  alignas(8) std::array<uint8_t, kMostActive * sizeof(Active)> room_{};
};

namespace {

struct Registered {
  uint64_t handle;
  RecordFunctionCallback callback;
  bool is_enabled;
};

std::mutex g_lock;
std::vector<Registered>& All() {
  static auto* all = new std::vector<Registered>;
  return *all;
}
std::atomic<uint64_t> g_version{1};
std::atomic<std::atomic<bool>*> g_delayed{nullptr};
std::atomic<uint64_t> g_next_handle{1};
std::atomic<uint64_t> g_next_operator{1};
std::atomic<uint64_t> g_next_thread{1};
constexpr useconds_t kRegistrationDelayUs = 100'000;

profd::testing::FakeLayout g_layout = profd::testing::LayoutOf113();

// A thread looks again when something has changed, as torch's do.
struct Snapshot {
  uint64_t version = 0;
  std::vector<RecordFunctionCallback> callbacks;
};

const std::vector<RecordFunctionCallback>& Enabled() {
  thread_local Snapshot snapshot;
  const uint64_t version = g_version.load(std::memory_order_relaxed);
  if (snapshot.version == version) return snapshot.callbacks;
  const std::lock_guard<std::mutex> lock(g_lock);
  snapshot.version = g_version.load(std::memory_order_relaxed);
  snapshot.callbacks.clear();
  for (const Registered& each : All()) {
    if (each.is_enabled) snapshot.callbacks.push_back(each.callback);
  }
  return snapshot.callbacks;
}

void Enable(uint64_t handle, bool enabled) {
  const std::lock_guard<std::mutex> lock(g_lock);
  for (Registered& each : All()) {
    if (each.handle != handle || each.is_enabled == enabled) continue;
    each.is_enabled = enabled;
    g_version.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

#define FAKE_TORCH_API __attribute__((visibility("default")))

FAKE_TORCH_API uint64_t addGlobalCallback(RecordFunctionCallback callback) {
  const std::lock_guard<std::mutex> lock(g_lock);
  if (std::atomic<bool>* has_begun = g_delayed.exchange(nullptr)) {
    has_begun->store(true);
    usleep(kRegistrationDelayUs);
  }
  const uint64_t handle = g_next_handle.fetch_add(1);
  All().push_back({handle, callback, true});
  g_version.fetch_add(1, std::memory_order_relaxed);
  return handle;
}

FAKE_TORCH_API void removeCallback(uint64_t handle) {
  const std::lock_guard<std::mutex> lock(g_lock);
  std::erase_if(All(), [&](const Registered& each) { return each.handle == handle; });
  g_version.fetch_add(1, std::memory_order_relaxed);
}

FAKE_TORCH_API void disableCallback(uint64_t handle) { Enable(handle, false); }

#if !defined(FAKE_TORCH_NO_REENABLE)
FAKE_TORCH_API void reenableCallback(uint64_t handle) { Enable(handle, true); }
#endif

FAKE_TORCH_API RecordFunction::RecordFunction(RecordScope scope) {
  memset(fields_, 0, 344);  // Behind that, whatever was there.
  for (const RecordFunctionCallback& callback : Enabled()) {
    if (!callback.scopes[static_cast<size_t>(scope)] || active_count_ == kMostActive) continue;
    auto* place = room_.data() + active_count_ * sizeof(Active);
    active_[active_count_++] = new (place) Active{callback, nullptr};
    needs_inputs_ |= callback.needs_inputs;
  }
  if (active_count_ == 0) return;
  Put(g_layout.forward_thread, uint64_t{0});
  Put(g_layout.scope, static_cast<uint8_t>(scope));
  Put(g_layout.thread, currentThreadId());
  Put(g_layout.handle, g_next_operator.fetch_add(1, std::memory_order_relaxed));
}

FAKE_TORCH_API RecordFunction::~RecordFunction() {
  for (size_t i = 0; i < active_count_; ++i) {
    if (is_started_) active_[i]->callback.end(*this, active_[i]->context.get());
    active_[i]->~Active();
  }
}

void RecordFunction::Prepare(const profd::testing::FakeCall& call) {
  if (active_count_ == 0) return;
  Put(g_layout.forward_thread, call.forward_thread);
  is_async_ = call.is_async;
  if (!needs_inputs_) return;
  Put(g_layout.inputs, reinterpret_cast<uint64_t>(call.inputs));
  Put(g_layout.inputs + 8, uint64_t{call.input_count});
  input_count_ = call.input_count;
}

void RecordFunction::Start(const char* name, int64_t sequence) {
  if (active_count_ == 0) return;
  name_ = name;
  Put(g_layout.sequence, sequence);
  Put(g_layout.second_sequence, sequence);
  is_started_ = true;
  for (size_t i = 0; i < active_count_; ++i) {
    active_[i]->context = active_[i]->callback.start(*this);
  }
}

#if defined(FAKE_TORCH_VARIANT_BEFORE)
FAKE_TORCH_API void RecordFunction::before(
    std::variant<std::string_view, std::reference_wrapper<const c10::FunctionSchema>> name,
    int64_t sequence) {
  Start(std::get<std::string_view>(name).data(), sequence);
}
#else
FAKE_TORCH_API void RecordFunction::before(const char* name, int64_t sequence) {
  Start(name, sequence);
}
#endif

FAKE_TORCH_API const char* RecordFunction::name() const { return name_; }
FAKE_TORCH_API size_t RecordFunction::num_inputs() const { return input_count_; }
FAKE_TORCH_API bool RecordFunction::isAsync() const { return is_async_; }

FAKE_TORCH_API uint64_t RecordFunction::currentThreadId() {
  thread_local const uint64_t id = g_next_thread.fetch_add(1);
  return id;
}

}  // namespace at

namespace c10 {

struct FAKE_TORCH_API UndefinedTensorImpl {
  static UndefinedTensorImpl _singleton;

  alignas(8) uint8_t bytes[256] = {};
};
UndefinedTensorImpl UndefinedTensorImpl::_singleton;

}  // namespace c10

namespace profd::testing {
namespace {

using at::g_layout;

constexpr size_t kInlineRank = 5;

// Objects are words; kept for ever, and found by leak checkers.
std::mutex g_kept_lock;
uint64_t* NewObject(size_t words) {
  static auto* kept = new std::vector<std::unique_ptr<uint64_t[]>>;
  auto object = std::make_unique<uint64_t[]>(words);
  uint64_t* address = object.get();
  const std::lock_guard<std::mutex> lock(g_kept_lock);
  kept->push_back(std::move(object));
  return address;
}

template <typename Value>
void PutAt(uint64_t* object, int offset, Value value) {
  memcpy(reinterpret_cast<uint8_t*>(object) + offset, &value, sizeof(value));
}

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

void Use(const FakeLayout& layout) { g_layout = layout; }

FakeTensor MakeTensor(const int64_t* sizes, size_t rank, int16_t dtype, bool has_storage) {
  uint64_t* impl = NewObject(32);
  uint64_t* data = NewObject(1);
  if (has_storage) {
    uint64_t* storage = NewObject(8);
    PutAt(storage, g_layout.data, AddressOf(data));
    PutAt(impl, g_layout.storage, AddressOf(storage));
  }
  PutAt(impl, g_layout.rank, uint64_t{rank});
  const size_t capacity = rank <= kInlineRank ? kInlineRank : rank;
  uint64_t* place =
      reinterpret_cast<uint64_t*>(reinterpret_cast<uint8_t*>(impl) + g_layout.rank + 8);
  if (rank > kInlineRank) {
    uint64_t* outside = NewObject(2 * rank);
    *place = AddressOf(outside);
    place = outside;
  }
  int64_t stride = 1;
  for (size_t i = rank; i-- > 0;) {
    place[i] = static_cast<uint64_t>(sizes[i]);
    place[capacity + i] = static_cast<uint64_t>(stride);
    stride *= sizes[i];
  }
  PutAt(impl, g_layout.dtype, dtype);
  return {impl, has_storage ? data : nullptr};
}

FakeIValue MakeList(const FakeIValue* items, size_t count) {
  uint64_t* copies = NewObject(2 * count + 1);
  if (count != 0) memcpy(copies, items, count * sizeof(*items));
  uint64_t* list = NewObject(8);
  PutAt(list, g_layout.items, AddressOf(copies));
  PutAt(list, g_layout.items + 8, AddressOf(copies + 2 * count));
  return {AddressOf(list), g_layout.list_tag, 0};
}

FakeIValue MakeString(const char* text) {
  const size_t length = strlen(text);
  // Length, capacity and count before the characters, as the older strings have them.
  uint64_t* characters = NewObject(4 + length / 8);
  if (g_layout.has_old_strings) characters[0] = length;
  memcpy(characters + 3, text, length + 1);
  uint64_t* string = NewObject(8);
  PutAt(string, g_layout.text, AddressOf(characters + 3));
  if (!g_layout.has_old_strings) PutAt(string, g_layout.text + 8, uint64_t{length});
  return {AddressOf(string), g_layout.string_tag, 0};
}

const void* UndefinedTensor() { return &c10::UndefinedTensorImpl::_singleton; }

static_assert(sizeof(at::RecordFunction) <= kFakeOperatorBytes);

void BeginAt(void* room, const FakeCall& call) {
  auto* operation = new (room) at::RecordFunction(static_cast<at::RecordScope>(call.scope));
  operation->Prepare(call);
  operation->Start(call.name, call.sequence);
}

void EndAt(void* room) { static_cast<at::RecordFunction*>(room)->~RecordFunction(); }

void* Begin(const FakeCall& call) {
  void* room = ::operator new (sizeof(at::RecordFunction), std::align_val_t{64});
  BeginAt(room, call);
  return room;
}

void End(void* operation) {
  EndAt(operation);
  ::operator delete (operation, std::align_val_t{64});
}

size_t CallbackCount() {
  const std::lock_guard<std::mutex> lock(at::g_lock);
  return at::All().size();
}

size_t EnabledCount() {
  const std::lock_guard<std::mutex> lock(at::g_lock);
  return static_cast<size_t>(std::count_if(at::All().begin(), at::All().end(),
                                           [](const auto& each) { return each.is_enabled; }));
}

void DelayRegistration(std::atomic<bool>* has_begun) { at::g_delayed.store(has_begun); }

constexpr FakeTorch kFakeTorch = {
    Use, MakeTensor, MakeList, MakeString,    UndefinedTensor, Begin,
    End, BeginAt,    EndAt,    CallbackCount, EnabledCount,    DelayRegistration};

}  // namespace
}  // namespace profd::testing

extern "C" FAKE_TORCH_API const profd::testing::FakeTorch* fake_torch() {
  return &profd::testing::kFakeTorch;
}
