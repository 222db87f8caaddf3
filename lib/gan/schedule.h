// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "util/field.h"
#include "util/size.h"

namespace gantrain {

// A stretch of progressive growing during which networks, batch and learning rate stay as they are.
struct Stage {
  int64_t first = 0;       // images seen when it begins
  int64_t length = 0;      // images; the last stage goes on for ever
  int64_t resolution = 0;  // pixels
  bool fading = false;     // its newest layers are faded in: alpha grows from 0 to 1
  int64_t batch = 0;
  double lr_factor = 1;  // factor of both players' learning rates
};

// A table of values by resolution, in text "4:512, 8:256, 32": one for each resolution named, and a
// last one for all others.
using SizeTable = std::map<int64_t, double>;  // key 0: all others

// Reads a table. Throws UserError(kUsage) that names `key` where the text is not such a table.
SizeTable parse_size_table(const std::string& text, const std::string& key);

// The pictures by which the gradient of a penalty is taken: those of the level, or, as in the
// official code, those enlarged to the full resolution. The gradient's norm is then smaller by the
// factor resolution / level.
enum class PenaltySize { kNative, kFullres };
constexpr std::array<std::string_view, 2> names(PenaltySize) { return {"native", "fullres"}; }

// Options of progressive growing (Karras et al. 2018a, sec. 3). The first resolution is trained for
// `stable` images; each further one is faded in for `fade` images and then trained for `stable`.
struct ScheduleOptions {
  static constexpr const char* kSection = "schedule.";
  int64_t start = 4;
  Kimg fade{600'000};
  Kimg stable{600'000};
  std::string batch = "auto";  // choose_schedule() fills in both
  std::string lr_factor = "auto";
  bool reset_optimizers = true;
};

template <class Field>
void fields(ScheduleOptions& o, Field&& field) {
  field("start", o.start, power_of_two(4, 1024), "pixels of the first stage");
  field("fade_kimg", o.fade, between(0, 1e9), "kimg over which a resolution is faded in");
  field("stable_kimg", o.stable, between(0.001, 1e9), "kimg between two fades");
  field("batch",
        o.batch,
        "global batch by resolution: 4:128,8:64,16 (the last for all others); auto: by ranks");
  field("lr_factor",
        o.lr_factor,
        "factor of both learning rates by resolution: 128:1.5,256:2,1; auto: by ranks");
  field("reset_optimizers", o.reset_optimizers, "moments start at zero at each stage");
}

// The stages of a progressive recipe: a pure function of the images seen, the same on all ranks.
class Schedule {
 public:
  Schedule() = default;
  explicit Schedule(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  bool empty() const { return stages_.empty(); }
  const std::vector<Stage>& stages() const { return stages_; }
  // Returns the number of the stage that trains the next image.
  int64_t stage_at(int64_t images_seen) const;
  // Returns the weight of the newest layers, in [0, 1]; 1 outside fades.
  double alpha_at(int64_t images_seen) const;
  // Returns how many iterations it takes to see `images` images, each iteration with its stage's
  // batch.
  int64_t iterations_to(int64_t images) const;
  // Returns the name of a stage: "stage 3 of 5: 16 pixels, fading in".
  std::string name_of(int64_t stage) const;

 private:
  std::vector<Stage> stages_;
};

// Makes the stages up to `resolution`. Throws UserError(kUsage) that names the key that does not
// fit.
Schedule make_schedule(const ScheduleOptions& options, int64_t resolution);

// One row of a recipe's table: the batch and learning rates that its authors used with `ranks`
// devices or more.
struct ScheduleRow {
  int64_t ranks;
  std::string batch, lr_factor;  // as in ScheduleOptions
};

// The batches of Karras et al.'s code for 1, 2, 4 and 8 devices, with these factors of learning
// rates for each.
std::vector<ScheduleRow> karras_schedules(const std::array<std::string, 4>& lr_factors);

// By what learning rates change with a batch that is `ratio` times as large (train.lr_scale: Goyal
// et al. 2017 for "linear"; its root for "sqrt").
double rate_factor(const std::string& rule, double ratio);
// Scales the learning rates that nobody has given, as train.lr_scale says. Returns whether there
// was one.
bool scale_rates(Config& config, double ratio);
// What is said of a changed batch where they do not.
constexpr const char* kRatesStay = "learning rates stay (--lr-scale linear|sqrt scales them)";

// Fills in schedule.batch, schedule.lr_factor and train.batch (the first stage's batch) for that
// many ranks, where the user has not given them. If the user has given train.batch, this batch is
// used in all stages, also where a file, but not the command, gives the table, and train.lr_scale
// then scales each stage's learning rates. Batches become multiples of the number of ranks, and
// multiples of 4 images per rank where they are that large (the group of the minibatch standard
// deviation). Origins of chosen values begin with "auto"; values that already have such an origin
// stay. Returns lines that say what was chosen and why.
std::vector<std::string> choose_schedule(Config& config,
                                         int64_t ranks,
                                         const std::vector<ScheduleRow>& rows);

// Returns the schedule of a complete configuration. Throws UserError(kUsage) that names the key
// that does not fit.
Schedule schedule_of(const Config& config);

// Throws UserError(kUsage) unless networks that double their size can end at `resolution`: a square
// whose side is a power of two from 4 to 1024.
void check_growing_resolution(const Size& resolution);

// Pictures that the minibatch deviation of networks that grow looks at together (Karras et al.
// 2018a, sec. 3): DiscriminatorShape::mbstd_group_size.
inline constexpr int64_t kGrowingGroup = 4;

enum class NoiseMode { kConst, kRandom, kNone };
constexpr std::array<std::string_view, 3> names(NoiseMode) { return {"const", "random", "none"}; }

// How a trained generator makes a picture. A generator ignores options for features that it does
// not have.
struct SynthesisOptions {
  double trunc = 1;  // psi: how far w stays from its mean (Karras et al. 2019, app. B)
  std::optional<int64_t> trunc_cutoff;  // number of layers that are truncated; none: all
  NoiseMode noise = NoiseMode::kConst;
  uint64_t noise_seed = 0;  // seed of random noise
  int64_t level = 0;        // pixels of a progressive network's stage; 0: full size
  double alpha = 1;         // weight of that stage's newest layers, in [0, 1]
  // Whether autograd records the computation, so that pictures can be differentiated with respect
  // to their latents.
  bool gradients = false;
};

// Returns the sizes in pixels of a progressive network's stages: 4, 8, ... resolution.
std::vector<int64_t> levels_up_to(int64_t resolution);

// Returns the pixels of the stage that the options ask for, or the last of `levels` where they name
// none. Throws UserError(kUsage) unless the level is one of `levels` and alpha lies in [0, 1].
int64_t level_of(const SynthesisOptions& options, const std::vector<int64_t>& levels);

// Returns the options with which a network makes pictures as in that stage of its growth: pictures
// of the stage's pixels, with the weight that its newest layers have after so many images.
SynthesisOptions options_at(const Schedule& schedule, int64_t stage, int64_t images_seen);

}  // namespace gantrain
