# SPDX-License-Identifier: Apache-2.0
# gantrain_embed(RESULT FUNCTION PATTERN...): files of other languages than C++ that the program holds in itself, so
# that it needs none of them when it runs. RESULT becomes the name of a source that the build makes of all files that
# match the patterns, again whenever one changes. It defines, in namespace gantrain,
#   const EmbeddedFiles& FUNCTION();
# which has each file's bytes under its name without folder (util/text.h).
function(gantrain_embed result function)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/scripts/cmake/EmbedFiles.cmake)
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} "-DFILES=${files}" -DOUT=${made} -P ${script}
    DEPENDS ${files} ${script}
    VERBATIM)
  set(${result} ${made} PARENT_SCOPE)
endfunction()
