// SPDX-License-Identifier: Apache-2.0
// Real networks that grow and shrink for a long time on two ranks.
#include "core/torch.h"
#include "recipes/pggan/recipe.h"
#include "recipes/stylegan1/recipe.h"
#include "support/catch.h"
#include "support/process_memory.h"
#include "support/spawn_ranks.h"
#include "support/step_setup.h"

using namespace gantrain;

namespace {

constexpr int64_t kBatch = 8, kSwitches = 100;

// 100 switches back and forth over all stages; 1 if memory grew.
int soak(const Rendezvous& r, const RecipeRow& row) {
  const std::string recipe = row.facts.name;
  // 1 MB of buckets a network: a hundred leaked ones would be 200.
  StepOnCpu step(row,
                 step_config(row.facts,
                             {{"data.resolution", 16},
                              {"train.batch", kBatch},
                              {recipe + ".latent_size", 32},
                              {recipe + ".fmap_max", 64},
                              {"schedule.start", 4},
                              {"schedule.batch", std::to_string(kBatch)},
                              {"schedule.lr_factor", "1"}}),
                 r);
  const std::vector<Stage>& stages = step->recipe().schedule().stages();
  int64_t early = 0, late = 0;
  for (int64_t i = 0; i < kSwitches; ++i) {
    // 0 1 2 3 4 3 2 1 0 ...
    const auto turn = static_cast<int64_t>(2 * (stages.size() - 1));
    const int64_t at = i % turn, number = std::min(at, turn - at);
    const Stage& stage = stages[static_cast<size_t>(number)];
    step->enter(number);
    step->reset_optimizers();
    const at::Tensor pictures = torch::zeros({kBatch, 3, stage.resolution, stage.resolution});
    step.run({pictures, {}, i, stage.first});
    // Peaks: what the allocator keeps between them comes and goes.
    int64_t& peak = i < kSwitches / 2 ? early : late;
    peak = std::max(peak, process_memory().resident);
  }
  return late - early < (8 << 20) ? 0 : 1;
}

}  // namespace

TEST_CASE("AHundredStageSwitchesOfPgganLeaveMemoryLevel") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) { return soak(r, pggan::row()); }) == 0);
}

TEST_CASE("AHundredStageSwitchesOfStyleGan1LeaveMemoryLevel") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) { return soak(r, stylegan1::row()); }) == 0);
}
