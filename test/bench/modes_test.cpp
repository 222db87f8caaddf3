// SPDX-License-Identifier: Apache-2.0
// Counting the modes of stacked pictures.
#include "bench/modes.h"

#include <cmath>

#include "bench/requests.h"
#include "core/torch.h"
#include "data/options.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

// Four classes that differ in where they are bright, 16 pixels a side.
ClassPictures quarters(int64_t pictures) {
  ClassPictures made{
      at::zeros({pictures, 16, 16}, at::kByte), at::arange(pictures, at::kLong).remainder(4), 4};
  for (int64_t i = 0; i < pictures; ++i) {
    const int64_t label = i % 4;
    made.pictures[i]
        .narrow(0, 8 * (label / 2), 8)
        .narrow(1, 8 * (label % 2), 8)
        .fill_(128 + i % 100);
  }
  return made;
}

TEST_CASE("ModesAreCountedAndTheirDivergenceIsThatOfTheDefinition") {
  const at::Tensor even = at::arange(1000, at::kLong);
  CHECK(count_modes(even, 1000).modes == 1000);
  CHECK_THAT(count_modes(even, 1000).kl, Catch::Matchers::WithinAbs(0, 1e-12));
  const at::Tensor one = at::full({500}, 7, at::kLong);
  CHECK(count_modes(one, 1000).modes == 1);
  CHECK_THAT(count_modes(one, 1000).kl, Catch::Matchers::WithinAbs(std::log(1000.), 1e-12));
  // 3/4 and 1/4 of two modes of four: 3/4 log 3 + 1/4 log 1.
  const ModeCount uneven = count_modes(at::tensor({0, 0, 0, 3}, at::kLong), 4);
  CHECK(uneven.modes == 2);
  CHECK_THAT(uneven.kl, Catch::Matchers::WithinAbs(0.75 * std::log(3.), 1e-12));
}

TEST_CASE("EvenSamplesHaveAboutTheDivergenceOfTheFormula") {
  const at::Tensor drawn = at::randint(
      0, 1000, {26000}, at::make_generator<at::CPUGeneratorImpl>(1), at::TensorOptions(at::kLong));
  const CountedModes even{.samples = 26000, .classes = 10};
  REQUIRE(even.all() == 1000);
  CHECK_THAT(even.kl_of_even_samples(), Catch::Matchers::WithinAbs(0.0192, 5e-5));
  CHECK_THAT(count_modes(drawn, 1000).kl,
             Catch::Matchers::WithinRel(even.kl_of_even_samples(), 0.15));
}

TEST_CASE("TheClassifierTellsTheModesOfStackedPictures") {
  const ClassPictures known = quarters(256);
  ModeClassifier classifier(4, 16, /*seed=*/1);
  classifier.train(known, /*epochs=*/4, /*seed=*/1);
  CHECK(classifier.accuracy(quarters(64)) == 1);
  const at::Tensor stacked = stack_pictures(known, 640, /*seed=*/2);
  REQUIRE(stacked.sizes() == at::IntArrayRef({640, 16, 16, 3}));
  CHECK(stacked.equal(stack_pictures(known, 640, 2)));
  CHECK_FALSE(stacked.equal(stack_pictures(known, 640, 3)));
  const at::Tensor modes = modes_of(classifier, stacked.permute({0, 3, 1, 2}).contiguous(), 4);
  // The corner that is bright in each channel says which mode it is.
  for (int64_t i = 0; i < 20; ++i) {
    int64_t mode = 0;
    for (int64_t channel = 0; channel < 3; ++channel) {
      const at::Tensor picture = stacked[i].select(2, channel);
      int64_t bright = 0;
      for (int64_t k = 0; k < 4; ++k) {
        if (picture[8 * (k / 2)][8 * (k % 2)].item<int64_t>() > 0) bright = k;
      }
      mode = 4 * mode + bright;
    }
    CHECK(modes[i].item<int64_t>() == mode);
  }
  CHECK(count_modes(modes, 64).modes == 64);
  ModeClassifier other(4, 16, /*seed=*/9);
  const NamedTensors weights = classifier.weights();
  other.set_weights({weights.begin(), weights.end()});
  CHECK(other.classify(known.pictures).equal(known.labels));
}

}  // namespace
