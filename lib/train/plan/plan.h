// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "gan/schedule.h"
#include "train/options.h"
#include "util/field.h"
#include "util/text.h"

namespace gantrain {

// Which samples of the global batch a micro-batch has: `first`, first + stride, ..., `count` in
// all.
struct MicroBatch {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

// How one optimizer step's global batch is cut: global = ranks x accumulate x micro-batch.
//
// Shares that are not equal (train.uneven) are cut in one of two ways. Where no samples are
// normalised together, sample n goes to rank n mod W as always, and some ranks have one sample
// more. Where groups of samples are, the batch is cut into `units` of whole groups, sample n into
// unit n mod units, and unit u goes to rank u mod W; each unit is `accumulate` micro-batches. So a
// group has the samples that it has on one rank.
struct BatchPlan {
  int64_t batch = 1;
  int64_t world = 1;
  int64_t micro_batch = 1;  // the largest one
  int64_t accumulate = 1;   // of a rank, or of a unit
  int64_t units = 0;        // 0: shares are equal; `batch`: each sample is a unit, none is a group
  bool uneven = false;      // train.uneven: with other ranks they may be unequal

  bool equal() const { return units == 0; }
  // Into how many units the batch is dealt to ranks: what Loader is told.
  int64_t dealt() const { return equal() ? world : units; }
  // The images of that rank, and the number of its micro-batches.
  int64_t share(int64_t rank) const;
  int64_t parts(int64_t rank) const;
  // Micro-batch `part` of that rank, which has every parts(rank)-th of its images.
  MicroBatch micro_batch_of(int64_t rank, int64_t part) const;

  std::string text() const;  // "batch 64 = 2 ranks x 32", "... x 2 accumulated x 16"
};

// What a rank needs of a batch, for the words of a refusal.
struct BatchNeed {
  int64_t group = 1;    // pictures that one rank must have together: RecipeFacts::together
  int64_t of_node = 0;  // ranks of each node; 0: not known
};

// Makes the plan for train.batch. Throws UserError(kUsage) that names the keys, with the nearest
// batches that would do, where ranks, micro-batch or accumulation do not divide the batch, and with
// how many ranks it feeds where there are more ranks than pictures. With train.uneven, ranks need
// not divide it: micro-batch and accumulation are then what is come close to.
BatchPlan plan_batch(const TrainOptions& options, int64_t world, const BatchNeed& need = {});

// Makes the plan of a stage whose batch differs from train.batch. A micro-batch that is larger than
// a rank's share becomes that share. Throws as plan_batch does, naming the stage.
BatchPlan plan_stage(const TrainOptions& options,
                     int64_t batch,
                     int64_t world,
                     const std::string& stage);

// Makes the plan of a player that has an accumulation of its own (`accumulate`); otherwise returns
// `plan`.
BatchPlan plan_player(const BatchPlan& plan,
                      const std::string& player,
                      std::optional<int64_t> accumulate);

// Whether a cadence of `every` images falls between two counts.
constexpr bool crossed(int64_t before, int64_t after, int64_t every) {
  return after / every > before / every;
}

// Names a point of the run: "000200" for 200 kimg, or "000200.160" with fractions.
std::string kimg_name(int64_t images, bool fractions);
// Whether the cadences of this run need names with fractions of a kimg.
bool needs_fractions(const TrainOptions& train, const SaveOptions& save);

// How a stage of growth will be trained.
struct StagePlan {
  Stage stage;
  BatchPlan plan;
  int64_t images = 0;  // images trained in it; 0 if the run ends before
  int64_t iterations = 0;
};

// Plans all stages of a schedule up to the run's end. Throws as plan_stage does (train/plan.h).
std::vector<StagePlan> plan_stages(const TrainOptions& options,
                                   const Schedule& schedule,
                                   int64_t world);
// Throws where a stage cannot be cut as its options and PLAYER.accumulate say, and names it.
void check_stages(const TrainOptions& options,
                  const Config& config,
                  const Schedule& schedule,
                  int64_t world);

// Says how a batch is cut, and how for the players that have an accumulation of their own: "batch
// 16 = 2 ranks x 8; D: 4 accumulated x 2". Throws UserError(kUsage) as plan_player does.
std::string batch_text(const BatchPlan& plan, const Config& config);

// Says what a minibatch standard deviation over `group` pictures compares where a player's
// micro-batches are no multiple of them; "" where they are.
std::string split_groups_text(const std::string& player, int64_t micro_batch, int64_t group);

// A run looks for the files SAVE and STOP so often, in seconds, at the beginning of an iteration,
// and obeys them at the end of the same one.
constexpr double kLookEvery = 0.2;

// Returns "" where that is within a second at so many seconds an iteration, else "; SAVE and STOP
// are obeyed within 24s".
std::string obeyed_text(double seconds_an_iteration);

// The memory that an iteration needs at its peak, by the images that a rank computes with at a
// time: `fixed` + images * `each`, in bytes.
struct MemoryLine {
  double fixed = 0;
  double each = 0;

