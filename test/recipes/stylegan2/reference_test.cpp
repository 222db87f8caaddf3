// SPDX-License-Identifier: Apache-2.0
// The parts of StyleGAN2 that other recipes share, in the reference's networks.
#include <catch2/catch.hpp>

#include "nn/style/styles.h"
#include "recipes/stylegan2/networks_of_fixtures.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

TEST_CASE("LogitsMatchTheReference") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Pair p(name, "io");
    p.D->eval();
    const Tensor real = p.D->forward(p["in/real"], p.labels("in/real_c"));
    const Tensor fake = p.D->forward(p["out/img_const"], p.labels("in/c"));
    CHECK(scaled_error(real, p["out/D_real_logits"]) < 5e-5);
    CHECK(scaled_error(fake, p["out/D_fake_logits"]) < 5e-5);
  }
}

TEST_CASE("ADiscriminatorsTensorsAreTheReferences") {
  for (const std::string name : {"uncond32", "cond32"}) {
    const Pair p(name, "io");
    check_same_layout(StyleDiscriminator(p.D_shape), p.D_tensors);
  }
}

TEST_CASE("TheMeanOfWMovesAsInTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    StyleMapping& map = *p.G->mapping;
    const Tensor before = map.w_avg.clone();
    const Tensor w = map.forward(p["in/z"], p.labels("in/c"));
    CHECK(torch::equal(map.w_avg, before));
    move_w_average_(map.w_avg, w.mean(0), map.shape.w_avg_beta);
    CHECK(scaled_error(map.w_avg, p["Gmain/w_avg_after"]) < 5e-5);
    CHECK_FALSE(map.w_avg.requires_grad());
  }
}
