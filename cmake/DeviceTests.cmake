# Every test of src/ops once more, with the CUDA kernels in the place of the CPU's.
#
# In a build with CUDA, ops_gpu_test runs them on this machine's GPU. In any other, ops_emulated_test runs them on the
# CPU: each .cu file is compiled as C++ over backend/testing/simt.h. Descriptions name kernels that may be absent
# (ops/optional_kernel.h), and get these; all else is what ops_test links, too.
function(spillway_device_tests)
  if(NOT SPILLWAY_TESTS OR SPILLWAY_SANITIZE MATCHES "thread")
    return()
  endif()
  set(support ${PROJECT_SOURCE_DIR}/tests/support)
  if(SPILLWAY_CUDA)
    spillway_tests(ops_gpu_test SOURCES $<TARGET_OBJECTS:ops_test> ${support}/gpu_device.cc ${support}/poisoned_arena.cc
                   LIBRARIES spillway_ops_testing)
    return()
  endif()
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
       ${CMAKE_CURRENT_SOURCE_DIR}/backend/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/ops/*.cu)
  set(sources ${support}/emulated_product.cc ${support}/emulated_attention.cc)
  foreach(kernel ${kernels})
    cmake_path(REMOVE_EXTENSION kernel OUTPUT_VARIABLE name)
    string(REPLACE "/" "_" name ${name})
    set(source ${CMAKE_BINARY_DIR}/emulated/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${kernel}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(spillway_emulated_kernels OBJECT ${sources})
  target_link_libraries(spillway_emulated_kernels PUBLIC spillway_ops_testing doctest::doctest)
  spillway_optimise(spillway_emulated_kernels 2)
  target_compile_definitions(spillway_emulated_kernels PRIVATE SPILLWAY_CUDA)
  target_compile_options(spillway_emulated_kernels PRIVATE -Wno-unknown-pragmas)
  spillway_tests(ops_emulated_test SOURCES $<TARGET_OBJECTS:ops_test> ${support}/emulated_device.cc
                 ${support}/poisoned_arena.cc LIBRARIES spillway_emulated_kernels spillway_ops_testing)
  # Kernels that only sm_90 has: attention's, in place of those above.
  doctest_discover_tests(ops_emulated_test TEST_PREFIX "ops_emulated_test, sm_90: " TEST_SPEC "--test-case=*attention*"
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 1200 ENVIRONMENT SPILLWAY_EMULATED_GPU=90)
endfunction()
