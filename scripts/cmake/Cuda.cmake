# SPDX-License-Identifier: Apache-2.0
# libgantrain_cuda.so: the operators' kernels (lib/ops/*/*.cu, compiled by nvcc, without torch), their glue
# (*_cuda.cpp and lib/ops/gpu) and the NCCL group; a library of its own that is loaded only where a GPU is
# used. Compiles and links without a GPU. -DCUDAToolkit_ROOT=DIR names the toolkit.
set(GANTRAIN_CUDA_ARCHITECTURES "75-real;80-real;90-real;100" CACHE STRING
    "what the kernels are compiled for; the last, without -real, is also kept as PTX for newer GPUs")
option(GANTRAIN_CUDA_WERROR "what nvcc warns of is an error, a kernel that spills registers too" ON)
option(GANTRAIN_KERNEL_REPORT "print each kernel's registers, shared memory and spills" OFF)

if(GANTRAIN_CUDA STREQUAL "OFF")
  message(STATUS "CUDA library: not asked for")
  return()
endif()

find_package(CUDAToolkit QUIET)
find_path(GANTRAIN_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(GANTRAIN_TORCH_CUDA torch_cuda HINTS ${GANTRAIN_TORCH_LIB} NO_DEFAULT_PATH)
find_library(GANTRAIN_C10_CUDA c10_cuda HINTS ${GANTRAIN_TORCH_LIB} NO_DEFAULT_PATH)
# NVRTC, with which cuDNN and cuBLAS compile some kernels, opens this table by name alone. It is found
# only if it is loaded already: nothing in NVRTC's own file says where to look.
find_library(GANTRAIN_NVRTC_BUILTINS libnvrtc-builtins.so.13.0
             HINTS ${GANTRAIN_TORCH_LIB} ${GANTRAIN_TORCH_LIB}/../../nvidia/cu13/lib ${CUDAToolkit_LIBRARY_DIR}
             NO_DEFAULT_PATH)
set(missing "")
if(NOT CUDAToolkit_FOUND)
  list(APPEND missing "CUDA Toolkit 13")
elseif(NOT CUDAToolkit_VERSION_MAJOR EQUAL 13)
  list(APPEND missing "CUDA Toolkit 13 (${CUDAToolkit_BIN_DIR} has ${CUDAToolkit_VERSION})")
elseif(NOT CUDAToolkit_NVCC_EXECUTABLE)
  list(APPEND missing "nvcc")
endif()
if(NOT GANTRAIN_NCCL_INCLUDE)
  list(APPEND missing "nccl.h")
endif()
if(NOT GANTRAIN_TORCH_CUDA OR NOT GANTRAIN_C10_CUDA)
  list(APPEND missing "LibTorch with CUDA")
endif()
if(missing)
  list(JOIN missing ", " missing)
  if(GANTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GANTRAIN_CUDA=ON, but not found: ${missing}")
  endif()
  message(STATUS "CUDA library: not built (missing: ${missing}); this build is for CPUs")
  return()
endif()

# gantrain_compile_kernels(OBJECTS SOURCE...): objects of .cu files. Plain commands, since CMake's CUDA
# language would hand nvcc the flags of the C++ sources, link a second, static runtime, and (3.25) not
# know that nvcc has C++20.
function(gantrain_compile_kernels objects)
  # Code of five architectures is most of a package; the driver unpacks what it loads, as it does LibTorch's.
  set(flags -std=c++20 -O3 --expt-relaxed-constexpr --compress-mode=size -Xptxas -warn-spills
            -Xcompiler -fPIC,-Wall,-Wno-unknown-pragmas -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_SOURCE_DIR}/lib)
  if(GANTRAIN_CUDA_WERROR)
    list(APPEND flags -Werror all-warnings)
  endif()
  foreach(architecture ${GANTRAIN_CUDA_ARCHITECTURES})
    string(REPLACE "-real" "" number ${architecture})
    set(code sm_${number})
    if(number STREQUAL architecture)
      string(APPEND code ",compute_${number}")
    endif()
    list(APPEND flags -gencode "arch=compute_${number},code=[${code}]")
  endforeach()
  if(GANTRAIN_KERNEL_REPORT)
    list(APPEND flags -Xptxas -v)
  endif()
  set(compile ${CUDAToolkit_NVCC_EXECUTABLE} ${flags})
  if(GANTRAIN_CCACHE)
    list(PREPEND compile ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${GANTRAIN_CCACHE})
  endif()
  set(folder ${CMAKE_BINARY_DIR}/cuda_kernels)
  file(MAKE_DIRECTORY ${folder})
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME)
    add_custom_command(OUTPUT ${folder}/${name}.o
      COMMAND ${compile} -MD -MF ${folder}/${name}.d -c ${source} -o ${folder}/${name}.o
      DEPENDS ${source} DEPFILE ${folder}/${name}.d COMMENT "Compiling ${name} for CUDA" VERBATIM)
    list(APPEND made ${folder}/${name}.o)
  endforeach()
  set(${objects} ${made} PARENT_SCOPE)
endfunction()

file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/ops/*/*.cu)
gantrain_compile_kernels(kernel_objects ${kernels})
file(GLOB glue CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/ops/*/*_cuda.cpp ${CMAKE_SOURCE_DIR}/lib/ops/gpu/*.cpp)
list(REMOVE_DUPLICATES glue)
gantrain_knows_device_headers(${CMAKE_SOURCE_DIR}/lib/ops/gpu/table_cuda.cpp)
add_library(gantrain_cuda SHARED ${kernel_objects} ${glue} ${CMAKE_SOURCE_DIR}/lib/distributed/nccl.cpp)
target_include_directories(gantrain_cuda PRIVATE ${CMAKE_SOURCE_DIR}/lib)
target_include_directories(gantrain_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${GANTRAIN_NCCL_INCLUDE})
list(JOIN GANTRAIN_CUDA_ARCHITECTURES " " architectures)
target_compile_definitions(gantrain_cuda PRIVATE
  USE_C10D_NCCL "GANTRAIN_CUDA_ARCHITECTURES_TEXT=\"${architectures}\"")
target_link_libraries(gantrain_cuda PRIVATE LibTorch::cpu fmt::fmt ${GANTRAIN_TORCH_CUDA} ${GANTRAIN_C10_CUDA} CUDA::cudart)
if(GANTRAIN_NVRTC_BUILTINS)
  target_link_libraries(gantrain_cuda PRIVATE ${GANTRAIN_NVRTC_BUILTINS})
endif()
# It is opened before the trainer library and can need nothing of it: what it needs must be in the
# libraries above. (The sanitizers' functions come with the program.)
target_link_options(gantrain_cuda PRIVATE -Wl,--no-as-needed)
if(NOT GANTRAIN_SANITIZE)
  target_link_options(gantrain_cuda PRIVATE -Wl,-z,defs)
endif()
message(STATUS "CUDA library: built with CUDA Toolkit ${CUDAToolkit_VERSION} for ${architectures}")
