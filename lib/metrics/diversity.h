// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

// Multi-scale structural similarity (Wang, Simoncelli & Bovik 2003). Pictures are [N, C, H, W] in
// 0..255; computed in float64.

// One scale, per picture [N], float64: ssim is luminance times contrast and structure, cs is
// without luminance.
struct Similarity {
  at::Tensor ssim;
  at::Tensor cs;
};
// Compares pictures under an 11x11 Gaussian window with sigma 1.5. For pictures of a smaller side n
// the window is n x n with sigma 1.5 n / 11.
Similarity ssim(const at::Tensor& a, const at::Tensor& b);

// Returns the exponents of the five scales (Wang et al., sec. 3), finest first. Below 64 pixels it
// returns only the first three of them, so that the smallest scale has at least 4 pixels for
// pictures of 16 pixels or more.
std::vector<double> ms_ssim_weights(int64_t resolution);

// Returns the similarity of a[i] and b[i], [N] float64: the product over scales of cs^w, and of
// ssim^w at the last scale. Negative factors count as 0.
at::Tensor ms_ssim_pairs(const at::Tensor& a,
                         const at::Tensor& b,
                         const std::vector<double>& weights);

// Measures the diversity of pictures 0 to count - 1: the mean similarity of pictures 2i and 2i + 1;
// lower is more diverse. Collective. Throws c10::Error for fewer than two pictures.
double ms_ssim(Pictures& pictures, int64_t count, const SharedWork& work = {});

// Returns the mean Euclidean distance between two of the first `count` pictures (at most 2048
// count, in all pairs), each reduced by averaging to at most 32 pixels on its shorter side. Values
// 0..255, so that two pictures of opposite colour differ by 255 a value: divided by the root of the
// number of values. Collective. Needs two pictures.
double mean_distance(Pictures& pictures, int64_t count, const SharedWork& work);

// Which of the ten classes of synth:shapes a set of pictures shows.
struct Modes {
  int64_t shown = 0;      // classes that at least a hundredth of the pictures belong to, and one
  double recognised = 0;  // share of the pictures that look like a shape at all
};

// Sorts the first `count` fakes into the classes of synth:shapes, by the nearest outline among a
// thousand reals: a picture's outline is where it is darker or more colourful than the pale ground,
// moved to the middle and scaled. Fakes whose outline is further from every real one than reals'
// outlines are from each other belong to no class. `reals` are synth:shapes of the fakes' size.
// Collective. Sorts at least 95 % of real shapes of 16 pixels or more rightly.
Modes count_modes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

// Returns the class of each of the first `count` fakes, -1 for none, int64 [count]. Collective.
at::Tensor classify_shapes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work);

}  // namespace gantrain
