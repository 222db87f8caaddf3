// SPDX-License-Identifier: Apache-2.0
#include "support/stand_in_python.h"

#include "support/catch.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

fs::path stand_in_python(const TemporaryFolder& folder, const StandIn& says) {
  const fs::path path = folder / "python";
  write_file(path,
             "#!/bin/sh\nif [ \"$1\" = -c ]; then echo " + shell_quote(says.torch) +
                 "; exit; fi\necho \"$*\" >> " + shell_quote((folder / "calls").string()) +
                 "\necho a warning\necho " + shell_quote(says.answer) + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

nlohmann::ordered_json last_line(const Outcome& outcome) {
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return nlohmann::ordered_json::parse(split(trim(outcome.out), '\n').back());
}

}  // namespace gantrain
