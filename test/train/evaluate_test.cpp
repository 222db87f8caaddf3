// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"
#include "toy_recipe.h"

using namespace gantrain;

namespace {

std::unique_ptr<Generator> toy_generator() {
  return toy_row().make_generator({}, {{"weight", torch::zeros({5, 3 * 16 * 16})}}, "test");
}

std::shared_ptr<const Dataset> shapes() {
  DataOptions options;
  options.resolution = 16;
  options.synth_size = 40;
  return open_dataset(options);
}

}  // namespace

TEST_CASE("GridsAreTheSameAtEveryCall") {
  const auto generator = toy_generator();
  SampleOptions samples;
  samples.columns = 3;
  samples.rows = 2;
  Evaluation evaluation(*generator, shapes(), samples, {}, 1);
  const Image grid = evaluation.fake_grid();
  CHECK(grid.width == 48);
  CHECK(grid.height == 32);
  CHECK(grid.pixels == evaluation.fake_grid().pixels);
  CHECK(evaluation.real_grid().pixels == evaluation.real_grid().pixels);
  CHECK(grid.pixels != evaluation.real_grid().pixels);
}

TEST_CASE("EachMetricGivesItsResults") {
  const auto generator = toy_generator();
  MetricsOptions metrics;
  metrics.images = 32;
  Evaluation evaluation(*generator, shapes(), {}, metrics, 1);
  const std::vector<Json> lines = evaluation.measure().value();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["metric"] == "swd");
  CHECK(lines[0]["results"]["swd"].get<double>() > 0);
  CHECK(lines[1]["results"]["msssim"].get<double>() > 0);
  metrics.names = "none";
  CHECK(Evaluation(*generator, shapes(), {}, metrics, 1).measure()->empty());
}

TEST_CASE("MetricsAreGivenUpWhereverTheyAreInterrupted") {
  const auto generator = toy_generator();
  MetricsOptions metrics;
  metrics.images = 200;
  int64_t asked = 0;
  const auto count = [&] { return ++asked > 0; };
  REQUIRE(Evaluation(*generator, shapes(), {}, metrics, 1, count).measure());
  const int64_t all = asked;
  CHECK(all >= 6);  // pictures of both kinds, their patches, directions, similarities
  for (int64_t last = 0; last < all; ++last) {
    asked = 0;
    const auto until = [&] { return asked++ < last; };
    CHECK_FALSE(Evaluation(*generator, shapes(), {}, metrics, 1, until).measure());
  }
}
