# SPDX-License-Identifier: Apache-2.0
# -fPIC everywhere (static modules end up in the trainer library, and one precompiled header
# serves them all, which needs equal flags).
add_compile_options(-fPIC -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-dangling-pointer -Wno-maybe-uninitialized)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13) # takes held(context, "name") for a reference into the name
    add_compile_options(-Wno-dangling-reference)
  endif()
endif()
# g++ switches these on with -O2 and not with -O1; from 13 and 14 on it takes no precompiled header that was made with the other.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  include(CheckCXXCompilerFlag)
  foreach(flag -munroll-only-small-loops -mvzeroupper) # not on every machine
    string(MAKE_C_IDENTIFIER "GANTRAIN_HAS${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
      add_compile_options(${flag})
    endif()
  endforeach()
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

if(GANTRAIN_FUZZ)
  # The fuzz targets add libFuzzer's own main(). vptr would need the type information of LibTorch.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
elseif(GANTRAIN_SANITIZE)
  # scripts/sanitize.sh. vptr would need the type information of LibTorch.
  add_compile_options(-fsanitize=${GANTRAIN_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${GANTRAIN_SANITIZE})
endif()

find_program(GANTRAIN_CCACHE ccache)
if(GANTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Sloppiness that precompiled headers need: ccache's manual, "Precompiled headers". CCACHE_DEPEND takes
  # the headers from the compiler's .d file instead of preprocessing first: half again as many files a minute.
  # Paths below the checkout are taken relative to it, so that another checkout finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${GANTRAIN_CCACHE})
  set(CMAKE_PCH_INSTANTIATE_TEMPLATES OFF)
endif()

find_program(GANTRAIN_MOLD mold)
# g++ knows its name from 12 on; a cross compiler looks for one with a name of its own.
if(GANTRAIN_MOLD AND NOT CMAKE_CROSSCOMPILING AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
  add_link_options(-fuse-ld=mold)
endif()
