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
#include "train/reporter.h"

namespace gantrain {

// Pictures made by the generator's average, and measures of them. It has random streams of its own
// and uses evaluation mode, so that training does not notice.
class Evaluation {
 public:
  Evaluation(Generator& generator,
             std::shared_ptr<const Dataset> dataset,
             const SampleOptions& samples,
             const MetricsOptions& metrics,
             uint64_t seed);

  // From now on generated pictures are made so; smaller ones are enlarged, each pixel to a square.
  void draw(const SynthesisOptions& options) { synthesis_options_ = options; }

  // A grid of generated pictures of the schedule's present stage, under that name and as
  // latest.png.
  void write_samples(Reporter& reporter,
                     const std::string& file,
                     const Schedule& schedule,
                     const Counters& counters);
  // The metrics of such pictures, as messages and files; `snapshot` names the model file that they
  // are of.
  void write_metrics(Reporter& reporter,
                     const std::string& snapshot,
                     const Schedule& schedule,
                     const Counters& counters);

  Image real_grid() const;  // the first real pictures of a fixed permutation
  Image fake_grid();        // from latents that stay the same all through the run

  // One object for each metric: {"metric": "swd", "results": {"swd": 12.3, "swd_32": ...},
  // "total_time": seconds}.
  std::vector<Json> measure();

 private:
  void draw_as_in(const Schedule& schedule, const Counters& counters);
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
