#include "tests/cupti_standin/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sgpu {
namespace {

struct SettingName {
  std::string_view key;
  std::atomic<int64_t> Settings::*value;
};
constexpr SettingName kSettingNames[] = {
#define SGPU_SETTING(name, value) {#name, &Settings::name},
    SGPU_SETTINGS(SGPU_SETTING)
#undef SGPU_SETTING
};

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return number;
}

void ReadEnvironment(Settings& values) {
  for (const SettingName& setting : kSettingNames) {
    std::string variable = "SGPU_";
    for (const char c : setting.key) {
      variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    const char* const text = std::getenv(variable.c_str());
    if (text == nullptr) continue;
    if (const auto number = ParseNumber<int64_t>(text)) {
      values.*setting.value = *number;
    } else {
      std::fprintf(stderr, "sgpu: %s is not a number: '%s'\n", variable.c_str(), text);
    }
  }
}

struct Failure {
  std::string function;
  uint32_t argument = kNoArgument;
  uint64_t nth = 0;  // 0: every call.
  uint32_t result = 0;
  uint64_t calls = 0;
};

// FUNCTION[:ARGUMENT][@N]=RESULT
std::optional<Failure> ParseFailure(std::string_view text) {
  Failure failure;
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto result = ParseNumber<uint32_t>(text.substr(equals + 1));
  if (!result) return std::nullopt;
  failure.result = *result;
  text = text.substr(0, equals);
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    const auto nth = ParseNumber<uint64_t>(text.substr(at + 1));
    if (!nth || *nth == 0) return std::nullopt;
    failure.nth = *nth;
    text = text.substr(0, at);
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const auto argument = ParseNumber<uint32_t>(text.substr(colon + 1));
    if (!argument) return std::nullopt;
    failure.argument = *argument;
    text = text.substr(0, colon);
  }
  if (!text.starts_with("cupti")) return std::nullopt;
  failure.function = text;
  return failure;
}

struct Failures {
  std::mutex mu;
  std::vector<Failure> list;  // Guarded by mu.
  std::atomic<bool> any{false};
};

Failures& failures() {
  static Failures* const failures = new Failures;
  return *failures;
}

void ReadFailuresOnce() {
  static const bool read = [] {
    const char* const spec = std::getenv("SGPU_FAIL");
    if (spec != nullptr && !SetFailures(spec)) {
      std::fprintf(stderr, "sgpu: SGPU_FAIL cannot be read: '%s'\n", spec);
    }
    return true;
  }();
  static_cast<void>(read);
}

}  // namespace

// Never destroyed: the library's threads may outlive main().
Settings& settings() {
  static Settings* const values = [] {
    auto* const made = new Settings;
    ReadEnvironment(*made);
    return made;
  }();
  return *values;
}

bool ChangeSetting(const char* key, const char* value) {
  if (key == nullptr || value == nullptr) return false;
  for (const SettingName& setting : kSettingNames) {
    if (setting.key != key) continue;
    const auto number = ParseNumber<int64_t>(value);
    if (!number) return false;
    settings().*setting.value = *number;
    return true;
  }
  return false;
}

void ResetSettings() {
  static const Settings defaults;
  for (const SettingName& setting : kSettingNames) {
    settings().*setting.value = (defaults.*setting.value).load();
  }
  ReadEnvironment(settings());
  SetFailures("");
}

bool SetFailures(const char* spec) {
  if (spec == nullptr) return false;
  std::vector<Failure> list;
  for (std::string_view rest = spec; !rest.empty();) {
    const size_t end = std::min(rest.find(';'), rest.size());
    if (end > 0) {
      std::optional<Failure> failure = ParseFailure(rest.substr(0, end));
      if (!failure) return false;
      list.push_back(std::move(*failure));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Failures& all = failures();
  const std::lock_guard lock(all.mu);
  all.any = !list.empty();
  all.list = std::move(list);
  return true;
}

CUptiResult FailureOf(const char* function, uint32_t argument) {
  ReadFailuresOnce();
  Failures& all = failures();
  if (!all.any.load(std::memory_order_relaxed)) return CUPTI_SUCCESS;
  const std::lock_guard lock(all.mu);
  CUptiResult result = CUPTI_SUCCESS;
  for (Failure& failure : all.list) {
    if (failure.function != function) continue;
    if (failure.argument != kNoArgument && failure.argument != argument) continue;
    ++failure.calls;
    if (failure.nth == 0 || failure.calls == failure.nth) {
      result = static_cast<CUptiResult>(failure.result);
    }
  }
  return result;
}

}  // namespace sgpu
