// The command line that the demo's training programs share.
#ifndef PROFD_DEPLOY_DEMO_OPTIONS_H_
#define PROFD_DEPLOY_DEMO_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd::demo {

inline constexpr int kExitLossDidNotFall = 1;
inline constexpr int kExitUsage = 2;

struct Options {
  uint64_t steps = 1000;
  uint64_t step_ms = 0;
  uint64_t batch = 64;
  uint64_t loaders = 2;
  uint64_t log_every = 100;
  uint64_t seed = 1;
  bool quiet = false;
  std::string cupti_standin;  // Only of programs that take it.
};

// What a program is called, and which of the options that not all have it takes.
struct Program {
  std::string_view name;
  bool takes_cupti_standin;
};

// Without a value the program is to exit with `exit_code`: what was wrong with the command line, or
// the help that it asked for, has been printed.
struct ParsedOptions {
  std::optional<Options> options;
  int exit_code = 0;
};
ParsedOptions ParseOptions(const Program& program, const std::vector<std::string_view>& arguments);

}  // namespace profd::demo

#endif  // PROFD_DEPLOY_DEMO_OPTIONS_H_
