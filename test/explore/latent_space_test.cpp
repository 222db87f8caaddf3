// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "core/torch.h"
#include "explore/projector.h"
#include "support/toy_generator.h"

namespace gantrain {
namespace {

const at::Tensor kFirst = torch::arange(3);

LatentSpace space_of(ToyGenerator& generator,
                     ProjectionSpace space,
                     const std::vector<int64_t>& labels = {}) {
  return {generator, {}, space, labels};
}

}  // namespace

TEST_CASE("SamplesOfZAreNumpysStreamAndThoseOfWTheirMapping") {
  ToyGenerator generator;
  const LatentSpace z = space_of(generator, ProjectionSpace::kZ);
  const LatentSpace w = space_of(generator, ProjectionSpace::kW);
  REQUIRE(z.samples().sizes() == at::IntArrayRef({10000, 4}));
  // numpy.random.RandomState(123).randn(4)
  CHECK(z.samples()[0].allclose(torch::tensor({-1.0856306, 0.99734545, 0.2829785, -1.50629471})));
  REQUIRE(w.samples().sizes() == at::IntArrayRef({10000, 1, 4}));
  const at::Tensor mapped = generator.map(z.samples(), {}, {});
  CHECK(w.samples().select(1, 0).equal(mapped.select(1, 0)));
}

TEST_CASE("TheDeviationIsThatOfTheSamples") {
  ToyGenerator generator;
  const LatentSpace w = space_of(generator, ProjectionSpace::kW);
  // w = z / 2 + 1/4 in 4 dimensions.
  CHECK(w.deviation() == Approx(std::sqrt(4 * 0.25)).epsilon(0.02));
}

TEST_CASE("AllSpacesDrawTheSamePictureOfASample") {
  ToyGenerator generator;
  const LatentSpace z = space_of(generator, ProjectionSpace::kZ);
  const at::Tensor expected = generator.images(z.samples().narrow(0, 0, 3), {}, {});
  for (const ProjectionSpace kind :
       {ProjectionSpace::kZ, ProjectionSpace::kW, ProjectionSpace::kWPlus}) {
    const LatentSpace space = space_of(generator, kind);
    const at::Tensor latents = space.unfolded(space.samples().narrow(0, 0, 3));
    CHECK(space.pictures(latents, {}, false).equal(expected));
    if (kind == ProjectionSpace::kZ) continue;
    CHECK(space.for_files(latents).sizes() == at::IntArrayRef({3, 3, 4}));
    CHECK(latents.size(1) == (kind == ProjectionSpace::kW ? 1 : 3));
  }
}

TEST_CASE("SamplesTakeTheClassesInTurn") {
  ToyGenerator generator({.classes = 5});
  const LatentSpace space = space_of(generator, ProjectionSpace::kW, {4, 2});
  CHECK(space.labels_of(kFirst).equal(torch::tensor({4, 2, 4})));
  const LatentSpace z = space_of(generator, ProjectionSpace::kZ, {4, 2});
  const at::Tensor mapped =
      generator.map(z.samples().narrow(0, 0, 3), torch::tensor({4, 2, 4}), {});
  CHECK(space.samples().narrow(0, 0, 3).select(1, 0).equal(mapped.select(1, 0)));
  ToyGenerator plain;
  CHECK(!space_of(plain, ProjectionSpace::kW).labels_of(kFirst).defined());
}

}  // namespace gantrain
