// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/recipe.h"

#include <catch2/catch.hpp>

#include "recipes/dcgan/options.h"
#include "tensor_checks.h"

using namespace gantrain;

namespace {

Config tiny(const std::map<std::string, Json>& changes = {}) {
  Schema schema;
  dcgan::add_keys(schema);
  Config config(schema);
  config.set("dcgan.channels", 16, "test");
  config.set("dcgan.d_channels", 4, "test");
  for (const auto& [key, value] : changes) config.set(key, value, "test");
  return config;
}

struct Made {
  Config config;
  std::map<std::string, at::Tensor> recorded;
  std::unique_ptr<Recipe> recipe;

  explicit Made(const std::map<std::string, Json>& changes = {}) : config(tiny(changes)) {
    const RecipeContext context{config,
                                3,
                                16,
                                3,
                                {},
                                at::kCPU,
                                at::kFloat,
                                [this](const std::string& name, const at::Tensor& values) {
                                  recorded[name] = values.detach();
                                }};
    recipe = dcgan::row().make(context);
  }
};

Batch batch(int64_t iteration = 0) {
  return {
      torch::linspace(-1, 1, 4 * 3 * 16 * 16).reshape({4, 3, 16, 16}), {}, {0, 1, 4}, iteration};
}

at::Tensor buffer_of(Player& player, const char* name) {
  return player.network->named_buffers()[name];
}

}  // namespace

TEST_CASE("BothPhasesShareTheLatentsAndIterationsDoNot") {
  Made made;
  std::vector<Phase>& phases = made.recipe->phases();
  REQUIRE(phases.size() == 2);
  phases[0].loss(batch());
  const at::Tensor first = made.recorded.at("Loss/scores/fake").clone();
  phases[0].loss(batch());
  CHECK(torch::allclose(made.recorded.at("Loss/scores/fake"), first));
  phases[0].loss(batch(1));
  CHECK_FALSE(torch::allclose(made.recorded.at("Loss/scores/fake"), first));
}

TEST_CASE("OnlyTheGeneratorsPhaseMovesItsStatistics") {
  Made made;
  Player& G = *made.recipe->players()[0];
  Player& D = *made.recipe->players()[1];
  made.recipe->phases()[0].loss(batch());
  CHECK(buffer_of(G, "main.1.num_batches_tracked").item<int64_t>() == 0);
  CHECK(buffer_of(D, "main.3.num_batches_tracked").item<int64_t>() == 2);  // real, fake
  made.recipe->phases()[1].loss(batch());
  CHECK(buffer_of(G, "main.1.num_batches_tracked").item<int64_t>() == 1);
  CHECK(buffer_of(D, "main.3.num_batches_tracked").item<int64_t>() == 3);
}

TEST_CASE("ImprovingThePicturesThatWereJudgedIsMakingThemAgain") {
  for (const char* loss : {"dcgan", "wgan-gp"}) {
    const std::map<std::string, Json> changes = {{"dcgan.loss", loss}};
    Made twice(changes), once(changes);
    Player &G_twice = *twice.recipe->players()[0], &G_once = *once.recipe->players()[0];
    for (at::Tensor& p : G_twice.network->parameters()) p.requires_grad_(false);
    twice.recipe->phases()[0].loss(batch());  // records nothing
    for (at::Tensor& p : G_twice.network->parameters()) p.requires_grad_(true);
    twice.recipe->phases()[1].loss(batch()).backward();
    once.recipe->phases()[0].loss(batch());
    once.recipe->phases()[1].loss(batch()).backward();
    const auto expected = G_twice.network->parameters(), got = G_once.network->parameters();
    for (size_t i = 0; i < expected.size(); ++i)
      CHECK(torch::equal(got[i].grad(), expected[i].grad()));
    for (const auto& item : G_twice.network->named_buffers()) {
      CAPTURE(item.key());
      CHECK(torch::equal(G_once.network->named_buffers()[item.key()], item.value()));
    }
  }
}

TEST_CASE("PicturesOfOtherSamplesOrAnotherIterationAreMadeAnew") {
  Made made({{"dcgan.norm", "none"}, {"dcgan.loss", "dcgan"}});
  const auto G_loss = [&](const Batch& b) { return made.recipe->phases()[1].loss(b); };
  const auto judge = [&](const Batch& b) { made.recipe->phases()[0].loss(b); };
  Batch other = batch();
  other.samples.first = 4;
  const at::Tensor expected = G_loss(other);
  judge(batch());
  CHECK(torch::equal(G_loss(other), expected));
  judge(batch(1));
  CHECK_FALSE(torch::equal(G_loss(batch()), G_loss(batch(1))));
  // Those that were judged keep the weights that made them.
  judge(batch());
  const at::Tensor before = G_loss(batch());
  judge(batch());
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& p : made.recipe->players()[0]->network->parameters()) p.mul_(2);
  }
  CHECK(torch::equal(G_loss(batch()), before));
  CHECK_FALSE(torch::equal(G_loss(batch()), before));
}

TEST_CASE("TheDiscriminatorsPhaseGivesTheGeneratorNoGradient") {
  for (const char* loss : {"dcgan", "lsgan", "wgan-gp"}) {
    Made made({{"dcgan.loss", loss}, {"dcgan.norm", "none"}});
    made.recipe->phases()[0].loss(batch()).backward();
    for (const at::Tensor& p : made.recipe->players()[0]->network->parameters())
      CHECK_FALSE(p.grad().defined());
    for (const at::Tensor& p : made.recipe->players()[1]->network->parameters())
      CHECK(p.grad().defined());
    CHECK(made.recorded.count("Loss/gradient_penalty") == (std::string(loss) == "wgan-gp" ? 1 : 0));
  }
}

TEST_CASE("TheGeneratorStepsOnceForSeveralStepsOfTheDiscriminator") {
  Made made({{"D.steps", 5}});
  CHECK(made.recipe->phases()[0].interval == 1);
  CHECK(made.recipe->phases()[1].interval == 5);
  CHECK(made.recipe->phases()[1].first == 4);  // Gulrajani et al. 2017, alg. 1: the critic first
}

TEST_CASE("EachOfSeveralGeneratorStepsHasItsOwnLatents") {
  Made made({{"G.steps", 2}, {"dcgan.norm", "none"}});
  std::vector<Phase>& phases = made.recipe->phases();
  REQUIRE(phases.size() == 3);
  CHECK(phases[1].loss(batch()).item<float>() != phases[2].loss(batch()).item<float>());
}

TEST_CASE("ATrainedGeneratorGivesThePicturesOfItsNetwork") {
  Made made;
  torch::nn::Module& G = *made.recipe->players()[0]->network;
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor;
  CHECK(dcgan::row().recognises(tensors));
  CHECK_FALSE(dcgan::row().recognises({}));
  const auto generator = dcgan::row().make_generator({}, tensors, "test");
  CHECK(generator->z_dim() == 100);
  load_into(*generator->network(), tensors, "test");
  const at::Tensor images = generator->images(torch::randn({2, 100}), {});
  CHECK(images.sizes() == at::IntArrayRef({2, 3, 16, 16}));
  CHECK_FALSE(images.requires_grad());
  CHECK(made.recipe->model()["recipe"] == "dcgan");
}
