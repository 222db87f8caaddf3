// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "nn/style/styles.h"
#include "official.h"
#include "recipes/stylegan1/recipe.h"
#include "util/text.h"

using namespace gantrain;
using stylegan1::Loss;

// Scores that the recipe does not report; the rest of the fixture is in recipe_test.cpp.
TEST_CASE("ScoresOfInterpolatedPicturesMatchTheOfficialCode") {
  stylegan1::OfficialPair official;
  const TensorFile reference = fixture("stylegan1_16_loss");
  stylegan1::LossOptions options;
  options.kind = Loss::kWganGp;
  int compared = 0;
  for (const auto& [key, expected] : reference.tensors) {
    if (!key.ends_with("/scores.mixed")) continue;
    CAPTURE(key);
    const std::vector<std::string> parts = split(key, '/');
    const StageLevel level{parse_int(parts[1]).value(), parse_double(parts[2].substr(1)).value()};
    const at::Tensor w = official.G.mapping->forward(reference.tensors.at("in/z" + parts[1]));
    const DiscriminatorLoss d =
        stylegan1::d_loss([&](const at::Tensor& x) { return official.D.forward(x, level); },
                          reference.tensors.at("in/img" + parts[1]),
                          official.images(for_all_layers(w, 6), level).detach(),
                          reference.tensors.at("in/mix" + parts[1]).reshape({-1, 1, 1, 1}),
                          {},
                          options,
                          16);
    CHECK(scaled_error(d.interpolated_scores.detach(), expected) < 1e-4);
    ++compared;
  }
  CHECK(compared == 3);
}

TEST_CASE("HingeAndWassersteinShareTheGeneratorsLoss") {
  const at::Tensor scores = torch::randn({8});
  stylegan1::LossOptions o;
  for (const Loss kind : {Loss::kHinge, Loss::kWganGp}) {
    o.kind = kind;
    CHECK(stylegan1::g_loss(scores, o).item<float>() == Approx(-scores.mean().item<float>()));
  }
}
