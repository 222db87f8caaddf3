// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gantrain {

// Multi-scale structural similarity (Wang, Simoncelli & Bovik 2003). Pictures are [N, C, H, W] in
// 0..255; computed in float64.

// One scale, per picture [N], float64: ssim is luminance times contrast and structure, cs is
// without luminance.
struct Similarity {
  at::Tensor ssim;
  at::Tensor cs;
};
// 11x11 Gaussian, sigma 1.5; in a smaller picture of side n: n x n, sigma 1.5 n / 11.
Similarity ssim(const at::Tensor& a, const at::Tensor& b);

// The exponents of the five scales (Wang et al., sec. 3), finest first; below 64 pixels the first
// three of them, unchanged, so that the smallest scale keeps 4 pixels from 16 pixels up.
std::vector<double> ms_ssim_weights(int64_t resolution);

// Similarity of a[i] and b[i], per pair [N], float64: the product over scales of cs^w, at the last
// scale of ssim^w; negative ones count as 0.
at::Tensor ms_ssim_pairs(const at::Tensor& a,
                         const at::Tensor& b,
                         const std::vector<double>& weights);

// Diversity of a set of uint8 pictures: mean similarity of pictures 2i and 2i + 1; lower is more
// diverse. TORCH_CHECK: at least two pictures.
double ms_ssim(const at::Tensor& images);

}  // namespace gantrain
