// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "gan/recipe.h"
#include "image/image.h"
#include "train/options.h"
#include "train/reporter.h"

namespace gantrain {

// Returns the label of each cell of a grid, row after row, sorted by class: where there are at most
// as many classes as rows, each row holds one class; where there are more, the cells go through the
// classes in their order. Empty without classes.
std::vector<int64_t> grid_labels(const SampleOptions& samples, int64_t classes);

// Makes the pictures that show how far a run is: real ones, and those of the generator's average
// from latents that stay the same all through the run. It has random streams of its own and uses
// evaluation mode, so that training is not affected.
class SampleGrids {
 public:
  SampleGrids(Generator& generator,
              std::shared_ptr<const Dataset> dataset,
              const SampleOptions& samples,
              uint64_t seed);

  // Sets how generated pictures are made from now on. Pictures of an early stage are enlarged to
  // the full size, each pixel to a square.
  void draw(const SynthesisOptions& options) { synthesis_options_ = options; }

  // Writes a grid of generated pictures, made as in the schedule's present stage, to `file` and to
  // latest.png.
  void write(Reporter& reporter,
             const std::string& file,
             const Schedule& schedule,
             const Counters& counters);

  // The first pictures of a fixed permutation of the data; of a conditional generator each cell
  // shows its class, and is black where the class has no pictures.
  Image real_grid() const;
  Image fake_grid();

 private:
  int64_t cells() const { return samples_.rows * samples_.columns; }
  std::vector<int64_t> real_pictures() const;

  Generator& generator_;
  std::shared_ptr<const Dataset> dataset_;
  SampleOptions samples_;
  uint64_t seed_;
  SynthesisOptions synthesis_options_;
};

}  // namespace gantrain