  double at(int64_t images) const { return fixed + each * static_cast<double>(images); }
};

// What was measured for a number of images; 0 images: nothing was.
struct MeasuredPeak {
  int64_t images = 0;
  int64_t bytes = 0;
};

// Returns the line through both; images that cost nothing where the larger number needed less.
MemoryLine line_through(const MeasuredPeak& few, const MeasuredPeak& many);

// What a rank has to cut.
struct RankShare {
  int64_t images = 1;   // of a rank in an iteration, or of a unit
  int64_t group = 1;    // so many samples normalise each other
  bool uneven = false;  // some ranks have one image less: micro-batches differ by one, too

  // Whether it is cut into micro-batches of which the largest has so many images. Where shares are
  // uneven, those of all ranks are cut into as many parts, of at least one image.
  bool has_cut(int64_t micro_batch) const;
};
// What the ranks of a plan have to cut, the largest share; `group`: BatchNeed::group.
RankShare share_to_cut(const BatchPlan& plan, int64_t group);

// Returns the largest micro-batch into which the share is cut and whose peak is at most `budget`
// bytes: a multiple of the group if one fits, else any; 0 if not even the smallest one fits.
int64_t largest_micro_batch(const RankShare& share, const MemoryLine& line, double budget);

// Returns the largest number below `micro_batch` that divides it; 0 for 1.
int64_t smaller_micro_batch(int64_t micro_batch);

// Seconds of a run so far, over all of its sessions.
struct MetricTimes {
  double run = 0;      // all of it, metrics included
  double metrics = 0;  // of which metrics
  double last = 0;     // of the last measurement; 0 before the first
};

// When a run measures metrics: at each multiple of a given number of images, or, where none is
// given, up to 20 times in the run and at most once each 200 kimg, as often as all measurements
// together stay under 3 % of the run's time.
class MetricCadence {
 public:
  static constexpr double kLargestShare = 0.03;

  // `adapts`: a given number is the least there is between two measurements, and what they cost
  // counts too, as it does where none is given.
  MetricCadence(std::optional<Kimg> every, Kimg run, bool adapts = false);

  bool adapts() const { return adapts_; }     // to what measurements cost
  int64_t images() const { return images_; }  // between two chances of a measurement
  // Whether a measurement may be due between two counts of images seen: the same on all ranks.
  bool may_be_due(int64_t before, int64_t after) const {
    return after / images_ > before / images_;
  }
  // Whether what it costs, about as much as the last one, can be afforded now.
  bool affords(const MetricTimes& times) const;

 private:
  bool adapts_;
  int64_t images_;
};

// Returns the share of the run's time that metrics would have taken after one more measurement.
double share_after_one_more(const MetricTimes& times);

// A number of images in thousands, and its text: "14.656".
inline double kimg_of(int64_t images) { return static_cast<double>(images) / 1e3; }
inline std::string kimg_text(int64_t images) { return shortest(kimg_of(images)); }

}  // namespace gantrain
