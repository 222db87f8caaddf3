# SPDX-License-Identifier: Apache-2.0
# GANTRAIN_REDUCER: whether LibTorch's c10d::Reducer has the constructor and methods that
# lib/distributed/reducer.cpp uses; they differ between releases. Tried once, kept in the cache.
if(DEFINED GANTRAIN_REDUCER)
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
  message(WARNING "c10d::Reducer of this LibTorch is not 2.11's (${CMAKE_BINARY_DIR}/reducer_probe.log): several "
                  "ranks will need --ddp-mode flat; --ddp-mode wrapper and dynamic need LibTorch 2.11")
endif()
