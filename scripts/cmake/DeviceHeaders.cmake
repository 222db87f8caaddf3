# SPDX-License-Identifier: Apache-2.0
# gantrain_knows_device_headers(SOURCE): defines GANTRAIN_DEVICE_HEADERS for it, a hash of the headers that the CUDA
# library shares with the trainer library. They compare it when one loads the other (lib/ops/device_kernels.h).
file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/ops/*.h)
list(APPEND headers ${CMAKE_SOURCE_DIR}/lib/core/device.h)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
set(hashes "")
foreach(header IN LISTS headers)
  file(SHA256 ${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 GANTRAIN_DEVICE_HEADERS "${hashes}")
string(SUBSTRING ${GANTRAIN_DEVICE_HEADERS} 0 12 GANTRAIN_DEVICE_HEADERS)

function(gantrain_knows_device_headers source)
  set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS
                              "GANTRAIN_DEVICE_HEADERS=\"${GANTRAIN_DEVICE_HEADERS}\"")
endfunction()
