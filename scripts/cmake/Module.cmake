# SPDX-License-Identifier: Apache-2.0

# gantrain_module(NAME [TORCH] SOURCES a.cpp... [OPTIONS options.cpp...] [LINKS target...])
# A static library gantrain_NAME. OPTIONS become gantrain_NAME_options, which knows no torch and
# which the thin executable links. LINKS are public. The modules and their levels: README.md.
function(gantrain_module name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;OPTIONS;LINKS" ${ARGN})
  if(arg_OPTIONS)
    add_library(gantrain_${name}_options STATIC ${arg_OPTIONS})
    target_include_directories(gantrain_${name}_options PUBLIC ${CMAKE_SOURCE_DIR}/lib)
    target_link_libraries(gantrain_${name}_options PUBLIC gantrain_config)
    list(APPEND arg_LINKS gantrain_${name}_options)
  endif()
  add_library(gantrain_${name} STATIC ${arg_SOURCES})
  target_include_directories(gantrain_${name} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  target_link_libraries(gantrain_${name} PUBLIC ${arg_LINKS})
  if(arg_TORCH)
    target_link_libraries(gantrain_${name} PUBLIC LibTorch::cpu)
    gantrain_use_pch(gantrain_${name})
  endif()
endfunction()

# LibTorch takes 12 s to read: one precompiled header, made in core, serves every target.
function(gantrain_use_pch target)
  if(target STREQUAL "gantrain_core")
    target_precompile_headers(gantrain_core PRIVATE ${CMAKE_SOURCE_DIR}/lib/core/torch_pch.h)
  else()
    target_precompile_headers(${target} REUSE_FROM gantrain_core)
  endif()
endfunction()

# gantrain_test(NAME [TORCH] SOURCES a_test.cpp... LINKS target... [LABELS ...])
# One test program; every TEST_CASE is a test of ctest, in a process of its own.
function(gantrain_test name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR}/test)
  target_link_libraries(test_${name} PRIVATE gantrain_test_main ${arg_LINKS})
  target_compile_definitions(test_${name} PRIVATE
    GANTRAIN_FIXTURES="${CMAKE_SOURCE_DIR}/test/fixtures" GANTRAIN_SOURCE="${CMAKE_SOURCE_DIR}"
    GANTRAIN_BUILD="${CMAKE_BINARY_DIR}")
  if(arg_TORCH)
    target_link_libraries(test_${name} PRIVATE LibTorch::cpu)
    gantrain_use_pch(test_${name})
  endif()
  set(timeout 300)
  if("slow" IN_LIST arg_LABELS)
    set(timeout 1800)
  endif()
  set(properties TIMEOUT ${timeout})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  if(arg_TORCH)
    # Tests share the cores among each other. A second thread that has to wait for its core spins at
    # every barrier of these small networks: a test of 2 s took minutes on a busy machine.
    list(APPEND properties ENVIRONMENT OMP_NUM_THREADS=1)
  endif()
  catch_discover_tests(test_${name} TEST_PREFIX "${name}/" PROPERTIES ${properties})
endfunction()
