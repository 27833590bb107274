#include "deploy/demo/options.h"

#include <charconv>
#include <cstdio>

namespace profd::demo {
namespace {

constexpr char kUsage[] =
    "  --steps N      train for N steps; 0: until SIGTERM or SIGINT (default 1000)\n"
    "  --step-ms MS   let each step take at least MS milliseconds (default 0)\n"
    "  --batch N      samples per step, 1 to 65536 (default 64)\n"
    "  --loaders N    threads that prepare batches, 1 to 16 (default 2)\n"
    "  --log-every N  print the loss every N steps (default 100)\n"
    "  --seed N       of the data and the initial weights (default 1)\n"
    "  --quiet        do not print the loss while training\n";
constexpr char kStandinUsage[] =
    "  --cupti-standin PATH\n"
    "                 the libcupti with the simulated GPU; default: PROFD_CUPTI_LIB, else\n"
    "                 ../lib/cupti_standin/13.0/libcupti.so.13 next to the program\n";

struct Flag {
  std::string_view name;
  uint64_t Options::*value;
  uint64_t min;
  uint64_t max;
};
constexpr Flag kFlags[] = {
    {"--steps", &Options::steps, 0, UINT64_MAX},
    {"--step-ms", &Options::step_ms, 0, 3'600'000},
    {"--batch", &Options::batch, 1, 65536},
    {"--loaders", &Options::loaders, 1, 16},
    {"--log-every", &Options::log_every, 1, UINT64_MAX},
    {"--seed", &Options::seed, 0, UINT64_MAX},
};

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

bool ParseNumber(const Flag& flag, std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= flag.min &&
         value <= flag.max;
}

void PrintUsage(const Program& program, std::FILE* to) {
  std::fprintf(to, "usage: %.*s [options]\n%s%s", static_cast<int>(program.name.size()),
               program.name.data(), kUsage, program.takes_cupti_standin ? kStandinUsage : "");
}

// "PROGRAM: " on stderr, for what follows.
void PrintProgram(const Program& program) {
  std::fprintf(stderr, "%.*s: ", static_cast<int>(program.name.size()), program.name.data());
}

}  // namespace

ParsedOptions ParseOptions(const Program& program, const std::vector<std::string_view>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--quiet") {
      options.quiet = true;
    } else if (argument == "--help") {
      PrintUsage(program, stdout);
      return {};
    } else if (argument == "--cupti-standin" && program.takes_cupti_standin) {
      if (++i == arguments.size()) {
        PrintProgram(program);
        std::fprintf(stderr, "--cupti-standin needs a path\n");
        return {std::nullopt, kExitUsage};
      }
      options.cupti_standin = arguments[i];
    } else if (const Flag* flag = FindFlag(argument); flag == nullptr) {
      PrintProgram(program);
      std::fprintf(stderr, "unknown option '%.*s'\n", static_cast<int>(argument.size()),
                   argument.data());
      PrintUsage(program, stderr);
      return {std::nullopt, kExitUsage};
    } else if (++i == arguments.size() || !ParseNumber(*flag, arguments[i], options.*flag->value)) {
      PrintProgram(program);
      std::fprintf(stderr, "%.*s needs a number from %llu to %llu\n",
                   static_cast<int>(argument.size()), argument.data(),
                   static_cast<unsigned long long>(flag->min),
                   static_cast<unsigned long long>(flag->max));
      return {std::nullopt, kExitUsage};
    }
  }
  return {options, 0};
}

}  // namespace profd::demo
