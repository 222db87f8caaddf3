// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/value.h"
#include "data/dataset.h"
#include "gan/recipe.h"
#include "image/image.h"
#include "train/options.h"

namespace gantrain {

// Pictures of the generator's average and measures of them. Own random streams, evaluation mode:
// training does not notice.
class Evaluation {
 public:
  Evaluation(Generator& generator,
             std::shared_ptr<const Dataset> dataset,
             const SampleOptions& samples,
             const MetricsOptions& metrics,
             uint64_t seed);

  // From now on generated pictures are drawn so; smaller ones are enlarged, each pixel to a square.
  void draw(const SynthesisOptions& options) { synthesis_options_ = options; }

  Image real_grid() const;  // the first real pictures of a fixed permutation
  Image fake_grid();        // from latents that stay the same all through the run

  // One object a metric: {"metric": "swd", "results": {"swd": 12.3, "swd_32": ...}, "total_time":
  // s}.
  std::vector<Json> measure();

 private:
  at::Tensor fakes(const char* purpose, int64_t count);  // uint8 [count, C, R, R]
  at::Tensor reals(int64_t count) const;                 // uint8

  Generator& generator_;
  std::shared_ptr<const Dataset> dataset_;
  SampleOptions samples_;
  MetricsOptions metrics_;
  uint64_t seed_;
  SynthesisOptions synthesis_options_;
};

}  // namespace gantrain
