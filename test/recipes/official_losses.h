// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nn/progressive.h"
#include "ops/resample.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "support/official_names.h"
#include "support/phase_checks.h"
#include "train/cpu_precision/cpu_precision.h"
#include "util/text.h"

namespace gantrain {

// A loss of the fixtures of growing networks: "D_wgangp/8/a0.3/native", G's without the last part.
struct OfficialLoss {
  std::string kind;      // "D_wgangp"
  int64_t pixels = 0;    // of the level
  double alpha = 1;      // of its newest layers
  bool fullres = false;  // penalties by pictures of the full size
  std::string phase() const { return kind.substr(0, 1); }
};

// What a phase gave, by the fixtures' names.
struct OfficialNumbers {
  TensorMap values;     // "loss_mean", "real_scores"
  TensorMap gradients;  // by official names, in official layouts
};

// The pictures that the recipe fades to `pictures`, which is what the fixtures' discriminators saw:
// fading keeps the mean of each 2x2 pixels and shrinks what differs from it by alpha.
inline at::Tensor before_fading(const at::Tensor& pictures, double alpha) {
  if (alpha == 1) return pictures;
  const at::Tensor mean = nearest_up(box_down(pictures));
  return mean + (pictures - mean) / alpha;
}

// A phase's numbers on `real`, at its level. `statistics`: what its statistics are called in the
// fixtures.
inline OfficialNumbers official_numbers(Recipe& recipe,
                                        const OfficialLoss& loss,
                                        const at::Tensor& real,
                                        const std::map<std::string, std::string>& statistics,
                                        const LayoutOf& layout) {
  enter_level(recipe, loss.pixels, loss.alpha);
  const Phase& phase = phase_of(recipe, loss.phase());
  const PhaseInput in = whole_batch(recipe, phase, {before_fading(real, loss.alpha), {}, 0});
  const PhaseResult result = run_with_gradients(recipe, phase, in);
  OfficialNumbers numbers{{{"loss_mean", result.out.loss.detach()}},
                          to_official(result.gradients, "", "", layout)};
  for (const auto& [name, value] : result.out.statistics) {
    const auto known = statistics.find(name);
    if (known != statistics.end()) numbers.values[known->second] = value.detach();
  }
  return numbers;
}

// Compares every tensor of the fixture but its inputs and those called `left_out`, each with the
// numbers of its loss: values within 1e-4, gradients within 3e-3 and 1e-6.
inline void check_official_losses(CoveredFixture& reference,
                                  const std::set<std::string>& left_out,
                                  const std::function<OfficialNumbers(const OfficialLoss&)>& of) {
  std::map<std::string, OfficialNumbers> cache;
  for (const std::string& key : reference.keys()) {
    std::vector<std::string> parts = split(key, '/');
    if (parts[0] == "in") continue;
    CAPTURE(key);
    const int depth = parts[0][0] == 'G' ? 3 : 4;
    const std::string where = join({parts.begin(), parts.begin() + depth}, "/");
    const std::string& what = parts.at(static_cast<size_t>(depth));
    const at::Tensor& expected = reference[key];
    if (left_out.count(what) == 1) continue;
    if (cache.count(where) == 0) {
      cache[where] = of({parts[0],
                         parse_int(parts[1]).value(),
                         parse_double(parts[2].substr(1)).value(),
                         parts[3] == "fullres"});
    }
    const OfficialNumbers& numbers = cache[where];
    if (what != "grad" && what != "gradnorm") {
      CHECK(scaled_error(numbers.values.at(what), expected) < 1e-4);
      continue;
    }
    const at::Tensor& gradient =
        numbers.gradients.at(join({parts.begin() + depth + 1, parts.end()}, "/"));
    CHECK(error_in_tolerances(what == "grad" ? gradient : gradient.norm(), expected, 3e-3, 1e-6) <
          1);
  }
  CHECK(reference.unused() == std::vector<std::string>());
}

// A recording of the products of a step on pictures of up to 16 pixels, batch 8, has the
// convolutions of 8 feature maps of every stage.
inline void check_recording_of_stages(TrainingStep& step) {
  TrainOptions train;
  train.batch = 8;
  train.kimg = {10'000};
  const std::vector<TrainedSize> sizes = trained_sizes(step, train, 1, {16, 16});
  CHECK(sizes.size() == step.recipe().schedule().stages().size());
  const ProductRecord record = record_products(step, sizes);
  for (const int64_t side : {4, 8, 16}) {
    const Product inner{Product::Kind::kConv2d, {8, side, side}, {8, 8, 3, 3}, 1, {1, 1}};
    CAPTURE(to_text(inner));
    REQUIRE(record.count(inner) == 1);
    CHECK(record.at(inner).samples == 8);
  }
  CHECK(trained_sizes(step, train, 1, {16, 16}, /*images_seen=*/4000).size() < sizes.size());
}

}  // namespace gantrain
