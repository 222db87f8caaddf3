// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli.h"
#include "config/message.h"
#include "trainer_library.h"
#include "util/error.h"
#include "verb_requests.h"

namespace gantrain {

int export_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "A folder that others can use without gantrain: the generator's weights, one PyTorch file "
      "that draws the same pictures (and exports itself to ONNX), a test of itself, and a model "
      "card.",
      "gantrain export");
  ExportRequest request;
  app.add_option("MODEL,--model", request.model, "model file, or a run: its newest model");
  app.add_option("--to", request.to, "what for: python (the only one so far)")
      ->capture_default_str();
  app.add_option("-o,--output", request.output, "folder to write");
  if (!parse(app, arguments)) return 0;
  if (request.model.empty())
    fail(Exit::kUsage, "export: which model? gantrain export RUN --to python -o DIR");
  if (request.to != "python") fail(Exit::kUsage, "--to {}: python is allowed", request.to);
  if (request.output.empty()) fail(Exit::kUsage, "export: where to? -o DIR");
  return call_trainer("export", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
