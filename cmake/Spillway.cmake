# One folder of src/ is one static library; `x_test.cc` beside `x.cc` goes to the folder's test program.
# Files may include only headers of folders that theirs DEPENDS on: tools/check_includes.py holds that.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

add_library(spillway_flags INTERFACE)
target_include_directories(spillway_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                    $<INSTALL_INTERFACE:include/spillway>)
target_compile_features(spillway_flags INTERFACE cxx_std_20)
target_compile_options(spillway_flags INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -ffp-contract=off>>)
target_link_libraries(spillway_flags INTERFACE Threads::Threads fmt::fmt nlohmann_json::nlohmann_json)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns falsely of `"literal" + std::string` wherever it inlines it (GCC bug 105651).
  target_compile_options(spillway_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It first looks for garbage at twice this many KiB: by default at 256 MiB, where with precompiled headers nearly all is in use, and
  # up to a fifth of its time went into looking. Objects are the same, byte for byte.
  target_compile_options(spillway_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>>)
endif()
if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(spillway_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>>)
endif()
if(SPILLWAY_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It takes a source that is compiled with others for a header, in which no type should hold what is of one source alone.
  target_compile_options(spillway_flags INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>>)
endif()
if(SPILLWAY_CUDA)
  target_link_libraries(spillway_flags INTERFACE spillway_cuda_flags)
endif()
if(SPILLWAY_SANITIZE)
  # With sanitizers g++ takes much for uninitialised that is not; the release's warnings hold. A null pointer ends the
  # program without a check, too; the checks of it and of virtual tables are a third of what UBSan takes to compile.
  target_compile_options(spillway_flags INTERFACE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:SPILLWAY_UNSANITIZED>>>>:
      -fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize=null,vptr -fno-omit-frame-pointer -fno-sanitize-recover=all
      -Wno-maybe-uninitialized>)
  target_link_options(spillway_flags INTERFACE -fsanitize=${SPILLWAY_SANITIZE})
endif()
if(SPILLWAY_FUZZ)
  target_compile_options(spillway_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# spillway_level(NAME LEVEL [TESTS]): the level of optimisation in a release. The tests' own code is compiled without
# AddressSanitizer, too: it takes three times as long with it, and the code under test is in other targets.
# (ThreadSanitizer must see all code.) Nor are the folders of SPILLWAY_UNSANITIZED.
function(spillway_level name level)
  string(REGEX REPLACE "^spillway_|_testing$" "" folder ${name})
  set(plain FALSE)
  if(("TESTS" IN_LIST ARGN OR folder IN_LIST SPILLWAY_UNSANITIZED) AND SPILLWAY_SANITIZE MATCHES address AND NOT SPILLWAY_FUZZ)
    set(plain TRUE)
  endif()
  set_target_properties(${name} PROPERTIES SPILLWAY_UNSANITIZED ${plain})
  target_compile_options(${name} PRIVATE
    $<$<AND:$<OR:$<CONFIG:Release>,$<BOOL:${plain}>>,$<COMPILE_LANGUAGE:CXX>>:-O${level}>)
endfunction()

# The headers that most sources include are parsed once for each level of optimisation and for each folder that asks for more: most of a
# clean build went into parsing it. Sources include what they use all the same; tools/check_tidy compiles them without.
set(precompiled ${PROJECT_SOURCE_DIR}/cmake/precompiled.h <fmt/format.h> <algorithm> <functional> <memory> <optional> <span> <string>
                <vector>)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// A target needs a source.\n")
function(spillway_precompiled name level)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${name} PRIVATE spillway_flags)
  spillway_level(${name} ${level} ${ARGN})
  set(doctest "<doctest/doctest.h>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
    set(doctest ${PROJECT_SOURCE_DIR}/tests/support/eager_captures.h)
  endif()
  list(TRANSFORM ARGN REPLACE "^TESTS$" "${doctest}")
  target_precompile_headers(${name} PRIVATE ${precompiled} ${ARGN})
endfunction()
foreach(level 1 2 3)
  spillway_precompiled(spillway_precompiled_${level} ${level})
endforeach()
if(SPILLWAY_TESTS)
  spillway_precompiled(spillway_precompiled_g g TESTS)
  spillway_precompiled(spillway_precompiled_json_g g TESTS <nlohmann/json.hpp>)
  spillway_precompiled(spillway_precompiled_tests_1 1 TESTS)
endif()

# spillway_optimise(NAME LEVEL [header...]): the level of optimisation in a release, and the headers precompiled with it: those
# of all, and those given, `<name>` of a library or a path from src/.
function(spillway_optimise name level)
  spillway_level(${name} ${level})
  get_target_property(plain ${name} SPILLWAY_UNSANITIZED)
  if(ARGN OR plain)  # the shared ones are compiled with sanitizers
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/src/ REGEX "^[^<]")
    target_precompile_headers(${name} PRIVATE ${precompiled} ${ARGN})
  else()
    target_precompile_headers(${name} REUSE_FROM spillway_precompiled_${level})
  endif()
endfunction()

# spillway_unity(NAME): its sources are compiled several at once. They share headers and templates, so that libraries and tests
# take a third of the time. In return what a source keeps to itself needs a name that no other of its folder has.
function(spillway_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${SPILLWAY_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# spillway_vector_unity(NAME): the same for its sources that Highway compiles once for each instruction set (src/ops/simd.h). Highway's
# headers are most of what each of them has to read, and are read once for eight. What is compiled anew for a set is then all eight:
# a source names itself for that, which counts where it is compiled alone.
function(spillway_vector_unity name)
  if(NOT SPILLWAY_UNITY)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  set(vector_sources)
  foreach(source ${sources})
    file(STRINGS ${source} found REGEX "^#include <hwy/foreach_target.h>" LIMIT_COUNT 1)
    if(found)
      list(APPEND vector_sources ${source})
    endif()
  endforeach()
  set_source_files_properties(${vector_sources} PROPERTIES HEADER_FILE_ONLY ON)
  set(number 0)
  while(vector_sources)
    list(SUBLIST vector_sources 0 8 batch)
    list(REMOVE_ITEM vector_sources ${batch})
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}_vectors_${number}.cc)
    math(EXPR number "${number} + 1")
    set(target "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${output}\"\n")
    list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN batch "" batch)
    file(CONFIGURE OUTPUT ${output} CONTENT "#include \"ops/simd.h\"\n${target}#include <hwy/foreach_target.h>\n\n${batch}\n${target}" @ONLY)
    set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${name} PRIVATE ${output})
  endwhile()
