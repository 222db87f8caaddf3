// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

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
  int64_t images = 1;  // of a rank in an iteration
  int64_t group = 1;   // so many samples normalise each other
};

// Returns the largest micro-batch that divides the share and whose peak is at most `budget` bytes:
// a multiple of the group if one fits, else any divisor; 0 if not even one image fits.
int64_t largest_micro_batch(const RankShare& share, const MemoryLine& line, double budget);

// Returns the largest number below `micro_batch` that divides it; 0 for 1.
int64_t smaller_micro_batch(int64_t micro_batch);

}  // namespace gantrain
