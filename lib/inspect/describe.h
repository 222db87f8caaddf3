// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/forward_precision.h"
#include "gan/options.h"
#include "gan/phase.h"
#include "train/cpu_precision/product_times.h"
#include "train/step/training_step.h"

namespace gantrain {

// Makes a row for each pair of a block and a type that it computed in: {"block": "D.b16",
// "parameters": "float", "computes": "bfloat16", "why": "autocast"}. "parameters" is "-" where the
// block has none.
Json dtype_table(const std::vector<Player*>& players,
                 const std::vector<Computed>& computed,
                 PrecisionMode mode);

// Prints the table to standard output.
void print_dtypes(const Json& table);

// Makes a row for each convolution or matrix product that was timed: {"product": "conv2d 64x8x8
// 64x64x3x3 p1x1", "float32": seconds of an iteration, "bfloat16": seconds, "computes":
// "bfloat16"}. `choice` is precision.cpu_choice.
Json product_table(const std::vector<ProductTimes>& measured, const std::string& choice);

// Prints "amp" and "products" of the dry run's report to standard output, where there are any.
void print_products(const Json& report);

// Seconds that were measured several times on a machine with other work: nine tenths of them lie
// between `low` and `high`.
struct Spread {
  double low = 0, middle = 0, high = 0;

  Spread scaled(double factor) const { return {low * factor, middle * factor, high * factor}; }
  Spread plus(const Spread& other) const {
    return {low + other.low, middle + other.middle, high + other.high};
  }
};
// Returns the 5 %, 50 % and 95 % quantiles. There is at least one value.
Spread spread_of_seconds(const std::vector<double>& values);
// Returns "59m12s to 1h04m", or "about 1h02m" where both ends read alike.
std::string duration_text(const Spread& seconds);

// Times iterations of each stage, and notes what blocks compute in and what memory they take.
class Prober {
 public:
  Prober(TrainingStep& step, int64_t channels) : step_(step), channels_(channels) {}

  // Returns the seconds that one rank needs for an image in the long run, at the stage that the
  // step is in. In the run a rank computes with `micro_batch` images at a time.
  Spread seconds_per_image(const Size& resolution, int64_t micro_batch);
  const std::vector<Computed>& computed() const { return computed_; }
  // Returns the bytes of activations and gradients that are needed at a time in the run, in the
  // stage that needs most; 0 where they are too small to be counted.
  int64_t working_bytes() const { return working_bytes_; }

 private:
  struct Iterations {
    int64_t first;
    int64_t count;
  };
  // Iterations of one round of all phases, those with the same phases together.
  std::vector<Iterations> kinds() const;
  double seconds_of(int64_t iteration, const at::Tensor& pictures);
  Spread time(int64_t iteration, const at::Tensor& pictures);
  void count_memory(int64_t peak_before, int64_t micro_batch);

  TrainingStep& step_;
  int64_t channels_;
  std::vector<Computed> computed_;  // of all stages
  int64_t working_bytes_ = 0;
};

// A run as its command line says it.
struct DescribedRun {
  const Config& config;
  const RecipeRow& recipe;
  bool json = false;    // one JSON line instead of tables
  bool cuda = false;    // the run is to compute on GPUs
  int64_t world = 1;    // ranks of the run
  int64_t threads = 1;  // threads of the measurement on this machine's CPU
};

// Prints parameter counts, dtypes, memory and time of the run to standard output, after a few
// iterations on this machine's CPU.
void describe(const DescribedRun& run);

}  // namespace gantrain