endfunction()

if(SPILLWAY_TESTS)
  find_package(doctest REQUIRED)
  include(${doctest_DIR}/doctest.cmake)
  add_library(spillway_doctest_main OBJECT ${PROJECT_SOURCE_DIR}/tests/support/doctest_main.cc)
  target_link_libraries(spillway_doctest_main PUBLIC doctest::doctest spillway_flags)
  add_library(spillway_replay_main OBJECT ${PROJECT_SOURCE_DIR}/tests/support/replay_main.cc)
  target_link_libraries(spillway_replay_main PUBLIC spillway_flags)
endif()

# spillway_test_code(NAME [JSON | COMPUTES]): the level of optimisation of tests' own code, which takes longer to compile than to
# run, but for references that compute; and the headers precompiled with it, the JSON library's with JSON.
function(spillway_test_code name)
  cmake_parse_arguments(arg "JSON;COMPUTES" "" "" ${ARGN})
  set(level g)
  set(headers g)
  if(arg_COMPUTES)
    set(level 1)
    set(headers tests_1)
  elseif(arg_JSON)
    set(headers json_g)
  endif()
  spillway_level(${name} ${level} TESTS)
  target_precompile_headers(${name} REUSE_FROM spillway_precompiled_${headers})
endfunction()

# spillway_tests(NAME [JSON | COMPUTES] SOURCES file... LIBRARIES lib...): a doctest program whose cases ctest runs one by one.
function(spillway_tests name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT SPILLWAY_TESTS OR NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  spillway_test_code(${name} ${arg_UNPARSED_ARGUMENTS})
  spillway_unity(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  # Tests ask for SPILLWAY_REPLACES_MALLOC if they count allocations, as a sanitizer has its own malloc.
  string(REGEX MATCH "address|thread|memory" allocator "${SPILLWAY_SANITIZE}")
  target_compile_definitions(${name} PRIVATE SPILLWAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             SPILLWAY_REPLACES_MALLOC=$<BOOL:${allocator}>)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} spillway_doctest_main)
  # Ends a test that hangs; beside other work, with a sanitizer or in an emulator some take many minutes.
  set(timeout 1200)
  doctest_discover_tests(${name} TEST_PREFIX "${name}: " WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                         PROPERTIES TIMEOUT ${timeout})
endfunction()

# spillway_installs(FOLDER): its library as spillway::FOLDER, and its headers but for those of tests.
function(spillway_installs folder)
  set_target_properties(spillway_${folder} PROPERTIES EXPORT_NAME ${folder})
  install(TARGETS spillway_${folder} EXPORT spillway COMPONENT development)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder} DESTINATION include/spillway COMPONENT development
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*.inc" PATTERN testing EXCLUDE)
endfunction()

