// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"
#include "draw.h"
#include "model_file.h"
#include "trainer_verbs.h"

namespace gantrain {

namespace {

struct Drawn {
  std::unique_ptr<Generator> generator;
  Json request;  // with the stage that the model was saved in, unless another one was asked for
};

Drawn read(const Json& request) {
  ModelFile model = load_generator(request.at("model").get<std::string>());
  if (request.at("cuda").get<bool>()) move_to(*model.generator->network(), at::kCUDA, at::kFloat);
  Drawn drawn{std::move(model.generator), request};
  if (!request.contains("level") && !request.contains("alpha")) drawn.request.update(model.drawing);
  return drawn;
}

}  // namespace

int generate(const Json& request) {
  const Drawn drawn = read(request);
  (request.contains("mix") ? draw_mix : draw_pictures)(*drawn.generator, drawn.request);
  return 0;
}

int interpolate(const Json& request) {
  const Drawn drawn = read(request);
  draw_walk(*drawn.generator, drawn.request);
  return 0;
}

}  // namespace gantrain
