# The tests on a GPU (label gpu; elsewhere they skip), for tests/CMakeLists.txt.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND TARGET CUDA::cublas AND NOT PROFD_SANITIZE)
  add_executable(cublas_train ${CMAKE_CURRENT_LIST_DIR}/cublas_train.cc)
  target_link_libraries(cublas_train PRIVATE profd_options CUDA::cudart CUDA::cublas)
  set_target_properties(cublas_train PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
endif()

profd_python_test(NAME gpu_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/gpu_test.py LABELS gpu TIMEOUT 600 NO_PRELOAD)
profd_python_test(NAME gpu_ptx_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/ptx_test.py NO_NATIVE)