# spillway_folder(NAME [KERNELS | COLD] [JSON] [DEPENDS folder...] [TESTS_DEPEND folder...] [LIBRARIES lib...] [PRECOMPILE header...]
#                 [ALONE regex]):
# a release optimises loops (-O3) only where KERNELS, conversions or measurements are; the rest gets -O2 and compiles a
# tenth faster; what is COLD, run once a step at most, gets -O1 and compiles a third faster. PRECOMPILE: what most of its
# sources include of our own; JSON: that they and its tests include that library. ALONE: sources that are compiled one by one.
# With SPILLWAY_CUDA its .cu files belong to it, too; without, neither they nor what lies in a folder cuda/ is compiled.
# Code in a folder testing/ helps the tests of this folder and of those that depend on it.
function(spillway_folder folder)
  cmake_parse_arguments(arg "KERNELS;COLD;JSON" "ALONE" "DEPENDS;TESTS_DEPEND;LIBRARIES;PRECOMPILE" ${ARGN})
  set(kind)
  if(arg_KERNELS)
    set(kind COMPUTES)
  elseif(arg_JSON)
    set(kind JSON)
  endif()
  if(arg_JSON)
    list(PREPEND arg_PRECOMPILE <nlohmann/json.hpp>)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  if(SPILLWAY_CUDA)
    file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu)
    list(APPEND sources ${kernels})
  else()
    list(FILTER sources EXCLUDE REGEX "(/cuda/[a-z_]+|_cuda)\\.cc$")
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(testing ${sources})
  list(FILTER testing INCLUDE REGEX "/testing/[a-z_]+\\.cc$")
  list(FILTER testing EXCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main|/testing/[a-z_]+)\\.cc$")
  set(depends ${arg_DEPENDS})
  list(TRANSFORM depends PREPEND spillway_)
  if(sources)
    add_library(spillway_${folder} STATIC ${sources})
    target_link_libraries(spillway_${folder} PUBLIC ${depends} ${arg_LIBRARIES} spillway_flags)
    set(level 2)
    if(arg_KERNELS)
      set(level 3)
    elseif(arg_COLD)
      set(level 1)
    endif()
    spillway_optimise(spillway_${folder} ${level} ${arg_PRECOMPILE})
    spillway_unity(spillway_${folder})
    if(arg_ALONE)
      set(alone ${sources})
      list(FILTER alone INCLUDE REGEX ${arg_ALONE})
      set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  else()
    add_library(spillway_${folder} INTERFACE)
    target_link_libraries(spillway_${folder} INTERFACE ${depends} ${arg_LIBRARIES} spillway_flags)
  endif()
  spillway_installs(${folder})
  if(SPILLWAY_TESTS)
    if(testing)
      add_library(spillway_${folder}_testing STATIC ${testing})
      spillway_optimise(spillway_${folder}_testing 2)
      spillway_unity(spillway_${folder}_testing)
      set(visibility PUBLIC)
    else()
      add_library(spillway_${folder}_testing INTERFACE)
      set(visibility INTERFACE)
    endif()
    set(testing_depends ${arg_DEPENDS} ${arg_TESTS_DEPEND})
    list(TRANSFORM testing_depends PREPEND spillway_)
    list(TRANSFORM testing_depends APPEND _testing)
    target_link_libraries(spillway_${folder}_testing ${visibility} spillway_${folder} ${testing_depends})
    target_include_directories(spillway_${folder}_testing ${visibility} ${PROJECT_SOURCE_DIR})
  endif()
  spillway_tests(${folder}_test ${kind} SOURCES ${tests} LIBRARIES spillway_${folder}_testing)
endfunction()

# spillway_links_whole(MODULE): a symbol that it needs and does not link is an error of the build, not of dlopen. Clang leaves
# those of sanitizers and of libFuzzer to the program.
function(spillway_links_whole module)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT (SPILLWAY_SANITIZE OR SPILLWAY_FUZZ))
    target_link_options(${module} PRIVATE LINKER:-z,defs)
  endif()
endfunction()

# spillway_fuzz(NAME SOURCES file... LIBRARIES lib...): a libFuzzer target, or, without SPILLWAY_FUZZ, a program that
# replays corpus files and is run over tests/corpus/NAME by ctest.
function(spillway_fuzz name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(SPILLWAY_FUZZ)
    add_executable(${name} ${arg_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  elseif(SPILLWAY_TESTS)
    add_executable(${name} ${arg_SOURCES})
    spillway_optimise(${name} 1)
    target_link_libraries(${name} PRIVATE spillway_replay_main)
    add_test(NAME "${name}: the corpus is read without a crash" COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/corpus/${name})
  else()
    return()
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} spillway_flags)
endfunction()
