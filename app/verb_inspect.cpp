// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli.h"
#include "config/message.h"
#include "trainer_library.h"
#include "util/error.h"
#include "verb_requests.h"

namespace gantrain {

int inspect_file_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "What is in a file or a run: its kind, where it comes from, its parts, and of each tensor "
      "shape, type, norm, bounds and values that are not finite.",
      "gantrain inspect");
  InspectFileRequest request;
  std::vector<std::string> both;
  app.add_option("PATH", request.path, "a model, state, pickle, array, picture or run folder");
  app.add_option("--diff", both, "A B: what differs between two of them")
      ->expected(2)
      ->type_name("A B");
  app.add_flag("--json", request.json, "one JSON line on standard output");
  if (!parse(app, arguments)) return 0;
  if (!both.empty() && !request.path.empty())
    fail(Exit::kUsage, "inspect: either {} or --diff A B", request.path);
  if (!both.empty()) {
    request.path = both[0];
    request.other = both[1];
  }
  if (request.path.empty())
    fail(Exit::kUsage, "inspect: what? gantrain inspect FILE, or --diff A B");
  return call_trainer("inspect", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
