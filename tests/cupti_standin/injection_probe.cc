// What CUDA_INJECTION64_PATH names in libcuda_test.cc: it counts.
extern "C" {
int injections = 0;
int InitializeInjection();
int InitializeInjection() {
  ++injections;
  return 1;
}
}
