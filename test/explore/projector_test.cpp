// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/tensors.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "explore/projection.h"
#include "support/catch.h"
#include "support/toy_generator.h"

namespace gantrain {

namespace {

constexpr ProjectorOptions kFast = {
    .steps = 200, .lr = 0.1, .starts = 2, .tried = 50, .seed = 1, .frames = 10};

// Pictures of two seeds and what is found of them.
struct Problem {
  explicit Problem(ProjectionSpace kind, ToyAbilities abilities = {})
      : generator(std::move(abilities)),
        space(generator, {}, kind, two_labels()),
        targets(generator.images(latents_of_seeds({11, 12}, 4), two_labels(), {})) {}

  at::Tensor two_labels() const {
    return generator.classes() > 0 ? torch::tensor({0, 1}) : at::Tensor();
  }
  Projector projector(const ProjectorOptions& options = kFast) const {
    return {space, targets, options};
  }

  ToyGenerator generator;
  LatentSpace space;
  at::Tensor targets;
};

void run(Projector& projector) {
  while (!projector.finished()) projector.step();
}

std::map<std::string, at::Tensor> copied(const NamedTensors& state) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, tensor] : state) copies[name] = tensor.clone();
  return copies;
}

}  // namespace

TEST_CASE("APictureOfTheGeneratorIsFoundAgainInEverySpace") {
  const auto kind = GENERATE(ProjectionSpace::kZ, ProjectionSpace::kW, ProjectionSpace::kWPlus);
  const Problem problem(kind);
  ProjectorOptions options = kFast;
  options.steps = 500;
  Projector projector = problem.projector(options);
  projector.begin();
  const double before =
      (projector.pictures(projector.latents()) - problem.targets).square().mean().item<double>();
  run(projector);
  const at::Tensor found = projector.pictures(projector.latents());
  const double after = (found - problem.targets).square().mean().item<double>();
  CHECK(after < 1e-4);
  CHECK(after < before / 100);
}

TEST_CASE("AStateGoesOnWithTheSameBits") {
  const Problem problem(ProjectionSpace::kW);
  Projector whole = problem.projector();
  whole.begin();
  const int64_t stop_at = GENERATE(1, 49, 50, 51, 150);
  std::map<std::string, at::Tensor> state;
  while (!whole.finished()) {
    if (whole.steps_done() == stop_at) state = copied(whole.state());
    whole.step();
  }
  Projector resumed = problem.projector();
  resumed.load_state(state);
  CHECK(resumed.steps_done() == stop_at);
  run(resumed);
  CHECK(resumed.latents().equal(whole.latents()));
  CHECK(resumed.way().equal(whole.way()));
}

TEST_CASE("WhatIsFoundDoesNotDependOnTheGroups") {
  const Problem problem(ProjectionSpace::kWPlus);
  ProjectorOptions options = kFast;
  options.steps = 40;
  std::vector<at::Tensor> found, ways;
  for (const int64_t group : {0, 1, 3}) {
    options.group = group;
    Projector projector = problem.projector(options);
    int64_t largest = 0;
    projector.add_loss([&](const at::Tensor& pictures, const at::Tensor& rows) {
      if (pictures.requires_grad()) largest = std::max(largest, pictures.size(0));
      return torch::zeros_like(rows, at::kFloat);
    });
    projector.begin();
    for (int i = 0; i < 12; ++i) projector.step();
    CHECK(largest == (group == 0 ? 4 : group));  // two targets from two starts each
    found.push_back(projector.pictures(projector.latents()));
    ways.push_back(projector.way());
  }
  for (const size_t i : {1, 2}) {
    CHECK(found[i].allclose(found[0], 1e-3, 1e-3));
    CHECK(ways[i].allclose(ways[0], 1e-3, 1e-3));
  }
}

TEST_CASE("TheWayEndsAtTheResult") {
  const Problem problem(ProjectionSpace::kWPlus);
  Projector projector = problem.projector();
  CHECK(!projector.way().defined());
  projector.begin();
  run(projector);
  REQUIRE(projector.way().dim() == 4);
  CHECK(projector.way().size(0) == 11);
  CHECK(projector.way()[10].equal(projector.latents()));
}

