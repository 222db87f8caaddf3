// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  // Asked again and again while metrics are computed: whether to go on.
  using GoesOn = std::function<bool()>;

  Evaluation(
      Generator& generator,
      std::shared_ptr<const Dataset> dataset,
      const SampleOptions& samples,
      const MetricsOptions& metrics,
      uint64_t seed,
      GoesOn goes_on = [] { return true; });

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
  // `snapshot` names the model file that they belong to. Where GoesOn says no, a message says so
  // instead.
  void write_metrics(Reporter& reporter,
                     const std::string& snapshot,
                     const Schedule& schedule,
                     const Counters& counters);

  Image real_grid() const;  // the first pictures of a fixed permutation of the data
  Image fake_grid();        // from latents that stay the same all through the run

  // Returns one object for each metric: {"metric": "swd", "results": {"swd": 12.3, "swd_32": ...},
  // "total_time": seconds}. Returns nothing where GoesOn says no.
  std::optional<std::vector<Json>> measure();

 private:
  std::vector<Json> measure_all();
  void draw_as_in(const Schedule& schedule, const Counters& counters);
  // uint8 [count, C, R, R]; between() is called between batches.
  using Between = std::function<void()>;
  at::Tensor fakes(
      const char* purpose, int64_t count, const Between& between = [] {});
  at::Tensor reals(
      int64_t count, const Between& between = [] {}) const;

  Generator& generator_;
  std::shared_ptr<const Dataset> dataset_;
  SampleOptions samples_;
  MetricsOptions metrics_;
  uint64_t seed_;
  GoesOn goes_on_;
  SynthesisOptions synthesis_options_;
};

}  // namespace gantrain
