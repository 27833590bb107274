#include "client_lib/torch/tensor_layout.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/safe_memory.h"
#include "proto/wire/event.h"

namespace profd::client::torch {
namespace {

constexpr size_t kTensorBytes = 256;  // More than any release's TensorImpl up to its type.
constexpr size_t kStorageBytes = 64;  // Of StorageImpl, ListImpl and ConstantString: their start.
constexpr size_t kSizesBytes = 8 + 2 * 8 * kInlineRank;  // Rank, sizes, strides.
constexpr size_t kTypeReach = 64;  // How far after the sizes the type is, at most.
constexpr uint8_t kScopeFunction = 0;

// What the probe's tensors are made of; see torch_api.h.
constexpr uint64_t kShape[] = {1237, 3, 5};
constexpr uint64_t kStrides[] = {15, 5, 1};
constexpr uint64_t kDeepShape[] = {3, 5, 1237, 1, 2, 1, 1};
constexpr uint64_t kDeepStrides[] = {12370, 2474, 2, 2, 1, 1, 1};
constexpr uint64_t kDeepRank = sizeof(kDeepShape) / 8;
constexpr uint16_t kFloatType = 6;  // c10::ScalarType
constexpr uint16_t kLongType = 4;

// The start of a TensorImpl.
struct Image {
  uint8_t bytes[kTensorBytes];
  size_t size;
};

bool Take(SafeMemory* memory, const void* tensor, Image* image) {
  // The object may end where its page does.
  for (size_t size = kTensorBytes; size >= 192; size -= 16) {
    if (memory->Read(tensor, image->bytes, size)) {
      image->size = size;
      return true;
    }
  }
  return false;
}

bool HasWords(const uint8_t* bytes, const uint64_t* words, size_t count) {
  return memcmp(bytes, words, count * 8) == 0;
}

uint16_t HalfAt(const uint8_t* bytes, size_t at) {
  uint16_t half;
  memcpy(&half, bytes + at, sizeof(half));
  return half;
}

struct Images {
  Image real;   // float32
  Image whole;  // int64
  Image deep;
};

bool HasShapeAt(const Image& image, size_t at) {
  return at + kSizesBytes <= image.size && WordAt(image.bytes, at) == 3 &&
         HasWords(image.bytes + at + 8, kShape, 3);
}

// Rank and sizes: the only place where both tensors of the known shape have it.
void FindSizes(const Images& images, TensorLayout* layout) {
  int32_t found = kNowhere;
  for (size_t at = 0; at + kSizesBytes <= kTensorBytes; at += 8) {
    if (!HasShapeAt(images.real, at) || !HasShapeAt(images.whole, at)) continue;
    if (found != kNowhere) return;
    found = static_cast<int32_t>(at);
  }
  if (found == kNowhere) return;
  layout->rank = found;
  const size_t strides = static_cast<size_t>(found) + 8 + 8 * kInlineRank;
  layout->knows_strides = HasWords(images.real.bytes + strides, kStrides, 3) &&
                          HasWords(images.whole.bytes + strides, kStrides, 3);
}

void FindHighRanks(SafeMemory* memory, const Images& images, TensorLayout* layout) {
  const auto at = static_cast<size_t>(layout->rank);
  uint64_t words[2 * kDeepRank];
  if (at + 16 > images.deep.size || WordAt(images.deep.bytes, at) != kDeepRank ||
      !memory->Read(WordAt(images.deep.bytes, at + 8), words, sizeof(words))) {
    return;
  }
  layout->knows_high_ranks = memcmp(words, kDeepShape, sizeof(kDeepShape)) == 0 &&
                             (!layout->knows_strides ||
                              memcmp(words + kDeepRank, kDeepStrides, sizeof(kDeepStrides)) == 0);
}

// The type, after the sizes: the only half-word that is float's number in the two tensors that
// are float, and long's in the other.
void FindType(const Images& images, TensorLayout* layout) {
  const size_t from = static_cast<size_t>(layout->rank) + kSizesBytes;
  int32_t found = kNowhere;
  for (size_t at = from; at < from + kTypeReach; at += 2) {
    if (at + 2 > images.real.size || at + 2 > images.whole.size || at + 2 > images.deep.size) break;
    if (HalfAt(images.real.bytes, at) != kFloatType ||
        HalfAt(images.whole.bytes, at) != kLongType ||
        HalfAt(images.deep.bytes, at) != kFloatType) {
      continue;
    }
    if (found != kNowhere) return;
    found = static_cast<int32_t>(at);
  }
  layout->dtype = found;
}

// The offset at which what `pointer` leads to has `data`; kNowhere: it has not, or twice.
int32_t FindData(SafeMemory* memory, uint64_t pointer, const void* data) {
  uint8_t bytes[kStorageBytes];
  if (pointer == 0 || !memory->Read(pointer, bytes, sizeof(bytes))) return kNowhere;
  int32_t found = kNowhere;
  for (size_t at = 0; at + 8 <= sizeof(bytes); at += 8) {
    if (WordAt(bytes, at) != reinterpret_cast<uint64_t>(data)) continue;
    // Of a storage's pointer and the context that frees it, which may be the same, the first.
    if (found == kNowhere) found = static_cast<int32_t>(at);
  }
  return found;
}

void FindStorage(SafeMemory* memory, const profd_torch_probe& probe, const Images& images,
                 TensorLayout* layout) {
  int32_t storage = kNowhere;
  int32_t data = kNowhere;
  for (size_t at = 0; at < static_cast<size_t>(layout->rank); at += 8) {
    const int32_t real = FindData(memory, WordAt(images.real.bytes, at), probe.float_data);
    if (real == kNowhere ||
        FindData(memory, WordAt(images.whole.bytes, at), probe.long_data) != real ||
        FindData(memory, WordAt(images.deep.bytes, at), probe.deep_data) != real) {
      continue;
    }
    if (storage != kNowhere) return;
    storage = static_cast<int32_t>(at);
    data = real;
  }
  layout->storage = storage;
  layout->data = data;
}

void LookAtTensors(const profd_torch_probe& probe, TensorLayout* layout) {
  SafeMemory memory;
  Images images;
  if (!Take(&memory, probe.float_tensor, &images.real) ||
      !Take(&memory, probe.long_tensor, &images.whole) ||
      !Take(&memory, probe.deep_tensor, &images.deep)) {
    return;
  }
  FindSizes(images, layout);
  if (layout->rank == kNowhere) return;
  FindHighRanks(&memory, images, layout);
  FindType(images, layout);
  FindStorage(&memory, probe, images, layout);
}

// ---- Operators on the probe's tensors.

// What the observed thread has shown so far. One word of the masks per 8 bytes of RecordFunction.
struct Observation {
  profd_torch_probe probe;
  const TorchLibrary* library;
  TensorLayout layout;
  size_t inputs_limit;
  uint64_t inputs_mask;  // Where the inputs may be, by the operators seen.
  bool tags_disagree;
  uint64_t handle;
};
constexpr size_t kPlaces = kRecordFunctionBytes / 8;
static_assert(kPlaces == 64);

constinit Observation g_seen{};
constinit std::atomic<bool> g_is_probing{false};
// Whether the calling thread is the one that probes.
__thread bool t_is_observed __attribute__((tls_model("initial-exec"))) = false;

// Notes that torch has `tag` for what `known` stands for.
void Learn(uint32_t tag, uint32_t* known) {
  if (*known != kNoTag && *known != tag) g_seen.tags_disagree = true;
  *known = tag;
}

bool IsTensor(const IValue& value, const void* tensor) {
  return value.payload == reinterpret_cast<uint64_t>(tensor);
}

bool IsInt(const IValue& value, uint64_t number) { return value.payload == number; }

// Where in the list at `address` its items' addresses are, if those are `count` and `fits` them.
template <typename Fits>
int32_t FindItems(SafeMemory* memory, uint64_t address, size_t count, const Fits& fits) {
  uint8_t bytes[kStorageBytes];
  IValue items[2];
  if (!memory->Read(address, bytes, sizeof(bytes))) return kNowhere;
  int32_t found = kNowhere;
  for (size_t at = 8; at + 16 <= sizeof(bytes); at += 8) {
    const uint64_t first = WordAt(bytes, at);
    if (WordAt(bytes, at + 8) - first != count * sizeof(IValue) ||
        !memory->Read(first, items, count * sizeof(IValue)) || !fits(items)) {
      continue;
    }
    if (found != kNowhere) return kNowhere;
    found = static_cast<int32_t>(at);
  }
  return found;
}

// An operator of the probe: what its inputs are known by, and what they tell then.
struct ProbeOperator {
  uint32_t input_count;
  bool (*is_it)(SafeMemory* memory, const IValue* inputs);
  void (*learn)(SafeMemory* memory, const IValue* inputs);
};
constexpr uint32_t kMostProbeInputs = 4;

int32_t FindTensorItems(SafeMemory* memory, const IValue& list) {
  return FindItems(memory, list.payload, 2, [](const IValue* items) {
    return IsTensor(items[0], g_seen.probe.float_tensor) &&
           IsTensor(items[1], g_seen.probe.long_tensor) && items[0].tag == items[1].tag;
  });
}

bool IsCat(SafeMemory* memory, const IValue* inputs) {
  return IsInt(inputs[1], 1) && FindTensorItems(memory, inputs[0]) != kNowhere;
}

void LearnCat(SafeMemory* memory, const IValue* inputs) {
  TensorLayout& layout = g_seen.layout;
  layout.items = FindTensorItems(memory, inputs[0]);
  Learn(inputs[0].tag, &layout.list_tag);
  Learn(inputs[1].tag, &layout.int_tag);
}

uint64_t BitsOf(double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof(bits));
  return bits;
}

bool IsClamp(SafeMemory*, const IValue* inputs) {
  return IsTensor(inputs[0], g_seen.probe.float_tensor) && inputs[1].payload == BitsOf(0.25) &&
         IsInt(inputs[2], 7);
}

void LearnClamp(SafeMemory*, const IValue* inputs) {
  TensorLayout& layout = g_seen.layout;
  Learn(inputs[0].tag, &layout.tensor_tag);
  Learn(inputs[1].tag, &layout.double_tag);
  Learn(inputs[2].tag, &layout.int_tag);
}

bool IsSum(SafeMemory* memory, const IValue* inputs) {
  const auto is_one = [](const IValue* items) { return IsInt(items[0], 1); };
  return IsTensor(inputs[0], g_seen.probe.float_tensor) && (inputs[2].payload & 0xff) == 1 &&
         FindItems(memory, inputs[1].payload, 1, is_one) != kNowhere;
}

void LearnSum(SafeMemory*, const IValue* inputs) {
  TensorLayout& layout = g_seen.layout;
  Learn(inputs[0].tag, &layout.tensor_tag);
  Learn(inputs[1].tag, &layout.list_tag);
  Learn(inputs[2].tag, &layout.bool_tag);
  Learn(inputs[3].tag, &layout.none_tag);
}

// Where in the string at `address` the address of the text "floor" is.
int32_t FindText(SafeMemory* memory, uint64_t address, bool* is_old) {
  constexpr char kText[] = "floor";
  constexpr uint64_t kLength = sizeof(kText) - 1;
  uint8_t bytes[kStorageBytes];
  if (!memory->Read(address, bytes, sizeof(bytes))) return kNowhere;
  for (size_t at = 8; at + 16 <= sizeof(bytes); at += 8) {
    const uint64_t text = WordAt(bytes, at);
    if (!memory->IsText(text, kText)) continue;
    uint64_t length = 0;
    *is_old = memory->Read(text - 24, &length, sizeof(length)) && length == kLength &&
              WordAt(bytes, at + 8) != kLength;
    if (*is_old || WordAt(bytes, at + 8) == kLength) return static_cast<int32_t>(at);
  }
  return kNowhere;
}

bool IsDiv(SafeMemory* memory, const IValue* inputs) {
  bool is_old;
  return IsTensor(inputs[0], g_seen.probe.float_tensor) &&
         IsTensor(inputs[1], g_seen.probe.long_tensor) &&
         FindText(memory, inputs[2].payload, &is_old) != kNowhere;
}

void LearnDiv(SafeMemory* memory, const IValue* inputs) {
  TensorLayout& layout = g_seen.layout;
  layout.text = FindText(memory, inputs[2].payload, &layout.has_old_strings);
  Learn(inputs[0].tag, &layout.tensor_tag);
  Learn(inputs[1].tag, &layout.tensor_tag);
  Learn(inputs[2].tag, &layout.string_tag);
}

// In no table: its addresses would have to be written by the loader at each start.
bool FindProbeOperator(const char* name, ProbeOperator* found) {
  const auto is = [&](const char* known, uint32_t count, auto* is_it, auto* learn) {
    if (strcmp(name, known) != 0) return false;
    *found = {count, is_it, learn};
    return true;
  };
  return is("aten::cat", 2, IsCat, LearnCat) || is("aten::clamp", 3, IsClamp, LearnClamp) ||
         is("aten::sum", 4, IsSum, LearnSum) || is("aten::div", 3, IsDiv, LearnDiv);
}

void LookAt(const void* record_function) {
  ProbeOperator probe_operator;
  if (!FindProbeOperator(g_seen.library->name(record_function), &probe_operator) ||
      g_seen.library->input_count(record_function) != probe_operator.input_count) {
    return;
  }
  SafeMemory memory;
  uint8_t bytes[kRecordFunctionBytes] = {};
  size_t size = kRecordFunctionBytes;
  while (size >= 256 && !memory.Read(record_function, bytes, size)) size -= 64;
  if (size < 256) return;
  uint64_t mask = 0;
  IValue inputs[kMostProbeInputs];
  IValue candidates[kMostProbeInputs];
  if (size > g_seen.inputs_limit) size = g_seen.inputs_limit;
  for (size_t place = 0; (place + 2) * 8 <= size; ++place) {
    if (WordAt(bytes, (place + 1) * 8) != probe_operator.input_count ||
        !memory.Read(WordAt(bytes, place * 8), candidates,
                     probe_operator.input_count * sizeof(IValue)) ||
        !probe_operator.is_it(&memory, candidates)) {
      continue;
    }
    mask |= uint64_t{1} << place;
    memcpy(inputs, candidates, sizeof(inputs));
  }
  // Another operator of that name, inside of the one that Python ran.
  if (mask == 0) return;
  g_seen.inputs_mask &= mask;
  probe_operator.learn(&memory, inputs);
}

CallbackContext OnProbedOperator(const void* record_function) {
  if (t_is_observed) LookAt(record_function);
  return {};
}

void OnProbedOperatorEnd(const void*, void*) {}

// Every tag stands for one thing.
bool TagsAreDistinct(const TensorLayout& layout) {
  const uint32_t tags[] = {layout.tensor_tag, layout.double_tag, layout.int_tag,   layout.bool_tag,
                           layout.none_tag,   layout.list_tag,   layout.string_tag};
  constexpr size_t kCount = sizeof(tags) / sizeof(tags[0]);
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t j = i + 1; j < kCount; ++j) {
      if (tags[i] == tags[j] && tags[i] != kNoTag) return false;
    }
  }
  return true;
}

