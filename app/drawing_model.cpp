// SPDX-License-Identifier: Apache-2.0
#include "drawing_model.h"

#include "core/tensors.h"
#include "exchange/model_file.h"
#include "ops/cuda_library.h"
#include "recipes.h"
#include "train/run_folder.h"

namespace gantrain {

DrawingModel load_drawing_model(ModelRequest& request) {
  ModelFile model = load_generator(find_model(request.model), recipe_rows());
  if (request.cuda) move_to(*model.generator->network(), begin_on_gpu(0), at::kFloat);
  if (!request.level && !request.alpha) {
    request.level = model.level;
    request.alpha = model.alpha;
  }
  return {std::move(model.generator), std::move(model.classes)};
}

}  // namespace gantrain
