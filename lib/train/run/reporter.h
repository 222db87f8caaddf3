// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/value.h"
#include "data/pictures/dataset.h"
#include "distributed/group.h"
#include "gan/recipe.h"
#include "image/image.h"
#include "report/console.h"
#include "report/records.h"
#include "train/memory/device_memory.h"
#include "train/options.h"
#include "train/save/checkpoint.h"
#include "train/step/training_step.h"

namespace gantrain {

// Collects on every rank what a tick reports, and writes it on rank 0: stats.jsonl, TensorBoard,
// the console, sample grids, metrics. Values stay on their device until tick().
class Reporter {
 public:
  // `memory` is that of the device of this rank, whose peaks each tick reports; null: of none.
  Reporter(std::shared_ptr<Group> group,
           int64_t total_images,
           int64_t start_images,
           std::shared_ptr<DeviceMemory> memory = nullptr);

  // Opens the files in `folder`, on rank 0. `resumed_at` counts images: TensorBoard then forgets
  // later points, and rows of so many images that a lost rank has written are not written again.
  void open(const std::filesystem::path& folder, int64_t resumed_at);

  // Starts the clock by which speed is measured.
  void start();

  // Records an iteration: its statistics, the losses of the steps that were made, loss scales,
  // gradient norms and traffic.
  void record(const StepReport& step);
  // Records values; their number, mean and standard deviation over the tick are written.
  void record(const std::string& name, const at::Tensor& values);
  // "Timing/comm": summed over the tick.
  void time(const std::string& name, double seconds) { sums_[name] += seconds; }
  // "Progress/alpha": its mean.
  void count(const std::string& name, double value) { numbers_.add(name, value); }
  // "Progress/resolution" and "Progress/alpha" of networks that grow.
  void count_stage(const Schedule& schedule, const Counters& counters);

  // Says which stage of a network that grows has begun.
  void say_stage(const TrainingStep& step, const Counters& counters) const;

  // Says after a few iterations of the session how long the run will take, and returns whether that
  // is done. `batch` counts images; `grows`: later stages may be slower.
  bool foretell(const Counters& counters, int64_t batch, bool grows);
  // Updates the display; called after every iteration, it costs little.
  void iteration(const Counters& counters);

  // Ends a tick, on all ranks together. Throws UserError(kDiverged) on all ranks if a loss was not
  // finite.
  void tick(const Counters& counters);
  void finish();

  // Rank 0 only.
  void grid(const std::string& file,
            const std::string& tag,
            const Image& image,
            int64_t images_seen);
  void array(const std::string& file, const std::vector<Image>& pictures);
  void metric(Json line, const std::string& snapshot, int64_t images_seen);

 private:
  bool has_row(const std::string& file, int64_t images) const;
  Progress progress(const Counters& counters) const;
  void add(const std::string& name, const at::Tensor& values, const GradientVerdict* verdict);
  void hold();
  void add_up_held();
  void read_held(Stats& into);
  void forget_held();
  void record_losses(const PhaseReport& phase);
  void record_verdict(const PhaseReport& phase);
  void fill_resources(const Counters& counters);
  void count_device_memory();

  std::shared_ptr<Group> group_;
  std::shared_ptr<DeviceMemory> memory_;
  int64_t total_images_;
  int64_t tick_images_;  // images seen at the last tick
  double started_;       // monotonic
  double tick_started_;
  int64_t iterations_ = 0;  // of the session
  double warm_at_ = 0;      // monotonic seconds after the first one
  std::filesystem::path folder_;
  std::map<std::string, at::Tensor> values_;  // [num, sum, sum of squares], float64
  std::map<std::string, at::Tensor> totals_;  // parts of sums_ that lie on a device
  // What lies on a device that reading waits for: values, each with the verdict that judges them
  // behind it if one does. hold() takes what an iteration gave in one launch; where it is much, it
  // is added up there, and a tick reads the rest.
  struct Held {
    std::string name;
    int64_t count;
    bool judged;  // left out where the verdict is bad
    bool total;   // of verdicts: bad ones are counted
  };
  std::vector<Held> held_;
  std::vector<at::Tensor> given_, held_values_;
  int64_t held_numbers_ = 0;
  std::map<std::string, double> sums_;
  Stats numbers_;
  Stats last_;  // the last tick's, over all ranks
  std::unique_ptr<EventWriter> events_;
  std::unique_ptr<Console> console_;
  std::optional<Watched> swd_;  // the last one measured
  int64_t resumed_at_ = 0;      // images
  bool live_ = false;           // whether a bar is drawn
  double drawn_ = 0;            // when the bar was last drawn
};

// Returns the label of each cell of a grid, row after row, sorted by class: where there are at most
// as many classes as rows, each row holds one class; where there are more, the cells go through the
// classes in their order. Empty without classes.
std::vector<int64_t> grid_labels(const SampleOptions& samples, int64_t classes);

// Returns samples.rows as a run uses it: where nobody has set it, and there are more classes than
// rows but at most 16, each class has a row of its own. A run that resumes in `folder` keeps the
// rows of its config.json; "": it begins.
int64_t grid_rows(const Config& config, int64_t classes, const std::filesystem::path& folder);

// Makes the pictures that show how far a run is: real ones, and those of the generator's average
// from latents that stay the same all through the run. It has random streams of its own and uses
// evaluation mode, so that training is not affected.
class SampleGrids {
 public:
  // The data's pictures have `size`.
  SampleGrids(Generator& generator,
              std::shared_ptr<const Dataset> dataset,
              const Size& size,
              const SampleOptions& samples,
              uint64_t seed);

  // Writes a grid of generated pictures to `file` and to latest.png; where it does not show all of
  // their channels also the pictures as whole numbers to a .npy [N, H, W, C] of the file's name.
  void write(Reporter& reporter,
             const std::string& file,
             const SynthesisOptions& drawn,
             int64_t images_seen);

  void write_reals(Reporter& reporter) const;

  // Both show samples.channels. In data of 16 bits they have 16.
  // The first pictures of a fixed permutation of the data; of a conditional generator each cell
  // shows its class, and is black where the class has no pictures. Where labels are vectors, each
  // generated picture has that of the real one in its cell.
  Image real_grid() const;
  // Pictures of an early stage are enlarged to the full size, each pixel to a square.
  Image fake_grid(const SynthesisOptions& drawn = {});

 private:
  at::Tensor fakes(const SynthesisOptions& drawn);
  Image grid_of(const at::Tensor& pictures) const;
  int64_t cells() const { return samples_.rows * samples_.columns; }
  std::vector<int64_t> real_pictures() const;
  at::Tensor vectors_of_cells(int64_t first, int64_t n) const;

  Generator& generator_;
  std::shared_ptr<const Dataset> dataset_;
  Size size_;
  SampleOptions samples_;
  std::vector<int64_t> shown_;  // channels; empty: those of shown_channels()
  uint64_t seed_;
};

}  // namespace gantrain
