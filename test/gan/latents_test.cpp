// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "gan/phase.h"

using namespace gantrain;

namespace {

PhaseInput input(const Samples& samples, int64_t phase, int64_t iteration = 5) {
  PhaseInput in;
  in.real = torch::empty({0});  // z takes its type
  in.samples = samples;
  in.key = make_draw_key(3, iteration, phase, at::kCPU);
  return in;
}

}  // namespace

TEST_CASE("ASampleHasItsLatentsAndLabelWhateverBatchItIsIn") {
  const Latents draws(8, {1, 2, 5}, at::kCPU);
  const PhaseInput all = input({0, 1, 6}, 1), odd = input({1, 2, 3}, 1);
  const torch::Tensor z = draws.z(all), labels = draws.labels(all);
  CHECK(torch::equal(draws.z(odd), z.slice(0, 1, 6, 2)));
  CHECK(torch::equal(draws.labels(odd), labels.slice(0, 1, 6, 2)));
  CHECK_FALSE(torch::equal(draws.z(input({1, 2, 3}, 2)), draws.z(odd)));
  CHECK_FALSE(torch::equal(draws.z(odd, 1), draws.z(odd)));
}

TEST_CASE("LatentsHaveTheTypeOfTheNetworks") {
  PhaseInput in = input({0, 1, 2}, 0);
  const torch::Tensor narrow = Latents(8, {}, at::kCPU).z(in);
  in.real = torch::empty({0}, at::kDouble);
  const torch::Tensor wide = Latents(8, {}, at::kCPU).z(in);
  CHECK(wide.scalar_type() == at::kDouble);
  CHECK(torch::equal(wide, narrow.to(at::kDouble)));
}

TEST_CASE("LabelsComeAsOftenAsInTheData") {
  const Latents draws(8, {100, 0, 300}, at::kCPU);
  const torch::Tensor counts = torch::bincount(draws.labels(input({0, 1, 4000}, 0)), {}, 3);
  CHECK(counts[1].item<int64_t>() == 0);
  CHECK(counts[0].item<double>() == Approx(1000).margin(120));  // 4 standard deviations
  CHECK_FALSE(Latents(8, {}, at::kCPU).labels(input({0, 1, 4}, 0)).defined());
}

TEST_CASE("TheCutOffOfMixingLiesBetweenTheLayers") {
  const Latents draws(8, {}, at::kCPU);
  const auto cutoff = [&](int64_t iteration, double probability, int64_t layers) {
    return draws.mixing_cutoff(input({0, 1, 1}, 0, iteration), probability, layers).item<int64_t>();
  };
  std::vector<int64_t> seen(7, 0);
  for (int64_t i = 0; i < 600; ++i) ++seen[static_cast<size_t>(cutoff(i, 0.5, 6))];
  CHECK(seen[0] == 0);
  for (size_t layer = 1; layer < 6; ++layer) CHECK(seen[layer] > 30);  // about 60
  CHECK(seen[6] == Approx(300).margin(50));
  CHECK(cutoff(1, 1, 1) == 1);
  CHECK(cutoff(1, 0, 6) == 6);
}
