// mlp_train: a small but real training program, instrumented the way one's own would be.
//
//   mlp_train [--steps N] [--step-ms MS] [--batch N] [--loaders N] [--log-every N]
//             [--seed N] [--quiet]
//
// It trains a multilayer perceptron on data that it makes up, and prints its loss. The
// calls to profd here, and in the files it includes, are all that a program needs.
//
// Exit code: 0 if the loss, over data it never trained on, fell; 1 if not; 2 for a wrong
// command line. SIGTERM and SIGINT end it as if the last step had been reached.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "deploy/demo/batch_loader.h"
#include "deploy/demo/network.h"
#include "deploy/demo/tensor.h"
#include "profd/profd.hpp"

namespace profd::demo {
namespace {

constexpr int kExitLossDidNotFall = 1;
constexpr int kExitUsage = 2;
constexpr char kUsage[] =
    "usage: mlp_train [options]\n"
    "  --steps N      train for N steps; 0: until SIGTERM or SIGINT (default 1000)\n"
    "  --step-ms MS   let each step take at least MS milliseconds (default 0)\n"
    "  --batch N      samples per step, 1 to 65536 (default 64)\n"
    "  --loaders N    threads that prepare batches, 1 to 16 (default 2)\n"
    "  --log-every N  print the loss every N steps (default 100)\n"
    "  --seed N       of the data and the initial weights (default 1)\n"
    "  --quiet        do not print the loss while training\n";

struct Options {
  uint64_t steps = 1000;
  uint64_t step_ms = 0;
  uint64_t batch = 64;
  uint64_t loaders = 2;
  uint64_t log_every = 100;
  uint64_t seed = 1;
  bool quiet = false;
  bool help = false;
};

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

// False after saying what is wrong with the command line.
bool ParseOptions(const std::vector<std::string_view>& arguments, Options& options) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--quiet") {
      options.quiet = true;
    } else if (argument == "--help") {
      options.help = true;
    } else if (const Flag* flag = FindFlag(argument); flag == nullptr) {
      std::fprintf(stderr, "mlp_train: unknown option '%.*s'\n%s",
                   static_cast<int>(argument.size()), argument.data(), kUsage);
      return false;
    } else if (++i == arguments.size() || !ParseNumber(*flag, arguments[i], options.*flag->value)) {
      std::fprintf(stderr, "mlp_train: %.*s needs a number from %llu to %llu\n",
                   static_cast<int>(argument.size()), argument.data(),
                   static_cast<unsigned long long>(flag->min),
                   static_cast<unsigned long long>(flag->max));
      return false;
    }
  }
  return true;
}

// SIGTERM and SIGINT, taken when the training loop asks instead of by a handler. Made
// before any thread, so that all threads block them.
class StopSignal {
 public:
  StopSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  // Waits until `deadline`, or for a signal; whether one came.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const int64_t left_ns =
        std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(left).count());
    const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
    return sigtimedwait(&signals_, nullptr, &timeout) > 0;
  }

 private:
  sigset_t signals_;
};

// Prints the loss every so many steps: its mean since the last line.
class LossLog {
 public:
  explicit LossLog(const Options& options) : options_(options) {}

  void Add(uint64_t step, double loss) {
    sum_ += loss;
    ++count_;
    if (count_ < options_.log_every) return;
    if (!options_.quiet) {
      std::printf("step %llu loss %.4f\n", static_cast<unsigned long long>(step),
                  sum_ / static_cast<double>(count_));
      std::fflush(stdout);
    }
    sum_ = 0;
    count_ = 0;
  }

 private:
  const Options& options_;
  double sum_ = 0;
  uint64_t count_ = 0;
};

double TrainOneStep(BatchLoader& loader, Network& network) {
  static constinit Name loss_name("loss");
  Step();
  Batch batch;
  {
    PROFD_RANGE("data");
    batch = loader.Next();
  }
  const double loss = network.TrainOn(batch);
  Counter(loss_name, loss);
  return loss;
}

void Train(const Options& options, StopSignal& stop, BatchLoader& loader, Network& network) {
  LossLog log(options);
  for (uint64_t step = 1;; ++step) {
    const auto began = std::chrono::steady_clock::now();
    log.Add(step, TrainOneStep(loader, network));
    if (step == 1) {
      std::printf("ready pid=%d\n", static_cast<int>(getpid()));
      std::fflush(stdout);
    }
    if (stop.WaitUntil(began + std::chrono::milliseconds(options.step_ms))) return;
    if (step == options.steps) return;
  }
}

int Run(const Options& options) {
  StopSignal stop;
  Init();
  profd_set_metadata("job", "mlp_train");

  TensorPool pool;
  const Dataset dataset(pool, options.seed, options.batch);
  Network network(pool, options.seed);
  // Never trained on: the loaders do not get this far.
  const Batch unseen = dataset.Make(UINT64_MAX);
  const double loss_before = network.Evaluate(unseen);
  {
    BatchLoader loader(dataset, options.loaders);
    Train(options, stop, loader, network);
  }
  const double loss_after = network.Evaluate(unseen);
  std::printf("loss on unseen data %.4f before, %.4f after %llu steps\n", loss_before, loss_after,
              static_cast<unsigned long long>(profd_step_count()));
  return loss_after < loss_before ? 0 : kExitLossDidNotFall;
}

}  // namespace
}  // namespace profd::demo

int main(int argc, char** argv) {
  profd::demo::Options options;
  if (!profd::demo::ParseOptions({argv + 1, argv + argc}, options)) {
    return profd::demo::kExitUsage;
  }
  if (options.help) {
    std::fputs(profd::demo::kUsage, stdout);
    return 0;
  }
  return profd::demo::Run(options);
}
