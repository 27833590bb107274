// gpu_train: the training of mlp_train with a simulated GPU next to it.
//
//   gpu_train [--cupti-standin PATH] [the options of mlp_train]
//
// The network trains on the CPU, for real. What its layers do is launched once more on a GPU made
// of software, with a stream for the work and one for copies, so that on a machine without a GPU
// one can see what a capture of a CUDA program shows. Nothing of the GPU's side is measured on
// hardware, and the program says so; so does every table and trace that profd makes of it.
//
// Exit code: as mlp_train; 1 also without the stand-in.
#include <cstdio>
#include <memory>
#include <string>

#include "deploy/demo/options.h"
#include "deploy/demo/simulated_gpu.h"
#include "deploy/demo/training.h"

int main(int argc, char** argv) {
  const profd::demo::Program program{.name = "gpu_train", .takes_cupti_standin = true};
  const auto parsed = profd::demo::ParseOptions(program, {argv + 1, argv + argc});
  if (!parsed.options) return parsed.exit_code;
  std::string error;
  const std::unique_ptr<profd::demo::SimulatedGpu> gpu =
      profd::demo::SimulatedGpu::Open(parsed.options->cupti_standin, error);
  if (gpu == nullptr) {
    std::fprintf(stderr, "gpu_train: %s\n", error.c_str());
    return 1;
  }
  return profd::demo::Train(*parsed.options, "gpu_train", gpu.get(),
                            "the GPU is simulated by " + gpu->path());
}
