# The stand-in's own tests, for tests/CMakeLists.txt: the library itself is built without tests too.
set(dir ${CMAKE_CURRENT_LIST_DIR})

add_executable(real_cupti_probe ${dir}/real_cupti_probe.cc)
target_link_libraries(real_cupti_probe PRIVATE profd_options ${CMAKE_DL_LIBS})
set_target_properties(real_cupti_probe PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)

add_library(injection_probe SHARED ${dir}/injection_probe.cc)
target_link_libraries(injection_probe PRIVATE profd_options)
set_target_properties(injection_probe PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROFD_CUPTI_STANDIN_DIR}/tests)

profd_test(NAME cupti_standin_test
  SOURCES ${dir}/buffers_test.cc ${dir}/conformance_test.cc ${dir}/libcuda_test.cc
    ${dir}/lifecycle_test.cc ${dir}/records_test.cc ${dir}/shared_test.cc
    ${dir}/test_client.cc ${dir}/versions_test.cc
  DEPS ${CMAKE_DL_LIBS})
target_compile_definitions(cupti_standin_test PRIVATE
  SGPU_REAL_CUPTI="$<$<BOOL:${PROFD_REAL_CUPTI}>:${PROFD_REAL_CUPTI}>")
add_dependencies(cupti_standin_test real_cupti_probe injection_probe profd_fake_libcuda
  profd_cupti_standin_11.2 profd_cupti_standin_11.8 profd_cupti_standin_12.4
  profd_cupti_standin_12.9 profd_cupti_standin_13.0
  profd_cupti_standin_13.2 profd_cupti_standin_future)
