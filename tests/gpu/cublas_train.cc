// Linear regression by gradient descent with cuBLAS: an ordinary CUDA program that knows
// nothing of profd, for `profctl run -- cublas_train`. Prints the loss, which must fall; the
// same numbers with and without profiling.
//
//   cublas_train [--steps N]     default 200; exits with 77 where there is no GPU
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr int kSamples = 4096;
constexpr int kInputs = 512;
constexpr int kOutputs = 64;

void Check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "cublas_train: %s: %s\n", call, cudaGetErrorString(result));
  exit(1);
}
void Check(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  fprintf(stderr, "cublas_train: %s: %s\n", call, cublasGetStatusString(result));
  exit(1);
}
#define CALL(function, ...) Check(function(__VA_ARGS__), #function)

float* ToDevice(const std::vector<float>& values) {
  void* device = nullptr;
  CALL(cudaMalloc, &device, values.size() * sizeof(float));
  CALL(cudaMemcpy, device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  return static_cast<float*>(device);
}

std::vector<float> Random(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// Column-major: X is samples x inputs, W inputs x outputs, Y and the error samples x outputs.
void Train(int steps) {
  cublasHandle_t blas = nullptr;
  CALL(cublasCreate, &blas);
  float* x = ToDevice(Random(size_t{kSamples} * kInputs, 1));
  float* truth = ToDevice(Random(size_t{kInputs} * kOutputs, 2));
  float* w = ToDevice(std::vector<float>(size_t{kInputs} * kOutputs));
  float* y = ToDevice(std::vector<float>(size_t{kSamples} * kOutputs));
  float* error = ToDevice(std::vector<float>(size_t{kSamples} * kOutputs));
  const float one = 1;
  const float zero = 0;
  const float minus_one = -1;
  const float rate = -0.5f / kSamples;
  CALL(cublasSgemm, blas, CUBLAS_OP_N, CUBLAS_OP_N, kSamples, kOutputs, kInputs, &one, x, kSamples,
       truth, kInputs, &zero, y, kSamples);
  float first = 0;
  float last = 0;
  for (int step = 0; step < steps; ++step) {
    CALL(cudaMemcpyAsync, error, y, size_t{kSamples} * kOutputs * sizeof(float),
         cudaMemcpyDeviceToDevice, nullptr);
    CALL(cublasSgemm, blas, CUBLAS_OP_N, CUBLAS_OP_N, kSamples, kOutputs, kInputs, &one, x,
         kSamples, w, kInputs, &minus_one, error, kSamples);
    CALL(cublasSgemm, blas, CUBLAS_OP_T, CUBLAS_OP_N, kInputs, kOutputs, kSamples, &rate, x,
         kSamples, error, kSamples, &one, w, kInputs);
    CALL(cublasSnrm2, blas, kSamples * kOutputs, error, 1, &last);
    if (step == 0) first = last;
    if (step % 50 == 0) printf("step %d loss %.6g\n", step, static_cast<double>(last));
  }
  printf("loss %.6g -> %.6g\n", static_cast<double>(first), static_cast<double>(last));
  if (!(last < first)) {
    fprintf(stderr, "cublas_train: the loss did not fall\n");
    exit(1);
  }
  CALL(cublasDestroy, blas);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  int steps = 200;
  if (argc == 3 && strcmp(argv[1], "--steps") == 0) {
    steps = static_cast<int>(strtol(argv[2], nullptr, 10));
  } else if (argc != 1) {
    fprintf(stderr, "usage: cublas_train [--steps N]\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fprintf(stderr, "cublas_train: no GPU\n");
    return kSkipped;
  }
  Train(steps);
  return 0;
}
