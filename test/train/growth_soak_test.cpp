// SPDX-License-Identifier: Apache-2.0
// Real networks that grow and shrink for a long time on two ranks.
#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "recipes/pggan/recipe.h"
#include "recipes/stylegan1/recipe.h"
#include "resident_bytes.h"
#include "spawn_ranks.h"
#include "train/step.h"

using namespace gantrain;

namespace {

constexpr int64_t kBatch = 8, kSwitches = 100;

Config config_of(const std::string& recipe, void (*add_keys)(Schema&)) {
  Schema schema;
  add_keys(schema);
  Config config(schema);
  config.set(recipe + ".latent_size", 32, "test");
  // 1 MB of buckets a network: a hundred leaked ones would be 200.
  config.set(recipe + ".fmap_max", 64, "test");
  config.set("schedule.start", 4, "test");
  config.set("schedule.batch", std::to_string(kBatch), "test");
  config.set("schedule.lr_factor", "1", "test");
  return config;
}

// 100 switches back and forth over all stages; 1 if memory grew.
int soak(const Rendezvous& r, const RecipeRow& row, const Config& config) {
  const std::unique_ptr<Recipe> recipe = row.make(
      {config, 0, 16, 3, {}, at::kCPU, at::kFloat, [](const std::string&, const at::Tensor&) {}});
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 60);
  TrainOptions train;
  train.batch = kBatch;
  const DistOptions dist;
  std::vector<PlayerState> players = make_players(*recipe, plan_batch(train, r.world), dist, group);
  StepHooks quiet;
  quiet.phase = [](const std::string&) {};
  quiet.loss = [](const std::string&, const at::Tensor&) {};
  const std::vector<Stage>& stages = recipe->schedule().stages();
  int64_t early = 0, late = 0;
  for (int64_t i = 0; i < kSwitches; ++i) {
    // 0 1 2 3 4 3 2 1 0 ...
    const auto turn = static_cast<int64_t>(2 * (stages.size() - 1));
    const int64_t at = i % turn;
    const Stage& stage = stages[static_cast<size_t>(std::min(at, turn - at))];
    recipe->enter(stage);
    for (PlayerState& p : players) p.optimizer->reset();
    rebuild_syncs(players, dist, group);
    const at::Tensor mine = torch::zeros({kBatch / r.world, 3, stage.resolution, stage.resolution});
    run_iteration(*recipe, players, {mine, {}, r.rank, i, stage.first}, quiet);
    // Peaks: what the allocator keeps between them comes and goes.
    int64_t& peak = i < kSwitches / 2 ? early : late;
    peak = std::max(peak, resident_bytes());
  }
  return late - early < (8 << 20) ? 0 : 1;
}

}  // namespace

TEST_CASE("AHundredStageSwitchesOfPgganLeaveMemoryLevel") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          return soak(r, pggan::row(), config_of("pggan", pggan::add_keys));
        }) == 0);
}

TEST_CASE("AHundredStageSwitchesOfStyleGan1LeaveMemoryLevel") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          return soak(r, stylegan1::row(), config_of("stylegan1", stylegan1::add_keys));
        }) == 0);
}
