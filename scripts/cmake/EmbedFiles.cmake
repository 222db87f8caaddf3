# SPDX-License-Identifier: Apache-2.0
# cmake -DFUNCTION=python_files "-DFILES=a.py;b.py" -DOUT=python_files.cpp -P EmbedFiles.cmake
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${file}: )embedded\" would end the literal that holds this file")
  endif()
  string(APPEND rows "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE ${OUT}.new "// Made by scripts/cmake/Embed.cmake.
#include \"util/text.h\"

namespace gantrain {

const EmbeddedFiles& ${FUNCTION}() {
  static const EmbeddedFiles files = {
${rows}  };
  return files;
}

}  // namespace gantrain
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
