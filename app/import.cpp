// SPDX-License-Identifier: Apache-2.0
#include "exchange/import.h"

#include "exchange/model_file.h"
#include "recipes.h"
#include "train/run_folder.h"
#include "trainer_verbs.h"
#include "util/log.h"

namespace gantrain {

int import_model(const ImportRequest& request) {
  const ModelContent imported = import_weights(request.input, request.recipe, recipe_rows());
  save_model(request.output, imported);
  info("{}: {}", request.output, describe_model(imported));
  info("next    {}", generate_command(request.output));
  return 0;
}

}  // namespace gantrain
