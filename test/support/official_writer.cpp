// SPDX-License-Identifier: Apache-2.0
#include "support/official_writer.h"

#include <cstdlib>

#include "support/catch.h"
#include "support/paths.h"
#include "util/text.h"

namespace gantrain {

bool write_official_pickle(const std::filesystem::path& out,
                           const std::string& set,
                           const std::string& options) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) {
    WARN("skipped: no python3, which writes the network pickles");
    return false;
  }
  const std::string script = source_folder() + "/test/exchange/write_official_pickle.py";
  const bool whole_name =
      set.starts_with("sg3_") || set.starts_with("r3gan_") || set.starts_with("proj_");
  const std::string weights =
      fixtures_folder() + "/" + (whole_name ? set : "sg2_" + set + "32") + "_";
  std::string command = "python3 " + shell_quote(script);
  command += " " + shell_quote(out.string());
  for (const char* network : {"G", "D"})
    command += " " + shell_quote(weights + network + ".safetensors");
  for (const std::string& option : split(options, ' ')) {
    if (!option.empty()) command += " " + shell_quote(option);
  }
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
  return true;
}

}  // namespace gantrain
