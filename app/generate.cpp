// SPDX-License-Identifier: Apache-2.0
// The verbs that draw with a trained generator: generate and interpolate.
#include "draw/draw.h"
#include "drawing_model.h"
#include "train/run_folder.h"
#include "trainer_verbs.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Returns what the next command must say to draw the same classes.
std::string class_flag(const ModelRequest& request) {
  return request.classes.empty() ? "" : " --class " + shell_quote(request.classes);
}

}  // namespace

int generate(GenerateRequest request) {
  const DrawingModel model = load_drawing_model(request.how);
  (request.mix ? draw_mix : draw_pictures)(*model.generator, request, model.classes);
  info("next    gantrain interpolate --model {} --seeds 0-3 --loop{}{} -o walk.webp",
       shell_quote(request.how.model),
       request.mix ? " --space w" : "",
       class_flag(request.how));
  return 0;
}

int interpolate(InterpolateRequest request) {
  const DrawingModel model = load_drawing_model(request.how);
  draw_walk(*model.generator, request, model.classes);
  info("next    {}", generate_command(request.how.model, class_flag(request.how)));
  return 0;
}

}  // namespace gantrain
