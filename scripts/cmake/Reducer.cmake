# SPDX-License-Identifier: Apache-2.0
# GANTRAIN_REDUCER: whether LibTorch's c10d::Reducer has the constructor and methods that
# lib/distributed/reducer.cpp uses; they differ between releases. Tried once, kept in the cache. 2.11's fits:
# where that does not compile, something else is wrong, such as too little memory, and it is tried again.
if(GANTRAIN_TORCH_IS_2_11 AND NOT DEFINED GANTRAIN_REDUCER_PROBE)
  set(must_fit ON)
else()
  set(must_fit OFF)
endif()
if(GANTRAIN_REDUCER OR (DEFINED GANTRAIN_REDUCER AND NOT must_fit))
  return()
endif()
if(NOT DEFINED GANTRAIN_REDUCER_PROBE)
  set(GANTRAIN_REDUCER_PROBE ${CMAKE_CURRENT_LIST_DIR}/reducer_probe.cpp)
endif()
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # compiled, not linked
try_compile(GANTRAIN_REDUCER ${CMAKE_BINARY_DIR}/reducer_probe ${GANTRAIN_REDUCER_PROBE}
            CMAKE_FLAGS "-DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}" # ten seconds of LibTorch's headers
            LINK_LIBRARIES LibTorch::cpu
            CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
            OUTPUT_VARIABLE probe_output)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
if(GANTRAIN_REDUCER)
  message(STATUS "c10d::Reducer: fits, --ddp-mode wrapper, dynamic and flat")
else()
  file(WRITE ${CMAKE_BINARY_DIR}/reducer_probe.log "${probe_output}")
  if(must_fit)
    unset(GANTRAIN_REDUCER CACHE)
    message(FATAL_ERROR "The probe of LibTorch 2.11's c10d::Reducer could not be compiled; what the compiler said is in "
                        "${CMAKE_BINARY_DIR}/reducer_probe.log. Was there too little memory or disk space?")
  endif()
  message(WARNING "c10d::Reducer of this LibTorch is not 2.11's (${CMAKE_BINARY_DIR}/reducer_probe.log): several "
                  "ranks will need --ddp-mode flat; --ddp-mode wrapper and dynamic need LibTorch 2.11")
endif()
