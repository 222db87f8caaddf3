// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"
#include "draw.h"
#include "model_file.h"
#include "trainer_verbs.h"

namespace gantrain {

namespace {

std::unique_ptr<Generator> generator_of(const Json& request) {
  std::unique_ptr<Generator> generator = load_generator(request.at("model").get<std::string>());
  if (request.at("cuda").get<bool>()) move_to(*generator->network(), at::kCUDA, at::kFloat);
  return generator;
}

}  // namespace

int generate(const Json& request) {
  const std::unique_ptr<Generator> generator = generator_of(request);
  (request.contains("mix") ? draw_mix : draw_pictures)(*generator, request);
  return 0;
}

int interpolate(const Json& request) {
  draw_walk(*generator_of(request), request);
  return 0;
}

}  // namespace gantrain
