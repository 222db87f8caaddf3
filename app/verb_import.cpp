// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "config/message.h"
#include "schema.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"
#include "verb_requests.h"

namespace gantrain {

int import_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "A model file of foreign weights: network pickles of StyleGAN2-ADA (PyTorch), StyleGAN3 and "
      "R3GAN (nothing in them is executed), and, with --recipe, safetensors with the official "
      "variables of PGGAN and StyleGAN v1.",
      "gantrain import");
  ImportRequest request;
  std::vector<std::string> known;
  for (const RecipeFacts& recipe : recipe_facts()) {
    if (recipe.has_official_names) known.push_back(recipe.name);
  }
  app.add_option("FILE", request.input, "network pickle (.pkl), or safetensors with --recipe");
  app.add_option("-o,--output", request.output, "model file to write (.safetensors)");
  app.add_option("--recipe",
                 request.recipe,
                 "model family of safetensors, which do not say it: " + join(known, " or ") +
                     "; of a pickle, what it has to be");
  if (!parse(app, arguments)) return 0;
  if (request.input.empty())
    fail(Exit::kUsage, "import: which file? gantrain import FILE -o MODEL");
  if (request.output.empty()) fail(Exit::kUsage, "import: where to? -o MODEL.safetensors");
  if (!ends_with(lower(request.output), ".safetensors"))
    fail(Exit::kUsage, "-o {}: give a name ending in .safetensors", request.output);
  std::error_code error;
  if (!std::filesystem::is_regular_file(request.input, error))
    fail(Exit::kInput, "{}: no such file; a network pickle (.pkl) is needed", request.input);
  return call_trainer("import", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
