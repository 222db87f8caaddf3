# SPDX-License-Identifier: Apache-2.0
option(GANTRAIN_UNITY "compile sources in batches; OFF compiles each by itself, for those who edit" ON)
set(GANTRAIN_UNITY_BYTES 60000 CACHE STRING "bytes of sources in a batch, about")

# gantrain_batches(RESULT NAME SOURCE...): the sources that the compiler sees. With GANTRAIN_UNITY these
# are files that include the given ones, in their order, until GANTRAIN_UNITY_BYTES are reached. Sources with
# SKIP_UNITY_BUILD_INCLUSION, with compile options of their own or without the precompiled header stay as they
# are. The batches name their sources from the checkout's root, so that ccache finds them again in another
# checkout.
function(gantrain_batches result name)
  set(seen "")
  set(batch "")
  set(size 0)
  set(number 0)
  foreach(source ${ARGN} "")
    if(source)
      get_filename_component(path ${source} ABSOLUTE)
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
      get_source_file_property(skips ${source} SKIP_PRECOMPILE_HEADERS)
      get_source_file_property(single ${source} SKIP_UNITY_BUILD_INCLUSION)
      string(FIND ${path} ${CMAKE_SOURCE_DIR}/ place)
      string(FIND ${path} ${CMAKE_BINARY_DIR}/ made)
      if(single OR options OR definitions OR skips OR NOT place EQUAL 0 OR made EQUAL 0 OR
         NOT path MATCHES "\\.cpp$" OR NOT GANTRAIN_UNITY)
        list(APPEND seen ${source})
        continue()
      endif()
      file(SIZE ${path} bytes)
      math(EXPR size "${size} + ${bytes}")
      file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${path})
      string(APPEND batch "#include \"${relative}\"\n")
    endif()
    if(batch AND (NOT source OR size GREATER GANTRAIN_UNITY_BYTES))
      set(file ${CMAKE_BINARY_DIR}/unity/${name}_${number}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${batch}" @ONLY)
      list(APPEND seen ${file})
      set(batch "")
      set(size 0)
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  set(${result} ${seen} PARENT_SCOPE)
endfunction()

# gantrain_library(TARGET KIND SOURCE...): add_library or, with KIND EXECUTABLE, add_executable, in batches.
function(gantrain_library target kind)
  gantrain_batches(sources ${target} ${ARGN})
  if(kind STREQUAL "EXECUTABLE")
    add_executable(${target} ${sources})
  else()
    add_library(${target} ${kind} ${sources})
  endif()
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
endfunction()

# gantrain_module(NAME [TORCH] [SOURCES a.cpp...] [OPTIONS b.cpp...] [PLAIN c.cpp...] [EXCEPT d.cpp...] [EXTRA made.cpp...]
#                 [LINKS target...])
# A static library gantrain_NAME of all sources below the folder but EXCEPT, or of SOURCES where they are given; EXTRA
# are generated ones. OPTIONS become gantrain_NAME_options, which knows no torch and which the thin executable
# links; PLAIN become gantrain_NAME_plain, compiled without LibTorch's headers. LINKS are public. Flags of
# single sources are set before the call. The modules and their levels: CONTRIBUTING.md.
function(gantrain_module name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;OPTIONS;PLAIN;EXCEPT;EXTRA;LINKS" ${ARGN})
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
    list(REMOVE_ITEM arg_SOURCES "" ${arg_OPTIONS} ${arg_PLAIN} ${arg_EXCEPT})
  endif()
  set(below ${arg_LINKS})
  if(arg_OPTIONS)
    gantrain_library(gantrain_${name}_options STATIC ${arg_OPTIONS})
    target_include_directories(gantrain_${name}_options PUBLIC ${CMAKE_SOURCE_DIR}/lib)
    target_link_libraries(gantrain_${name}_options PUBLIC gantrain_config)
    list(APPEND arg_LINKS gantrain_${name}_options)
  endif()
  if(arg_PLAIN)
    gantrain_library(gantrain_${name}_plain STATIC ${arg_PLAIN})
    target_include_directories(gantrain_${name}_plain PUBLIC ${CMAKE_SOURCE_DIR}/lib)
    target_link_libraries(gantrain_${name}_plain PUBLIC ${below})
    if(arg_OPTIONS)
      target_link_libraries(gantrain_${name}_plain PUBLIC gantrain_${name}_options)
    endif()
    list(APPEND arg_LINKS gantrain_${name}_plain)
  endif()
  gantrain_library(gantrain_${name} STATIC ${arg_SOURCES} ${arg_EXTRA})
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
    target_precompile_headers(gantrain_core PRIVATE <core/torch_pch.h>) # no path, for ccache
  else()
    target_precompile_headers(${target} REUSE_FROM gantrain_core)
  endif()
endfunction()

include(Test) # gantrain_test()
