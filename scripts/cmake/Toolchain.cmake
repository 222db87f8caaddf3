# SPDX-License-Identifier: Apache-2.0
# -fPIC everywhere (static modules end up in the trainer library, and one precompiled header
# serves them all, which needs equal flags).
add_compile_options(-fPIC -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-dangling-pointer -Wno-maybe-uninitialized)
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
if(GANTRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
