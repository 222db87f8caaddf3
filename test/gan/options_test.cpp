// SPDX-License-Identifier: Apache-2.0
#include "gan/options.h"

#include <catch2/catch.hpp>

#include "config/config.h"
#include "support/covered_fixture.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Both {
  PlayerOptions G, D;
};
template <class Field>
void fields(Both& o, Field&& field) {
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

}  // namespace

// The schedules of the official R3GAN presets: cosines over the first burn-in images.
TEST_CASE("CosineRampsAreTheReferences") {
  CoveredFixture f("r3gan_schedules");
  for (const std::string preset : {"CIFAR10", "FFHQ-256", "ImageNet-64"}) {
    const Tensor images = f[preset + "/nimg"];
    const auto burn_in = static_cast<int64_t>(images[6].item<double>());
    for (const std::string name : {"lr", "beta2", "gamma", "ema", "aug"}) {
      CAPTURE(preset, name);
      const Tensor expected = f[preset + "/" + name];
      const Scheduled ramp(expected[0].item<double>(),
                           expected[-1].item<double>(),
                           Kimg{burn_in},
                           RampShape::kCosine);
      Tensor actual = torch::empty_like(expected);
      for (int64_t i = 0; i < images.size(0); ++i)
        actual[i] = ramp.at(static_cast<int64_t>(images[i].item<double>()));
      CHECK(scaled_error(actual, expected) < 1e-12);
    }
  }
  CHECK(f.unused().empty());
}

TEST_CASE("RatesAndMomentsOfAPlayerMayBeRamps") {
  Schema schema;
  add_keys<Both>(schema);
  Config config(schema);
  for (const char* key : {"G.adam.lr", "G.adam.beta1", "G.adam.beta2", "G.sgd.lr", "D.rmsprop.lr"})
    config.set(key, R"({"from": 0.9, "to": 0.5, "kimg": 1})", "test");
  const auto both = config.read<Both>();
  for (const Scheduled& moved :
       {both.G.adam.lr, both.G.adam.beta1, both.G.adam.beta2, both.G.sgd.lr, both.D.rmsprop.lr}) {
    CHECK(moved.at(500) == Approx(0.7));
    CHECK(moved.at(1000) == 0.5);
  }
  CHECK(both.D.adam.lr == 2e-4);
}
