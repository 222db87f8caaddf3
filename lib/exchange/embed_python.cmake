# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=python -DOUT=python_generated.cpp -P embed_python.cmake
file(GLOB files ${FOLDER}/*.py)
list(SORT files)
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "      {\"${name}\", R\"python(${text})python\"},\n")
endforeach()
file(WRITE ${OUT}.new "// Made from python/*.py by embed_python.cmake.
#include <map>
#include <stdexcept>

#include \"exchange/export.h\"

namespace gantrain {

std::string_view python_source(std::string_view part) {
  static const std::map<std::string_view, std::string_view> all = {
${rows}  };
  const auto found = all.find(part);
  if (found == all.end()) throw std::logic_error(\"no Python source \" + std::string(part));
  return found->second;
}

}  // namespace gantrain
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
