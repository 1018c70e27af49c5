# The CUDA compiler and how its files are compiled. Only cudart is linked, statically: it answers with an error code where
# there is no driver. cuBLASLt and cuDNN are opened when a GPU is first used, so that a machine without them starts.
# docs/cuda.md lists the versions.

# Real code for the GPUs that have it, and PTX for what comes later. A developer builds for one: -DSPILLWAY_CUDA_ARCHITECTURES=90a-real
set(SPILLWAY_CUDA_ARCHITECTURES "80-real;89-real;90a-real;100-real;100-virtual" CACHE STRING "GPU architectures to compile for")
set(CMAKE_CUDA_ARCHITECTURES ${SPILLWAY_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25.1 does not know that nvcc can
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
find_package(CUDAToolkit 13.0 REQUIRED)

add_library(spillway_cuda_flags INTERFACE)
target_compile_definitions(spillway_cuda_flags INTERFACE SPILLWAY_CUDA SPILLWAY_CUDA_LIBRARY_DIR="${CUDAToolkit_LIBRARY_DIR}")
# fmt 9 switches constexpr off for nvcc, halfway; its check of format strings at compile time is what nvcc cannot do.
target_compile_definitions(spillway_cuda_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1 FMT_CONSTEVAL=>)
target_compile_options(spillway_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wno-missing-field-initializers>)
target_include_directories(spillway_cuda_flags SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(spillway_cuda_flags INTERFACE CUDA::cudart_static)

# cuDNN's headers, from NVIDIA's packages or PyPI wheel, and those of its frontend, which describe attention to it.
file(GLOB wheel_headers LIST_DIRECTORIES true $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cudnn/include)
find_path(SPILLWAY_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${wheel_headers})
find_path(SPILLWAY_CUDNN_FRONTEND cudnn_frontend.h PATHS ${PROJECT_SOURCE_DIR}/build/cudnn_frontend/include NO_DEFAULT_PATH)
if(NOT SPILLWAY_CUDNN_INCLUDE)
  message(FATAL_ERROR "expected cudnn.h in ${CUDAToolkit_INCLUDE_DIRS} or the active virtual environment, got none; "
                      "install NVIDIA's package cudnn9-cuda-13 or the PyPI package nvidia-cudnn-cu13")
endif()
if(NOT SPILLWAY_CUDNN_FRONTEND)
  message(FATAL_ERROR "expected cuDNN's frontend in build/cudnn_frontend, got none; run tools/install_dependencies cuda")
endif()

# spillway_uses_cudnn(FILE): the one source that includes the frontend. It takes minutes at -O2, and nothing in it is hot.
function(spillway_uses_cudnn file)
  set_source_files_properties(${file} PROPERTIES
    COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    COMPILE_OPTIONS "-isystem;${SPILLWAY_CUDNN_FRONTEND};-isystem;${SPILLWAY_CUDNN_INCLUDE};-O1"
    SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# spillway_rounds_as_written(FILE...): kernels whose results are the CPU's, bit for bit. As in C++ sources
# (-ffp-contract=off), no product is fused with a sum; division and root are IEEE's already.
function(spillway_rounds_as_written)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fmad=false)
endfunction()

# spillway_uses_wgmma(FILE...): kernels that the architecture-specific target of sm_90 alone has instructions for. They are
# told whether the build has that target.
function(spillway_uses_wgmma)
  if(SPILLWAY_CUDA_ARCHITECTURES MATCHES "90a")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS SPILLWAY_SM_90A)
  endif()
endfunction()
