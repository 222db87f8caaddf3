// SPDX-License-Identifier: Apache-2.0
// Which convolutions the phases of every recipe consist of.
#include <catch2/catch.hpp>

#include "bench/record.h"
#include "config/recipes.h"
#include "config/resolve.h"
#include "core/torch.h"
#include "support/step_setup.h"
#include "util/log.h"

using namespace gantrain;

namespace {

constexpr int64_t kBatch = 4, kResolution = 32;

// The convolutions of an iteration that has all phases, in the preset's last stage.
std::vector<ProductCalls> products_of_an_iteration(const std::string& preset) {
  set_log({Level::kError, Level::kError, {}, ""});
  ConfigSources sources;
  sources.preset = preset;
  for (const std::string& pair :
       {"train.batch=" + std::to_string(kBatch), "data.resolution=" + std::to_string(kResolution)})
    sources.flags.emplace_back("--set", pair);
  Config config = resolve(sources, {});
  choose_auto_values(config, Site{.ranks = 1, .on_gpu = false});
  StepOnCpu step(find_recipe(text_of(config.get("recipe"))), config);
  const std::vector<Stage>& stages = step->recipe().schedule().stages();
  GlobalBatch batch{torch::rand({kBatch, 3, kResolution, kResolution}) * 2 - 1, {}, 0};
  if (!stages.empty()) {
    step->enter(static_cast<int64_t>(stages.size()) - 1);
    batch.images_seen = stages.back().first;
  }
  OperatorRecorder recorder;
  recorder.enter("all");
  step.run(batch);
  return recorder.products();
}

// Which argument of the operator is a convolution's filter; 0: the operator is no convolution.
size_t filter_of(const std::string& name) {
  if (name == "aten::convolution_backward") return 2;
  return name == "aten::convolution" || name == "aten::_convolution" ? 1 : 0;
}

}  // namespace

// LibTorch's own second derivative takes the whole feature map for a filter.
TEST_CASE("NoPhaseOfAnyRecipeConvolvesWithAFeatureMap") {
  for (const std::string preset : {"dcgan-tiny",
                                   "wgan-gp",
                                   "pggan-tiny",
                                   "stylegan1-tiny",
                                   "stylegan2-tiny",
                                   "stylegan3-tiny",
                                   "r3gan-tiny"}) {
    CAPTURE(preset);
    int convolutions = 0;
    for (const ProductCalls& call : products_of_an_iteration(preset)) {
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
