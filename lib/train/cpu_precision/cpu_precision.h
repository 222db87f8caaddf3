// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/forward_precision.h"
#include "gan/options.h"
#include "train/step/training_step.h"

namespace gantrain {

// What the calls of one product in an iteration cost on this CPU, forward and backward, with the
// conversions of operands, results and gradients. In seconds.
struct ProductTimes {
  Product product;
  double float32 = 0;
  double bfloat16 = 0;
};

// Whether this processor multiplies bfloat16 by instructions of its own (AVX512-BF16 or AMX).
bool multiplies_bfloat16();

// Chooses bfloat16 for each product that it makes faster by a tenth at least. Where all of them
// together would save less than a tenth of the products' time, nothing is lowered: in a whole step,
// where caches are shared, that was measured to save nothing.
ProductChoice choose_types(const std::vector<ProductTimes>& measured);

// The sum of the times in float32, and of the times as chosen.
struct ChosenSums {
  double float32 = 0;
  double chosen = 0;
};
ChosenSums sum_times(const std::vector<ProductTimes>& measured, const ProductChoice& choice);

// Times a product once, on tensors of its own; `uses` says how often and what for.
using TimeOnce = std::function<ProductTimes(const Product& product, const ProductUses& uses)>;
ProductTimes time_once(const Product& product, const ProductUses& uses);

// Times the recorded products, those with the most arithmetic first, and keeps the least of several
// times. It stops after `budget` seconds, or twice as many while some were not timed once; what was
// not timed until then is not in the result.
std::vector<ProductTimes> time_products(const ProductRecord& record,
                                        double budget,
                                        const TimeOnce& once = time_once);

// Returns the multiplications and additions of one forward call.
double operations(const Product& product, const ProductUses& uses);

// What a run with --amp on a CPU decides once, before its first iteration.
struct CpuPrecision {
  std::string choice;                  // precision.cpu_choice from now on
  std::string detail;                  // for the log, after describe_precision(); may be empty
  std::string warning;                 // "": nothing to warn of
  std::vector<ProductTimes> measured;  // on rank 0; empty where nothing was measured
};

// One resolution that a run trains at.
struct TrainedSize {
  int64_t stage = 0;  // of networks that grow
  int64_t batch = 1;
  int64_t micro_batch = 1;
  Size resolution = {4, 4};
};

// Returns the sizes from the one that is due after `images_seen` to the run's end.
std::vector<TrainedSize> trained_sizes(const TrainingStep& step,
                                       const TrainOptions& train,
                                       int64_t world,
                                       const Size& resolution,
                                       int64_t images_seen = 0);

// How things are measured; tests give times of their own.
struct PrecisionMeter {
  bool able = multiplies_bfloat16();
  TimeOnce time = time_once;
  // The time of forward and backward passes under autocast to bfloat16, in that of float32.
  std::function<double(TrainingStep& step, const TrainedSize& size)> ratio;

  PrecisionMeter();
};

// Decides and tells the step. For --amp with precision.cpu_choice=auto, rank 0 measures which
// products bfloat16 makes faster, and all ranks take its choice; a run that is resumed keeps
// `resumed`, the choice that its state was saved with ("" in states from before there was one:
// those runs compute all in bfloat16). For --amp=bf16 nothing is decided, but a run that begins is
// warned where that is slower than float32. All ranks call it together, before the run enters its
// stage: the step is left in the last of `sizes`.
CpuPrecision decide_cpu_precision(TrainingStep& step,
                                  const PrecisionOptions& options,
                                  const std::vector<TrainedSize>& sizes,
                                  Group& group,
                                  const std::optional<std::string>& resumed,
                                  const PrecisionMeter& meter = {});

// Returns the uses of all products of the main phases in an iteration. All ranks call it together.
// The step computes in float32 afterwards.
ProductRecord record_products(TrainingStep& step, const std::vector<TrainedSize>& sizes);

}  // namespace gantrain
