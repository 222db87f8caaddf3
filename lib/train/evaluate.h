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

// Makes pictures with the generator's average and measures them. It has random streams of its own
// and uses evaluation mode, so that training is not affected.
class Evaluation {
 public:
  Evaluation(Generator& generator,
             std::shared_ptr<const Dataset> dataset,
             const SampleOptions& samples,
             const MetricsOptions& metrics,
             uint64_t seed);

  // Sets how generated pictures are made from now on. Pictures of an early stage are enlarged to
  // the full size, each pixel to a square.
  void draw(const SynthesisOptions& options) { synthesis_options_ = options; }

  // Writes a grid of generated pictures, made as in the schedule's present stage, to `file` and to
  // latest.png.
  void write_samples(Reporter& reporter,
                     const std::string& file,
                     const Schedule& schedule,
                     const Counters& counters);
  // Measures generated pictures of the present stage and writes the metrics as messages and files.
  // `snapshot` names the model file that they belong to.
  void write_metrics(Reporter& reporter,
                     const std::string& snapshot,
                     const Schedule& schedule,
                     const Counters& counters);

  Image real_grid() const;  // the first pictures of a fixed permutation of the data
  Image fake_grid();        // from latents that stay the same all through the run

  // Returns one object for each metric: {"metric": "swd", "results": {"swd": 12.3, "swd_32": ...},
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