uint32_t FeaturesOf(const TensorLayout& layout) {
  if (layout.inputs == kNowhere || layout.tensor_tag == kNoTag) return 0;
  uint32_t features = wire::kTorchInputs;
  if (layout.rank != kNowhere && layout.dtype != kNowhere) {
    features |= wire::kTorchShapes;
    if (layout.knows_strides) features |= wire::kTorchStrides;
    if (layout.storage != kNowhere) features |= wire::kTorchStorages;
  }
  if (layout.items != kNowhere && layout.list_tag != kNoTag) features |= wire::kTorchLists;
  if (layout.double_tag != kNoTag && layout.int_tag != kNoTag && layout.bool_tag != kNoTag) {
    features |= wire::kTorchScalars;
  }
  if (layout.text != kNowhere && layout.string_tag != kNoTag) features |= wire::kTorchStrings;
  return features;
}

}  // namespace

namespace tensor_probe {

bool Begin(const TorchLibrary& library, const RecordFunctionLayout& record_function,
           const profd_torch_probe& probe) {
  if (probe.size_bytes != sizeof(probe)) return false;
  if (g_is_probing.exchange(true)) return false;
  g_seen.probe = probe;
  g_seen.library = &library;
  // After it nothing of the inputs is, but what the caller has on its stack may be.
  g_seen.inputs_limit = record_function.forward_thread != kNowhere
                            ? static_cast<size_t>(record_function.forward_thread)
                            : kRecordFunctionBytes;
  g_seen.layout = {};
  g_seen.layout.undefined_tensor = library.undefined_tensor;
  g_seen.inputs_mask = ~uint64_t{0};
  g_seen.tags_disagree = false;
  LookAtTensors(probe, &g_seen.layout);
  t_is_observed = true;
  RecordFunctionCallback callback{};
  callback.start = OnProbedOperator;
  callback.end = OnProbedOperatorEnd;
  callback.sampling_probability = 1.0;
  callback.scopes[kScopeFunction] = 1;
  callback.needs_inputs = 1;
  g_seen.handle = library.add_callback(callback);
  return true;
}

bool End(TensorLayout* layout, uint32_t* features) {
  if (!t_is_observed) return false;
  t_is_observed = false;
  g_seen.library->remove_callback(g_seen.handle);
  const uint64_t mask = g_seen.inputs_mask;
  const bool is_one_place = mask != 0 && (mask & (mask - 1)) == 0;
  const bool is_sound = is_one_place && !g_seen.tags_disagree && TagsAreDistinct(g_seen.layout);
  if (is_sound) g_seen.layout.inputs = 8 * __builtin_ctzll(mask);
  *layout = g_seen.layout;
  *features = FeaturesOf(*layout);
  g_is_probing.store(false);
  return true;
}

}  // namespace tensor_probe
}  // namespace profd::client::torch
