# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=presets -DOUT=presets_generated.cpp -P embed_presets.cmake
file(GLOB files ${FOLDER}/*.json)
list(SORT files)
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "      {\"${name}\", R\"preset(${text})preset\"},\n")
endforeach()
file(WRITE ${OUT}.new "// Made from presets/*.json by embed_presets.cmake.
#include \"config/config.h\"

namespace gantrain {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
${rows}  };
  return all;
}

}  // namespace gantrain
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
