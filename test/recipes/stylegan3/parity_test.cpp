// SPDX-License-Identifier: Apache-2.0
// Ranks train as accumulated parts do, and a resume goes on with the same bits: input magnitudes,
// means of w, the augmentation's strength and the blur's fade included.
#include <cstdio>

#include "core/tensors.h"
#include "core/torch.h"
#include "recipes/stylegan3/networks_of_fixtures.h"
#include "recipes/stylegan3/options.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/step_setup.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Changes = std::map<std::string, Json>;

constexpr int64_t kIterations = 6, kPixels = 8;

// Everything that moves does so in every iteration.
Config config_with(int64_t batch, const std::string& config, Changes changes) {
  changes.merge(Changes{{"data.resolution", kPixels},
                        {"train.batch", batch},
                        {"stylegan3.config", config},
                        {"stylegan3.d_interval", 2},
                        {"stylegan3.blur_sigma", config == "r" ? 2 : 0},
                        {"stylegan3.blur_fade", 0.2},
                        {"ada.mode", "ada"},
                        {"ada.p", 0.5},
                        {"ada.interval", 1},
                        {"ada.kimg", 1}});
  return step_config(stylegan3::facts(), stylegan3::tiny_run(changes));
}

void train(StepOnCpu& step, int64_t batch, int64_t first, int64_t end) {
  for (int64_t i = first; i < end; ++i) {
    const Tensor wave = torch::sin(torch::arange(batch * 3 * kPixels * kPixels, at::kFloat) * 0.37);
    step.run({(wave + i).sin().reshape({batch, 3, kPixels, kPixels}),
              torch::arange(batch).remainder(2),
              i});
  }
}

NamedTensors trained(const std::shared_ptr<Group>& group, int64_t batch, const Config& config) {
  StepOnCpu step(group, stylegan3::row(), config, {3, 5});
  step->begin();
  train(step, batch, 0, kIterations);
  return step.state();
}

// The largest difference of two states.
double distance(const NamedTensors& a, const NamedTensors& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor difference = a[i].second.to(at::kDouble) - b[i].second.to(at::kDouble);
    if (difference.numel() > 0) most = std::max(most, difference.abs().max().item<double>());
  }
  return most;
}

int complain(const std::string& what, double by) {
  std::fprintf(stderr, "%s: apart by %g\n", what.c_str(), by);
  return 1;
}

}  // namespace

TEST_CASE("TwoRanksAreTwoPartsBitForBitInEveryMode") {
  CHECK(failed_ranks(2, [](const Rendezvous& rendezvous) {
          const auto group = join_on_cpu(rendezvous);
          const auto alone = join_on_cpu();
          int failures = 0;
          for (const std::string config : {"t", "r"}) {
            const NamedTensors parts =
                trained(alone, 8, config_with(8, config, {{"train.accumulate", 2}}));
            for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
              const NamedTensors ranks =
                  trained(group, 8, config_with(8, config, {{"dist.ddp_mode", mode}}));
              if (sha256_of(parts) != sha256_of(ranks))
                failures += complain(config + " " + mode, distance(parts, ranks));
            }
          }
          return failures;
        }) == 0);
}

TEST_CASE("FourRanksAreFourPartsTo1e10InFloat64") {
  CHECK(failed_ranks(4, [](const Rendezvous& rendezvous) {
          const auto group = join_on_cpu(rendezvous);
          const Changes exact = {{"train.dtype", "float64"}};
          Changes in_parts = exact;
          in_parts["train.accumulate"] = 4;
          const NamedTensors parts = trained(join_on_cpu(), 16, config_with(16, "r", in_parts));
          int failures = 0;
          for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
            Changes of_mode = exact;
            of_mode["dist.ddp_mode"] = mode;
            const double apart = distance(parts, trained(group, 16, config_with(16, "r", of_mode)));
            if (apart > 1e-10) failures += complain(mode, apart);
          }
          return failures;
        }) == 0);
}

TEST_CASE("AResumeInTheFadeOfTheBlurIsBitExact") {
  const Config config = config_with(8, "r", {});
  const auto alone = join_on_cpu();
  const NamedTensors whole = trained(alone, 8, config);
  StepOnCpu first(alone, stylegan3::row(), config, {3, 5});
  first->begin();
  train(first, 8, 0, kIterations / 2);
  StepOnCpu second(alone, stylegan3::row(), config, {3, 5});
  second.load(first.state());
  train(second, 8, kIterations / 2, kIterations);
  CHECK(sha256_of(second.state()) == sha256_of(whole));
}
