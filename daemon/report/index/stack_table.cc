#include "daemon/report/index/stack_table.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "proto/wire/event.h"

namespace profd::report {

absl::StatusOr<StackTable> StackTable::Build(store::CaptureReader& reader) {
  StackTable table;
  table.names_ = reader.names();
  table.stacks_.emplace_back();
  absl::flat_hash_set<
      std::tuple<uint64_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, bool>>
      calls;
  RETURN_IF_ERROR(reader.ForEach<StackRow>([&](const StackBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      // A hostile file may name a caller that comes later: there are no circles.
      const bool is_known = batch.caller[i] < table.stacks_.size();
      Stack& stack = table.stacks_.emplace_back(Stack{.module = batch.module[i],
                                                      .caller = is_known ? batch.caller[i] : 0,
                                                      .file = batch.file[i],
                                                      .function = batch.function[i],
                                                      .line = batch.line[i],
                                                      .first_line = batch.first_line[i],
                                                      .class_name = batch.class_name[i]});
      if (stack.module == 0) continue;
      stack.is_again =
          !calls
               .emplace(stack.module, stack.caller, stack.file, stack.function, stack.line,
                        stack.first_line, stack.class_name, batch.is_cut[i])
               .second;
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.ForEach<ModuleRow>([&table](const ModuleBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      table.modules_[batch.address[i]] = {
          .root = batch.root[i], .path = batch.path[i], .class_name = batch.class_name[i]};
      // Imports know no roots.
      if (batch.root[i] == 0) table.numbered_[table.names_[batch.class_name[i]]] = batch.path[i];
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(table.FindSources(reader));
  // Only of modules that ran: a program may hold models that it does not use.
  uint64_t model = 0;
  for (const Stack& stack : table.stacks_) {
    const auto module = table.modules_.find(stack.module);
    if (stack.module == 0 || module == table.modules_.end()) continue;
    table.has_several_models_ |= model != 0 && module->second.root != model;
    model = module->second.root;
  }
  return table;
}

absl::Status StackTable::FindSources(store::CaptureReader& reader) {
  if (empty()) return absl::OkStatus();
  struct Range {
    int64_t first_line;
    uint32_t source;
  };
  absl::flat_hash_map<std::string_view, std::vector<Range>> files;
  RETURN_IF_ERROR(reader.ForEach<NoteRow>([&](const NoteBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kGeneratedCode)) continue;
      files[names_[batch.subject[i]]].push_back({batch.value[i], batch.text[i]});
    }
    return absl::OkStatus();
  }));
  if (files.empty()) return absl::OkStatus();
  for (auto& [file, ranges] : files) std::ranges::stable_sort(ranges, {}, &Range::first_line);
  for (Stack& stack : stacks_) {
    if (stack.file == 0 || stack.line == 0) continue;
    const auto file = files.find(names_[stack.file]);
    if (file == files.end()) continue;
    const auto after =
        std::ranges::upper_bound(file->second, int64_t{stack.line}, {}, &Range::first_line);
    if (after != file->second.begin()) stack.source = std::prev(after)->source;
  }
  return absl::OkStatus();
}

std::string StackTable::NameOf(const Stack& stack) const {
  const auto module = modules_.find(stack.module);
  const std::string& class_name = names_[stack.class_name];
  // After another one was at that address its class tells them apart, most of the time.
  if (module == modules_.end() || names_[module->second.class_name] != class_name) {
    return class_name;
  }
  if (module->second.path == 0) return class_name;
  const std::string& path = names_[module->second.path];
  const auto root = modules_.find(module->second.root);
  if (!has_several_models_ || root == modules_.end()) return path;
  return StrCat(names_[root->second.class_name], ": ", path);
}

std::string StackTable::NameOfNumbered(std::string_view class_and_number) const {
  const auto at = numbered_.find(class_and_number);
  return at == numbered_.end() ? "" : names_[at->second];
}

std::string StackTable::ModuleOf(uint32_t stack) const {
  while (stack != 0 && stack < stacks_.size()) {
    if (stacks_[stack].module != 0) return NameOf(stacks_[stack]);
    stack = stacks_[stack].caller;
  }
  return "";
}

std::string StackTable::LineOf(const Stack& stack) const {
  if (stack.file == 0) return names_[stack.function];
  if (stack.line == 0) return StrCat(names_[stack.file], ": ", names_[stack.function]);
  return StrCat(names_[stack.file], "(", stack.line, "): ", names_[stack.function]);
}

std::string StackTable::SourceOf(uint32_t stack) const {
  if (stack == 0 || stack >= stacks_.size()) return "";
  for (uint32_t at = stack; at != 0; at = stacks_[at].caller) {
    if (stacks_[at].source != 0) return names_[stacks_[at].source];
    if (!IsLibrary(names_[stacks_[at].file])) return LineOf(stacks_[at]);
  }
  return LineOf(stacks_[stack]);
}

std::string StackTable::TextOf(uint32_t stack, size_t frames) const {
  std::string text;
  const auto add = [&text, &frames](std::string_view line) {
    if (frames == 0) return;
    StrAppend(&text, text.empty() ? "" : kCallerSeparator, line);
    --frames;
  };
  for (; frames > 0 && stack != 0 && stack < stacks_.size(); stack = stacks_[stack].caller) {
    if (const std::string_view source = GeneratedFrom(stacks_[stack]); !source.empty()) add(source);
    add(LineOf(stacks_[stack]));
  }
  return text;
}

StackTable::Parts StackTable::PartsOf(std::string_view line) {
  const size_t end = line.rfind("): ");
  const size_t begin = end == line.npos ? line.npos : line.rfind('(', end);
  Parts parts = {.function = line};
  if (begin == line.npos) return parts;
  uint32_t number = 0;
  const char* const last = line.data() + end;
  const auto [stop, error] = std::from_chars(line.data() + begin + 1, last, number);
  if (error != std::errc() || stop != last) return parts;
  return {.file = line.substr(0, begin), .line = number, .function = line.substr(end + 3)};
}

std::string_view StackTable::ShortLine(std::string_view line) {
  const size_t folder = line.substr(0, line.rfind("): ")).rfind('/');
  return folder == line.npos ? line : line.substr(folder + 1);
}

std::string StackTable::ColonLine(std::string_view line) {
  line = ShortLine(line);
  const size_t end = line.rfind("): ");
  const size_t begin = end == line.npos ? line.npos : line.rfind('(', end);
  if (begin == line.npos) return std::string(line);
  return StrCat(line.substr(0, begin), ":", line.substr(begin + 1, end - begin - 1), " ",
                line.substr(end + 3));
}

// The files of live captures have whole names, those of torch.profiler begin in the folder of a
// package. A user's folder may be called torch, too.
bool StackTable::IsLibrary(std::string_view file) {
  if (file.empty() || file.starts_with("<frozen ")) return true;
  for (const std::string_view packages : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = file.find(packages);
    if (at == file.npos) continue;
    const std::string_view package = file.substr(at + packages.size());
    return package.starts_with("torch/") || package.starts_with("profd/");
  }
  return file.starts_with("torch/") || file.find("/lib/python3.") != file.npos;
}

}  // namespace profd::report
