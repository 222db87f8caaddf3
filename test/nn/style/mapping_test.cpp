// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/tensors.h"
#include "nn/style/layers.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

MappingShape small() {
  MappingShape s;
  s.z_dim = 6;
  s.w_dim = 5;
  s.num_layers = 3;
  return s;
}

}  // namespace

TEST_CASE("OnlyTheDirectionOfZCounts") {
  StyleMapping map(small());
  initialise_style_layers(map, "G", 1);
  const Tensor z = normal(Stream(1, "z"), {0, 1, 3}, {6});
  CHECK(scaled_error(map.forward(z * 100, {}), map.forward(z, {})) < 1e-5);
}

TEST_CASE("LabelsAreLookedAtWhereThereAreClasses") {
  MappingShape s = small();
  s.c_dim = 4;
  StyleMapping map(s);
  initialise_style_layers(map, "G", 1);
  const Tensor z = torch::ones({2, 6});
  const Tensor w = map.forward(z, torch::tensor({0, 3}));
  CHECK(scaled_error(w[0], w[1]) > 1e-3);
  CHECK_THROWS(map.forward(z, {}));
  CHECK_THROWS(map.forward(z, torch::tensor({0, 4})));  // there is no fifth class
  // Without z the class alone decides, as in D.
  s.z_dim = 0;
  s.has_w_avg = false;
  StyleMapping embed(s);
  initialise_style_layers(embed, "D", 1);
  CHECK(embed.forward({}, torch::tensor({0, 3})).sizes() == at::IntArrayRef({2, 5}));
  CHECK(embed.named_buffers().is_empty());
}
