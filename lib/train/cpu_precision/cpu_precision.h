// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gan/options.h"
#include "train/cpu_precision/product_times.h"
#include "train/step/training_step.h"

namespace gantrain {

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
