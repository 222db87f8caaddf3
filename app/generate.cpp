// SPDX-License-Identifier: Apache-2.0
// The verbs that draw with a trained generator: generate and interpolate.
#include "core/tensors.h"
#include "draw/draw.h"
#include "exchange/model_file.h"
#include "ops/cuda_library.h"
#include "recipes.h"
#include "train/run_folder.h"
#include "trainer_verbs.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Loads the generator. The request's stage becomes the one that the model was saved in, unless
// another one was asked for.
std::unique_ptr<Generator> load(ModelRequest& request) {
  ModelFile model = load_generator(find_model(request.model), recipe_rows());
  if (request.cuda) move_to(*model.generator->network(), begin_on_gpu(0), at::kFloat);
  if (!request.level && !request.alpha) {
    request.level = model.level;
    request.alpha = model.alpha;
  }
  return std::move(model.generator);
}

// Returns what the next command must say about a conditional model.
const char* class_flag(const Generator& generator) {
  return generator.classes() > 0 ? " --class 0" : "";
}

}  // namespace

int generate(GenerateRequest request) {
  const std::unique_ptr<Generator> generator = load(request.how);
  (request.mix ? draw_mix : draw_pictures)(*generator, request);
  info("next    gantrain interpolate --model {} --seeds 0-3 --loop{}{} -o walk.webp",
       shell_quote(request.how.model),
       request.mix ? " --space w" : "",
       class_flag(*generator));
  return 0;
}

int interpolate(InterpolateRequest request) {
  const std::unique_ptr<Generator> generator = load(request.how);
  draw_walk(*generator, request);
  info("next    {}", generate_command(request.how.model, class_flag(*generator)));
  return 0;
}

}  // namespace gantrain
