// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "config/value.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

int import_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "A model file of foreign weights: network pickles of StyleGAN2-ADA (PyTorch) and of "
      "StyleGAN2 in StyleGAN3's repository (nothing in them is executed), and, with --recipe, "
      "safetensors with the official variables of PGGAN and StyleGAN v1.",
      "gantrain import");
  std::string input, output, recipe;
  app.add_option("FILE", input, "network pickle (.pkl), or safetensors with --recipe");
  app.add_option("-o,--output", output, "model file to write (.safetensors)");
  app.add_option("--recipe",
                 recipe,
                 "model family of FILE, where the file does not say it: pggan or stylegan1");
  if (!parse(app, arguments)) return 0;
  if (input.empty()) fail(Exit::kUsage, "import: which file? gantrain import FILE -o MODEL");
  if (output.empty()) fail(Exit::kUsage, "import: where to? -o MODEL.safetensors");
  if (!ends_with(lower(output), ".safetensors"))
    fail(Exit::kUsage, "-o {}: give a name ending in .safetensors", output);
  std::error_code error;
  if (!std::filesystem::is_regular_file(input, error))
    fail(Exit::kInput, "{}: no such file; a network pickle (.pkl) is needed", input);
  const Json request = {{"input", input}, {"output", output}, {"recipe", recipe}};
  return call_trainer("import", request.dump(), /*cuda=*/false);
}

}  // namespace gantrain
