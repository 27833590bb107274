#include "deploy/demo/training.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "deploy/demo/batch_loader.h"
#include "deploy/demo/network.h"
#include "deploy/demo/tensor.h"
#include "profd/profd.hpp"

namespace profd::demo {
namespace {

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

double TrainOneStep(BatchLoader& loader, Network& network, Device* device) {
  static constinit Name loss_name("loss");
  Step();
  Batch batch;
  {
    PROFD_RANGE("data");
    batch = loader.Next();
    if (device != nullptr) device->CopyBatch(batch.inputs.size() * sizeof(float));
  }
  const double loss = network.TrainOn(batch);
  if (device != nullptr) {
    PROFD_RANGE("synchronize");
    device->EndStep();
  }
  Counter(loss_name, loss);
  return loss;
}

void RunSteps(const Options& options, StopSignal& stop, BatchLoader& loader, Network& network,
              Device* device, const std::string& device_note) {
  LossLog log(options);
  for (uint64_t step = 1;; ++step) {
    const auto began = std::chrono::steady_clock::now();
    const double loss = TrainOneStep(loader, network, device);
    if (step == 1) {
      std::printf("ready pid=%d\n", static_cast<int>(getpid()));
      if (!device_note.empty() && !options.quiet) std::printf("%s\n", device_note.c_str());
      std::fflush(stdout);
    }
    log.Add(step, loss);
    if (stop.WaitUntil(began + std::chrono::milliseconds(options.step_ms))) return;
    if (step == options.steps) return;
  }
}

}  // namespace

int Train(const Options& options, const std::string& job, Device* device,
          const std::string& device_note) {
  StopSignal stop;
  Init();
  profd_set_metadata("job", job.c_str());

  TensorPool pool;
  const Dataset dataset(pool, options.seed, options.batch);
  Network network(pool, options.seed, device);
  // Never trained on: the loaders do not get this far.
  const Batch unseen = dataset.Make(UINT64_MAX);
  const double loss_before = network.Evaluate(unseen);
  {
    BatchLoader loader(dataset, options.loaders);
    RunSteps(options, stop, loader, network, device, device_note);
  }
  const double loss_after = network.Evaluate(unseen);
  std::printf("loss on unseen data %.4f before, %.4f after %llu steps%s\n", loss_before, loss_after,
              static_cast<unsigned long long>(profd_step_count()),
              device == nullptr ? "" : " (the GPU is simulated)");
  return loss_after < loss_before ? 0 : kExitLossDidNotFall;
}

}  // namespace profd::demo
