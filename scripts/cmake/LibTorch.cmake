# SPDX-License-Identifier: Apache-2.0
# Target LibTorch::cpu: libtorch_cpu and libc10 alone, so that a CPU run never loads CUDA.
# find_package(Torch) of the CUDA build needs a CUDA Toolkit even for that; not used here.
find_path(GANTRAIN_TORCH_INCLUDE torch/csrc/api/include/torch/torch.h
          PATH_SUFFIXES include torch/include
          DOC "LibTorch 2.11's include folder; set CMAKE_PREFIX_PATH to where LibTorch was unpacked")
find_library(GANTRAIN_TORCH_CPU torch_cpu PATH_SUFFIXES lib torch/lib)
find_library(GANTRAIN_C10 c10 PATH_SUFFIXES lib torch/lib)
if(NOT GANTRAIN_TORCH_INCLUDE OR NOT GANTRAIN_TORCH_CPU OR NOT GANTRAIN_C10)
  message(FATAL_ERROR "LibTorch 2.11.0 not found: run ./scripts/build.sh, which fetches it, or give "
                      "-DCMAKE_PREFIX_PATH=<folder with include/ and lib/ of LibTorch 2.11.0>")
endif()
file(STRINGS ${GANTRAIN_TORCH_INCLUDE}/torch/headeronly/version.h version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR)")
set(GANTRAIN_TORCH_IS_2_11 ON)
if(NOT "${version_lines}" MATCHES "MAJOR 2" OR NOT "${version_lines}" MATCHES "MINOR 11")
  set(GANTRAIN_TORCH_IS_2_11 OFF)
  message(WARNING "LibTorch in ${GANTRAIN_TORCH_INCLUDE} is not 2.11: ${version_lines}")
endif()
get_filename_component(GANTRAIN_TORCH_LIB ${GANTRAIN_TORCH_CPU} DIRECTORY)

# The OpenMP runtime that LibTorch itself uses: two of them would have two sets of threads.
find_library(GANTRAIN_GOMP NAMES libgomp.so.1 HINTS ${GANTRAIN_TORCH_LIB} NO_DEFAULT_PATH)
find_library(GANTRAIN_GOMP NAMES gomp libgomp.so.1)

add_library(LibTorch::cpu INTERFACE IMPORTED)
# -idirafter: the wheel ships fmt 12's headers, which must not hide the system's fmt 9. SHELL: splits at blanks.
target_compile_options(LibTorch::cpu INTERFACE
  "SHELL:-idirafter \"${GANTRAIN_TORCH_INCLUDE}\""
  "SHELL:-idirafter \"${GANTRAIN_TORCH_INCLUDE}/torch/csrc/api/include\"")
target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(LibTorch::cpu INTERFACE ${GANTRAIN_TORCH_CPU} ${GANTRAIN_C10} ${GANTRAIN_GOMP})
# No -rpath here: CMake adds one for libraries with a full path, and Install.cmake takes it away at installation.
target_link_options(LibTorch::cpu INTERFACE
  -Wl,-rpath-link,${GANTRAIN_TORCH_LIB}
  -Wl,--unresolved-symbols=ignore-in-shared-libs)
