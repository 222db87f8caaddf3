// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/options.h"

#include "config/config.h"
#include "recipes/completed_config.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("TheDefaultsAreThePapers") {
  const dcgan::Options o;
  CHECK(o.latent == 100);
  CHECK(o.channels == 1024);
  CHECK(o.G.adam.lr == 2e-4);
  CHECK(o.D.adam.beta1 == 0.5);
}

TEST_CASE("KeysOfBothPlayersAreReachable") {
  Schema schema;
  dcgan::facts().add_keys(schema);
  Config config(schema);
  config.set("dcgan.norm", "none", "test");
  config.set("D.adam.lr", 4e-4, "test");
  config.set("D.steps", 5, "test");
  const auto o = config.read<dcgan::Options>();
  CHECK(o.norm == dcgan::Norm::kNone);
  CHECK_FALSE(o.g_norm);
  CHECK(o.D.adam.lr == 4e-4);
  CHECK(o.G.adam.lr == 2e-4);
  CHECK(o.D.steps == 5);
}

TEST_CASE("ACriticWithBatchNormIsSaid") {
  const auto lines = [](const std::map<std::string, Json>& values) {
    Config config = run_config(dcgan::facts(), values, "test");
    return dcgan::facts().complete(config, {});
  };
  CHECK(lines({}).empty());
  REQUIRE(lines({{"dcgan.loss", "wgan-gp"}}).size() == 1);
  CHECK_THAT(lines({{"dcgan.loss", "wgan-gp"}})[0], Catch::Contains("dcgan.d_norm=none"));
  CHECK(lines({{"dcgan.loss", "wgan-gp"}, {"dcgan.d_norm", "none"}}).empty());
}

TEST_CASE("SizesThatCannotBeBuiltAreRefused") {
  for (const int64_t good : {8, 16, 32, 64, 128})
    CHECK_NOTHROW(dcgan::facts().check_resolution(square_of(good)));
  for (const int64_t bad : {4, 22, 100, 256})
    CHECK_THROWS_AS(dcgan::facts().check_resolution(square_of(bad)), UserError);
  for (const Size& good : {Size{32, 16}, Size{128, 256}, Size{40, 56}})
    CHECK_NOTHROW(dcgan::facts().check_resolution(good));
  CHECK_THROWS_WITH(dcgan::facts().check_resolution({33, 16}),
                    Catch::Contains("data.resolution = 33x16") && Catch::Contains(" 32x16"));
  CHECK_THROWS_AS(dcgan::facts().check_resolution({512, 256}), UserError);
}
