// SPDX-License-Identifier: Apache-2.0
// Which operators the phases of every recipe consist of, on the way that they take on a GPU.
#include <algorithm>
#include <set>

#include "bench/record.h"
#include "config/recipes.h"
#include "config/resolve.h"
#include "core/device.h"
#include "core/torch.h"
#include "recipes/facts.h"
#include "support/catch.h"
#include "support/deterministic.h"
#include "support/step_setup.h"
#include "util/log.h"
#include "util/text.h"

using namespace gantrain;

namespace {

constexpr int64_t kBatch = 4, kResolution = 32;

const std::vector<std::string> kPresets = {"dcgan-tiny",
                                           "wgan-gp",
                                           "pggan-tiny",
                                           "stylegan1-tiny",
                                           "stylegan2-tiny",
                                           "stylegan3-tiny",
                                           "r3gan-tiny",
                                           "projected-tiny"};

// The preset with `more` settings, "key=value".
Config config_of(const std::string& preset,
                 const std::vector<std::string>& more = {},
                 int64_t batch = kBatch) {
  set_log({Level::kError, Level::kError, {}, ""});
  ConfigSources sources;
  sources.preset = preset;
  for (const std::string& pair :
       {"train.batch=" + std::to_string(batch), "data.resolution=" + std::to_string(kResolution)})
    sources.flags.emplace_back("--set", pair);
  for (const std::string& pair : more) sources.flags.emplace_back("--set", pair);
  Config config = resolve(sources, {});
  if (config.has("ada.p")) {
    config.set("ada.mode", "fixed", "test");
    config.set("ada.p", 0.7, "test");
  }
  choose_auto_values(config, Site{.ranks = 1, .on_gpu = false});
  return config;
}

// Lets the step enter the preset's last stage; returns random pictures for it.
GlobalBatch batch_of_last_stage(StepOnCpu& step, int64_t count) {
  const std::vector<Stage>& stages = step->recipe().schedule().stages();
  GlobalBatch batch{torch::rand({count, 3, kResolution, kResolution}) * 2 - 1, {}, 0};
  if (!stages.empty()) {
    step->enter(static_cast<int64_t>(stages.size()) - 1);
    batch.images_seen = stages.back().first;
  }
  return batch;
}

// Records an iteration that has all phases, in the preset's last stage, with augmentation where the
// recipe knows it.
void record_iteration(const std::string& preset, OperatorRecorder& recorder) {
  const AssumeReadsWait as_on_a_gpu;
  const Config config = config_of(preset);
  StepOnCpu step(find_recipe(text_of(config.get("recipe"))), config);
  const GlobalBatch batch = batch_of_last_stage(step, kBatch);
  recorder.enter("all");
  step.run(batch);
  recorder.enter("");
}

// Which argument of the operator is a convolution's filter; 0: the operator is no convolution.
size_t filter_of(const std::string& name) {
  if (name == "aten::convolution_backward") return 2;
  return name == "aten::convolution" || name == "aten::_convolution" ? 1 : 0;
}

}  // namespace

namespace {

// D's scores of real pictures, at least one for each.
at::Tensor real_scores(const Recipe& recipe, const GlobalBatch& batch) {
  for (const Phase& phase : recipe.phases()) {
    const PhaseOutput out = phase.run(whole_batch(recipe, phase, batch));
    for (const auto& [name, value] : out.statistics) {
      if (name == "Loss/scores/real") return value.detach();
    }
  }
  FAIL("no phase scores real pictures");
  return {};
}

}  // namespace

// What a run is planned by before its networks are made.
TEST_CASE("APictureIsScoredTogetherWithAsManyAsTheFactsSay") {
  constexpr int64_t kPictures = 8;
  for (const std::string& preset : kPresets) {
    CAPTURE(preset);
    const Config config = config_of(preset, {}, kPictures);
    const RecipeFacts& facts = find_recipe_facts(text_of(config.get("recipe")));
    StepOnCpu step(find_recipe(facts.name), config);
    GlobalBatch batch = batch_of_last_stage(step, kPictures);
    const at::Tensor before = real_scores(step->recipe(), batch);
    batch.pictures[0] = torch::rand_like(batch.pictures[0]) * 2 - 1;
    const at::Tensor moved = before.ne(real_scores(step->recipe(), batch));
    if (facts.batch_statistics) {  // of the whole batch, in either network
      CHECK(facts.together(config) == kPictures);
      CHECK(facts.group(config) == 1);
    } else {
      CHECK(moved.sum().item<int64_t>() * kPictures == facts.group(config) * moved.numel());
    }
  }
}

