// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "core/safetensors.h"
#include "exchange/model_file.h"

namespace gantrain {

// A model file that is exported.
struct ExportedModel {
  std::filesystem::path file;
  std::string recipe;
  ModelFile model;
  std::map<std::string, std::string> metadata;  // of the file
  NamedTensors tensors;                         // the generator's own
};

// Reads a model file, or the newest of a run. Throws UserError(kInput).
ExportedModel load_exported(const std::string& file_or_run);

// Returns the content of config.json: all that the Python program (exchange/python_source.h) must
// know to build the generator and to draw with it.
Json config_of(const ExportedModel& exported);

// Returns the content of self_test.json: a few seeds with values of their pictures.
Json self_test_of(ExportedModel& exported);

}  // namespace gantrain
