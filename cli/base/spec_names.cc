#include "cli/base/spec_names.h"

#include <utility>

#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"display_name", "--name"},
    {"duration", "--duration"},
    {"gpu.buffer_bytes", "--gpu-buffer"},
    {"gpu.max_records", "--gpu-max-records"},
    {"label key", "--label: the key"},
    {"max_bytes", "--max-bytes"},
    {"memory_bytes", "--buffer"},
    {"start_step", "--start-step"},
    {"step_marker", "--step-marker"},
    {"steps", "--steps"},
    {"timeout", "--timeout"},
    {"warmup_steps", "--warmup"},
    {"wait_steps", "--wait"}};

}  // namespace

std::string InNamesOfFlags(std::string_view message) {
  for (const auto& [field, flag] : kFlags) {
    if (!message.starts_with(field)) continue;
    const std::string_view rest = message.substr(field.size());
    if (rest.starts_with(' ')) return StrCat(flag, rest);
  }
  return std::string(message);
}

}  // namespace profd::cli