TEST_CASE("InZTheClassIsFoundToo") {
  const Problem problem(ProjectionSpace::kZ, {.num_ws = 0, .classes = 2});
  ProjectorOptions options = kFast;
  options.starts = 8;
  Projector projector = problem.projector(options);
  projector.begin();
  run(projector);
  REQUIRE(projector.labels().defined());
  CHECK(projector.labels().sizes() == at::IntArrayRef({2}));
  const at::Tensor found = projector.pictures(projector.latents());
  CHECK((found - problem.targets).square().mean().item<double>() < 1e-4);
}

TEST_CASE("AFurtherLossCounts") {
  const Problem problem(ProjectionSpace::kW);
  Projector plain = problem.projector(), pulled = problem.projector();
  // It draws all pictures towards black.
  pulled.add_loss([](const at::Tensor& pictures, const at::Tensor&) {
    return (pictures + 1).square().mean({1, 2, 3}) * 10;
  });
  plain.begin();
  pulled.begin();
  run(plain);
  run(pulled);
  const auto brightness = [](Projector& projector) {
    return projector.pictures(projector.latents()).mean().item<double>();
  };
  CHECK(brightness(pulled) < brightness(plain) - 0.1);
}

namespace {

at::Tensor pictures(const std::string& purpose, int64_t height = 16, int64_t width = 8) {
  return normal_like(torch::empty({2, 3, height, width}), 1, purpose);
}

const at::Tensor kBoth = torch::arange(2);

}  // namespace

TEST_CASE("TheLossOfTheTargetIsZeroAndOfNothingElse") {
  const at::Tensor targets = pictures("a");
  const PyramidLoss loss(targets);
  CHECK(loss(targets, kBoth).equal(torch::zeros({2})));
  CHECK(loss(pictures("b"), kBoth).min().item<double>() > 0);
}

TEST_CASE("RowsChooseTheTarget") {
  const at::Tensor targets = pictures("a");
  const PyramidLoss loss(targets);
  const at::Tensor swapped = loss(targets.flip(0), torch::tensor({1, 0}));
  CHECK(swapped.equal(torch::zeros({2})));
  CHECK(loss(targets.flip(0), kBoth).min().item<double>() > 0);
}

TEST_CASE("BeyondBlackAndWhiteNothingCounts") {
  const at::Tensor row = torch::zeros({1}, at::kLong);
  const at::Tensor white = torch::ones({1, 1, 8, 8});
  CHECK(PyramidLoss(white)(white * 1.7, row).item<double>() == 0);
  CHECK(PyramidLoss(-white)(white * -1.7, row).item<double>() == 0);
  CHECK(PyramidLoss(white)(white * -1.7, row).item<double>() > 0);
  CHECK(PyramidLoss(white * 0.9)(white * 1.7, row).item<double>() > 0);
}

TEST_CASE("EveryScaleCounts") {
  const at::Tensor targets = torch::zeros({1, 1, 8, 8});
  const PyramidLoss loss(targets);
  const at::Tensor row = torch::zeros({1}, at::kLong);
  // A checkerboard is gone at half the size; a flat change is seen on both levels, 8 and 4.
  const at::Tensor line = torch::arange(8).remainder(2).to(at::kFloat) * 2 - 1;
  const at::Tensor board = (line.view({8, 1}) * line).view({1, 1, 8, 8});
  CHECK(loss(board, row).item<double>() == Approx(1));
  CHECK(loss(torch::ones_like(board), row).item<double>() == Approx(2));
}

namespace {

const at::Tensor kFirst = torch::arange(3);

LatentSpace space_of(ToyGenerator& generator,
                     ProjectionSpace space,
                     const std::vector<int64_t>& labels = {}) {
  return {generator, {}, space, labels.empty() ? at::Tensor() : torch::tensor(labels)};
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
