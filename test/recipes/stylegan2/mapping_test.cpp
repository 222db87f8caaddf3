// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/mapping.h"

#include <catch2/catch.hpp>

#include "recipes/stylegan2/networks.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

namespace {

MappingShape small() {
  MappingShape s;
  s.z_dim = 6;
  s.w_dim = 5;
  s.num_layers = 3;
  return s;
}

}  // namespace

TEST_CASE("TheMeanOfWMovesAsInTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    Mapping& map = *p.G->mapping;
    const Tensor before = map.w_avg.clone();
    const Tensor w = map.forward(p["in/z"], p.labels("in/c"));
    CHECK(torch::equal(map.w_avg, before));
    map.move_w_avg(w.mean(0));
    CHECK(scaled_error(map.w_avg, p["Gmain/w_avg_after"]) < 5e-5);
    CHECK_FALSE(map.w_avg.requires_grad());
  }
}

TEST_CASE("TheMeanOfWSettlesAtTheMean") {
  MappingShape s = small();
  s.w_avg_beta = 0.5;
  Mapping map(s);
  const Tensor mean = torch::arange(5).to(at::kFloat);
  map.move_w_avg(mean);
  CHECK(torch::allclose(map.w_avg, mean / 2));
  for (int i = 0; i < 30; ++i) map.move_w_avg(mean);
  CHECK(torch::allclose(map.w_avg, mean));
}

TEST_CASE("TruncationMovesTheFirstLayersTowardsTheMean") {
  Mapping map(small());
  map.move_w_avg(torch::ones({5}));
  const Tensor ws = normal(Stream(1, "ws"), {0, 1, 2}, {4, 5});
  CHECK(torch::equal(map.truncated(ws, 1, std::nullopt), ws));
  const Tensor all = map.truncated(ws, 0, std::nullopt);
  CHECK(torch::allclose(all, map.w_avg.expand({2, 4, 5})));
  const Tensor some = map.truncated(ws, -0.5, 1);
  CHECK(torch::equal(some.narrow(1, 1, 3), ws.narrow(1, 1, 3)));
  CHECK(torch::allclose(some.select(1, 0), map.w_avg * 1.5 - ws.select(1, 0) * 0.5));
  CHECK(torch::equal(map.truncated(ws, 0.5, 0), ws));
  CHECK(map.truncated(ws, 0.5, 99).sizes() == ws.sizes());
}

TEST_CASE("OnlyTheDirectionOfZCounts") {
  Mapping map(small());
  initialise(map, "G", 1);
  const Tensor z = normal(Stream(1, "z"), {0, 1, 3}, {6});
  CHECK(scaled_error(map.forward(z * 100, {}), map.forward(z, {})) < 1e-5);
}

TEST_CASE("LabelsAreLookedAtWhereThereAreClasses") {
  MappingShape s = small();
  s.c_dim = 4;
  Mapping map(s);
  initialise(map, "G", 1);
  const Tensor z = torch::ones({2, 6});
  const Tensor w = map.forward(z, torch::tensor({0, 3}));
  CHECK(scaled_error(w[0], w[1]) > 1e-3);
  CHECK_THROWS(map.forward(z, {}));
  // Without z the class alone decides, as in D.
  s.z_dim = 0;
  s.has_w_avg = false;
  Mapping embed(s);
  initialise(embed, "D", 1);
  CHECK(embed.forward({}, torch::tensor({0, 3})).sizes() == at::IntArrayRef({2, 5}));
  CHECK(embed.named_buffers().is_empty());
}
