# SPDX-License-Identifier: Apache-2.0
# cmake --install BUILD --prefix DIR: bin/gantrain, lib/libgantrain_*.so and, in lib/gantrain, LibTorch
# with all that it needs beyond Debian's own libraries, as files. The tree runs from anywhere, without
# the build folder, the cache or a CUDA Toolkit. Its two components: cpu, and cuda (3 GB) where the CUDA
# library is built.

# gantrain_install_libraries(COMPONENT LIBRARY...): copied at install time, when all have been placed.
function(gantrain_install_libraries component)
  # Where torch's wheels put them beside its own, and the toolkit.
  set(folders ${GANTRAIN_TORCH_LIB})
  foreach(part cu13 cudnn nccl cusparselt nvshmem)
    list(APPEND folders ${GANTRAIN_TORCH_LIB}/../../nvidia/${part}/lib)
  endforeach()
  list(APPEND folders ${CUDAToolkit_LIBRARY_DIR})
  install(CODE "set(folders \"${folders}\")\nset(libraries \"${ARGN}\")" COMPONENT ${component})
  install(SCRIPT ${CMAKE_SOURCE_DIR}/scripts/cmake/InstallLibraries.cmake COMPONENT ${component})
endfunction()

# gantrain_install_library(TARGET COMPONENT). The build's RUNPATH is the installed one with the folders of LibTorch and
# the toolkit behind it, and installation takes these away. CMake's own exchange of the two would leave an empty entry
# at the end of the build's, which the loader takes for the current folder: a stranger's data could bring libraries.
function(gantrain_install_library target component)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON
    INSTALL_RPATH "$ORIGIN/gantrain;${GANTRAIN_TORCH_LIB}") # LibTorch's before the toolkit's
  install(TARGETS ${target} DESTINATION lib COMPONENT ${component})
  set(installed "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/$<TARGET_FILE_NAME:${target}>")
  install(CODE "file(RPATH_SET FILE \"${installed}\" NEW_RPATH \"\$ORIGIN/gantrain\")" COMPONENT ${component})
endfunction()

install(TARGETS gantrain DESTINATION bin COMPONENT cpu)
# Completion of bash, zsh and fish, and manual pages, as the program itself has them.
install(CODE "execute_process(
  COMMAND \"${CMAKE_BINARY_DIR}/gantrain\" help --install \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\"
  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT cpu)
gantrain_install_library(gantrain_trainer cpu)
gantrain_install_library(gantrain_serve_library cpu)
set(libraries libtorch_cpu.so libc10.so)
if(EXISTS ${GANTRAIN_TORCH_LIB}/libgomp.so.1)
  list(APPEND libraries libgomp.so.1)
endif()
if(EXISTS ${GANTRAIN_TORCH_LIB}/libtorch_cuda.so) # then libtorch_cpu.so needs these, too
  list(APPEND libraries libcudart.so.13 libcupti.so.13)
endif()
gantrain_install_libraries(cpu ${libraries})

if(TARGET gantrain_cuda)
  gantrain_install_library(gantrain_cuda cuda)
  set(libraries libtorch_cuda.so libtorch_cuda_linalg.so libtorch_nvshmem.so libc10_cuda.so libcaffe2_nvrtc.so)
  file(STRINGS ${CMAKE_SOURCE_DIR}/scripts/wheels.txt wheels REGEX "^[^#]")
  foreach(wheel ${wheels})
    string(REPLACE " " ";" wheel ${wheel})
    list(REMOVE_AT wheel 0 1 2 3) # name, version, sha256 of both machines
    list(APPEND libraries ${wheel})
  endforeach()
  list(REMOVE_ITEM libraries libcudart.so.13 libcupti.so.13)
  gantrain_install_libraries(cuda ${libraries})
endif()
