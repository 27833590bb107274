// mlp_train: a small but real training program, instrumented the way one's own would be.
//
//   mlp_train [--steps N] [--step-ms MS] [--batch N] [--loaders N] [--log-every N]
//             [--seed N] [--quiet]
//
// It trains a multilayer perceptron on data that it makes up, and prints its loss. The
// calls to profd in the files it includes (training.cc first) are all that a program needs.
//
// Exit code: 0 if the loss, over data it never trained on, fell; 1 if not; 2 for a wrong
// command line. SIGTERM and SIGINT end it as if the last step had been reached.
#include "deploy/demo/options.h"
#include "deploy/demo/training.h"

int main(int argc, char** argv) {
  const profd::demo::Program program{.name = "mlp_train", .takes_cupti_standin = false};
  const auto parsed = profd::demo::ParseOptions(program, {argv + 1, argv + argc});
  if (!parsed.options) return parsed.exit_code;
  return profd::demo::Train(*parsed.options, "mlp_train", nullptr, "");
}
