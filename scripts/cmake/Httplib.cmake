# SPDX-License-Identifier: Apache-2.0
# Target Httplib::httplib. GANTRAIN_HTTPLIB is a folder with cpp-httplib's whole header, which is then compiled without
# OpenSSL and brotli (scripts/build.sh gives it: setup_sources.sh); else it is the distribution's library, whose macros
# decide on the layout of its classes.
set(GANTRAIN_HTTPLIB "" CACHE PATH "folder with the whole header of cpp-httplib; empty: the distribution's library")
if(GANTRAIN_HTTPLIB)
  add_library(Httplib::httplib INTERFACE IMPORTED)
  target_include_directories(Httplib::httplib SYSTEM INTERFACE ${GANTRAIN_HTTPLIB})
  # poll, as Debian's has it: select writes past its set where a descriptor's number is above 1023.
  target_compile_definitions(Httplib::httplib INTERFACE CPPHTTPLIB_USE_POLL CPPHTTPLIB_ZLIB_SUPPORT)
  target_link_libraries(Httplib::httplib INTERFACE ZLIB::ZLIB)
else()
  pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
  add_library(Httplib::httplib ALIAS PkgConfig::httplib)
endif()
