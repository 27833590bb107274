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

# Dumps of CUPTI's buffers, decoded again.
add_executable(replay_dump ${CMAKE_CURRENT_LIST_DIR}/replay_dump.cc
  $<TARGET_OBJECTS:profd_client_core> $<TARGET_OBJECTS:profd_client_cupti>
  $<TARGET_OBJECTS:profd_client_nvtx> $<TARGET_OBJECTS:profd_client_python_stack>
  $<TARGET_OBJECTS:profd_client_torch>)
target_link_libraries(replay_dump PRIVATE profd_options profd_client_include Threads::Threads ${CMAKE_DL_LIBS})
target_compile_options(replay_dump PRIVATE -O1)
set_target_properties(replay_dump PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
profd_python_test(NAME gpu_dump_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/dump_test.py NO_PRELOAD)

# C programs that need no profd: questions to CUPTI, and work for a GPU. Built for other machines, too,
# so nothing but libc is linked.
add_library(gpu_work OBJECT ${CMAKE_CURRENT_LIST_DIR}/gpu_work.c)
target_compile_definitions(gpu_work PRIVATE GW_PTX_FILE="${CMAKE_CURRENT_LIST_DIR}/kernels.ptx")
set_property(SOURCE ${CMAKE_CURRENT_LIST_DIR}/gpu_work.c APPEND PROPERTY
  OBJECT_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/kernels.ptx)
add_executable(cupti_facts ${CMAKE_CURRENT_LIST_DIR}/cupti_facts.c ${CMAKE_CURRENT_LIST_DIR}/cupti_cost.c
  ${CMAKE_CURRENT_LIST_DIR}/cupti_rows.c ${CMAKE_CURRENT_LIST_DIR}/cupti_states.c)
add_executable(gpu_job ${CMAKE_CURRENT_LIST_DIR}/gpu_job.c)
foreach(program cupti_facts gpu_job)
  target_link_libraries(${program} PRIVATE gpu_work Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${program} PROPERTIES C_STANDARD 11
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
endforeach()
# For ctypes in a torch process: the states of CUPTI whose cost gpu_costs.py measures.
add_library(gpu_states SHARED ${CMAKE_CURRENT_LIST_DIR}/cupti_states.c ${CMAKE_CURRENT_LIST_DIR}/cupti_rows.c)
target_link_libraries(gpu_states PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(gpu_states PROPERTIES C_STANDARD 11
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
profd_python_test(NAME gpu_replay_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/replay_test.py NO_PRELOAD)
profd_python_test(NAME gpu_causes_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/causes_test.py NO_PRELOAD)
# The script that runs on a machine with a GPU, on the simulated one. Its phases have limits of time
# that a sanitizer does not keep.
if(NOT PROFD_SANITIZE)
  profd_python_test(NAME gpu_run_on_gpu_test SCRIPT ${CMAKE_CURRENT_LIST_DIR}/run_on_gpu_test.py
    LABELS other TIMEOUT 600)
endif()