// What a dry run says of a block is what its phases note, in every stage of networks that grow.
TEST_CASE("EveryParameterStandsInTheTableOfTypes") {
  for (const std::string& preset : kPresets) {
    CAPTURE(preset);
    std::vector<std::string> settings = {"precision.amp=bf16"};
    if (config_of(preset).has("schedule.start")) settings.emplace_back("schedule.start=4");
    const Config config = config_of(preset, settings);
    StepOnCpu step(find_recipe(text_of(config.get("recipe"))), config);
    std::vector<Computed> computed;
    step->note_computed_into(&computed);
    const std::vector<Stage>& stages = step->recipe().schedule().stages();
    for (size_t i = 0; i < std::max<size_t>(stages.size(), 1); ++i) {
      if (!stages.empty()) step->enter(static_cast<int64_t>(i));
      const int64_t pixels = stages.empty() ? kResolution : stages[i].resolution;
      step.run({torch::zeros({step->plan().batch, 3, pixels, pixels}),
                {},
                0,
                stages.empty() ? 0 : stages[i].first});
    }
    for (const Player* player : step->recipe().players()) {
      for (const auto& item : player->network->named_parameters()) {
        const std::string name = player->name + "." + item.key();
        CAPTURE(name);
        CHECK(std::ranges::any_of(
            computed, [&](const Computed& one) { return starts_with(name, one.block + "."); }));
      }
    }
  }
}

// LibTorch's own second derivative takes the whole feature map for a filter.
TEST_CASE("NoPhaseOfAnyRecipeConvolvesWithAFeatureMap") {
  for (const std::string& preset : kPresets) {
    CAPTURE(preset);
    OperatorRecorder recorder;
    record_iteration(preset, recorder);
    int convolutions = 0;
    for (const ProductCalls& call : recorder.products()) {
      const size_t filter = filter_of(call.name);
      if (filter == 0) continue;
      CAPTURE(call.text);
      const std::vector<int64_t>& sizes = call.arguments.at(filter).sizes;
      CHECK(std::max(sizes.at(2), sizes.at(3)) <= 7);
      ++convolutions;
    }
    CHECK(convolutions > 0);
  }
}

// On a GPU LibTorch 2.11 throws in these where algorithms have to be deterministic
// (torch.use_deterministic_algorithms), and in others of no use here.
TEST_CASE("NoDeterministicPhaseHasAnOperatorThatLibTorchRefuses") {
  const std::set<std::string> refused = {"aten::grid_sampler_2d_backward",
                                         "aten::grid_sampler_3d_backward",
                                         "aten::reflection_pad1d_backward",
                                         "aten::reflection_pad2d_backward",
                                         "aten::replication_pad2d_backward",
                                         "aten::upsample_bilinear2d_backward",
                                         "aten::upsample_bicubic2d_backward",
                                         "aten::upsample_linear1d_backward",
                                         "aten::_adaptive_avg_pool2d_backward",
                                         "aten::adaptive_max_pool2d_backward",
                                         "aten::avg_pool3d_backward",
                                         "aten::max_pool3d_with_indices_backward",
                                         "aten::fractional_max_pool2d_backward",
                                         "aten::max_unpool2d",
                                         "aten::nll_loss2d_forward",
                                         "aten::cumsum",
                                         "aten::median",
                                         "aten::kthvalue",
                                         "aten::histc",
                                         "aten::bincount",
                                         "aten::put_",
                                         "aten::index_copy",
                                         "aten::scatter_reduce",
                                         "aten::scatter_add_"};
  const Deterministic equal_bits;
  for (const std::string& preset : kPresets) {
    CAPTURE(preset);
    OperatorRecorder recorder;
    record_iteration(preset, recorder);
    CHECK(recorder.times().size() > 20);
    for (const OperatorTime& time : recorder.times()) {
      CAPTURE(time.name, time.shapes);
      CHECK(refused.count(time.name) == 0);
    }
  }
}
