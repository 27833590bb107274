#include "daemon/report/ranks/kernel_notes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/status_macros.h"

namespace profd::report {
namespace {

// As torch writes the arguments.
constexpr std::string_view kNameKey = "Collective name";
constexpr std::string_view kTypeKey = "dtype";
constexpr std::string_view kElementsKey = "In msg nelems";
constexpr std::string_view kSizeKey = "Group size";
constexpr std::string_view kGroupKey = "Process Group Name";
constexpr std::string_view kDescriptionKey = "Process Group Description";

struct ToldByKernel {
  std::string name;
  std::string type;
  std::string group;
  std::string description;
  int64_t elements = -1;
  int64_t group_size = 0;
};

std::string WithoutQuotes(std::string_view json) {
  const bool is_text = json.size() >= 2 && json.starts_with('"') && json.ends_with('"');
  return std::string(is_text ? json.substr(1, json.size() - 2) : json);
}

std::optional<int64_t> IntegerIn(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole ? std::optional(value) : std::nullopt;
}

void AddTold(std::string_view key, const std::string& text, ToldByKernel& told) {
  if (key == kNameKey) told.name = text;
  if (key == kTypeKey) told.type = text;
  if (key == kGroupKey) told.group = text;
  if (key == kDescriptionKey) told.description = text;
  if (key == kElementsKey) told.elements = IntegerIn(text).value_or(-1);
  if (key == kSizeKey) told.group_size = IntegerIn(text).value_or(0);
}

KernelNote NoteOf(const ToldByKernel& told) {
  KernelNote note = {.kind = CollectiveKindOf(told.name)};
  // Only names that the notes of operators may have, too.
  const std::string text = GroupText(told.group, told.description);
  const GroupNames names = GroupNamesOf(text);
  note.communicator = {.size = std::max<int64_t>(told.group_size, 0),
                       .id = std::string(names.id),
                       .name = std::string(names.name)};
  if (told.elements < 0) return note;
  const FirstInputSize size = SizeOfFirstInput(InputsOfTold(told.elements, told.type));
  note.elements = size.elements.value_or(-1);
  note.bytes = size.bytes.value_or(-1);
  return note;
}

}  // namespace

absl::StatusOr<absl::flat_hash_map<uint32_t, KernelNote>> ReadKernelNotes(
    store::CaptureReader& reader, std::span<const uint32_t> kernels) {
  absl::flat_hash_map<uint32_t, KernelNote> notes;
  const std::span<const std::string> names = reader.names();
  std::vector<bool> is_key;
  bool has_key = false;
  for (const std::string& name : names) {
    is_key.push_back(name == kNameKey || name == kTypeKey || name == kElementsKey ||
                     name == kSizeKey || name == kGroupKey || name == kDescriptionKey);
    has_key |= name == kNameKey;
  }
  if (!has_key || kernels.empty()) return notes;
  absl::flat_hash_map<uint32_t, ToldByKernel> told;
  for (const uint32_t kernel : kernels) told.try_emplace(kernel);
  RETURN_IF_ERROR(reader.ForEach<ArgumentRow>([&](const ArgumentBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.of[i] != kArgumentOfGpu || !is_key[batch.key[i]]) continue;
      const auto found = told.find(batch.row[i]);
      if (found == told.end()) continue;
      const auto type = static_cast<ArgumentType>(batch.type[i]);
      const std::string& key = names[batch.key[i]];
      if (type == ArgumentType::kJson) {
        const auto text = static_cast<uint64_t>(batch.value[i]);
        if (text < names.size()) AddTold(key, WithoutQuotes(names[text]), found->second);
      } else if (type == ArgumentType::kInteger || type == ArgumentType::kQuotedInteger) {
        AddTold(key, std::to_string(batch.value[i]), found->second);
      }
    }
    return absl::OkStatus();
  }));
  for (const auto& [kernel, of_kernel] : told) {
    if (!of_kernel.name.empty()) notes.emplace(kernel, NoteOf(of_kernel));
  }
  return notes;
}

}  // namespace profd::report
