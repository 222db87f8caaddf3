// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exchange/import.h"

namespace gantrain {

// The parts of the Python program that draws with a generator: "base.py", "growing.py" (layers that
// PGGAN and StyleGAN 1 share), "style.py" (the mapping of StyleGAN2 and 3), the recipe's and
// "command.py". Together, in this order, they are one file that needs only torch.
const EmbeddedFiles& python_files();

// Returns the whole program of these parts (RecipeFacts::python); "" where there are none.
std::string python_program(const std::vector<std::string>& parts);

// A model file that is exported.
struct ExportedModel {
  std::filesystem::path file;
  LoadedModel model;
  NamedTensors tensors;  // the generator's own
};

// Reads a model file. Throws UserError(kInput).
ExportedModel load_exported(const std::filesystem::path& file, const RecipeTable& recipes);

// Returns the content of config.json: all that the Python program, python_program(), must
// know to build the generator and to draw with it.
Json config_of(const ExportedModel& exported);

// Returns the content of self_test.json: a few seeds with values of their pictures.
Json self_test_of(ExportedModel& exported);

// Returns the lines with results of a run's metric-*.jsonl, file by file in the order of their
// names. A line that is half written is left out.
std::vector<std::vector<Json>> metric_rows(const std::filesystem::path& folder);

// Returns the model card README.md: what the model is, what it was trained on as its run says it,
// numbers, how to use it. `config` is config_of(). The licence is left for the user to fill in.
// Throws UserError(kInput) where the run's config.json is broken.
std::string card_of(const ExportedModel& exported, const Json& config);

}  // namespace gantrain
