// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "metrics/pictures.h"
#include "metrics/shared_work.h"

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

// The same for all of the uint8 pictures in memory.
double ms_ssim(const at::Tensor& images);

}  // namespace gantrain
