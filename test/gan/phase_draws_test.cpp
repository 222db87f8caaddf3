// SPDX-License-Identifier: Apache-2.0
#include "gan/phase_draws.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

using namespace gantrain;

namespace {

Batch samples(int64_t first, int64_t stride, int64_t count) {
  Batch b;
  b.samples = {first, stride, count};
  b.iteration = 5;
  return b;
}

}  // namespace

TEST_CASE("ASampleHasItsLatentsAndLabelWhateverBatchItIsIn") {
  const PhaseDraws draws(3, 8, {1, 2, 5});
  const torch::Tensor z = draws.z(samples(0, 1, 6), 1);
  const torch::Tensor labels = draws.labels(samples(0, 1, 6), 1, at::kCPU);
  const Batch odd = samples(1, 2, 3);
  CHECK(torch::equal(draws.z(odd, 1), z.slice(0, 1, 6, 2)));
  CHECK(torch::equal(draws.labels(odd, 1, at::kCPU), labels.slice(0, 1, 6, 2)));
  CHECK_FALSE(torch::equal(draws.z(odd, 2), draws.z(odd, 1)));
  CHECK_FALSE(torch::equal(draws.z(odd, 1, 1), draws.z(odd, 1)));
}

TEST_CASE("LabelsComeAsOftenAsInTheData") {
  const PhaseDraws draws(3, 8, {100, 0, 300});
  const torch::Tensor counts =
      torch::bincount(draws.labels(samples(0, 1, 4000), 0, at::kCPU), {}, 3);
  CHECK(counts[1].item<int64_t>() == 0);
  CHECK(counts[0].item<double>() == Approx(1000).margin(120));  // 4 standard deviations
  CHECK_FALSE(PhaseDraws(3, 8, {}).labels(samples(0, 1, 4), 0, at::kCPU).defined());
}

TEST_CASE("TheCutOffOfMixingLiesBetweenTheLayers") {
  const PhaseDraws draws(3, 8, {});
  std::vector<int64_t> seen(7, 0);
  for (int64_t i = 0; i < 600; ++i) ++seen[static_cast<size_t>(draws.mixing_cutoff(i, 0, 0.5, 6))];
  CHECK(seen[0] == 0);
  for (size_t layer = 1; layer < 6; ++layer) CHECK(seen[layer] > 30);  // about 60
  CHECK(seen[6] == Approx(300).margin(50));
  CHECK(draws.mixing_cutoff(1, 0, 1, 1) == 1);
  CHECK(draws.mixing_cutoff(1, 0, 0, 6) == 6);
}
