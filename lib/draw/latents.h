// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace gantrain {

// All latents are float32 on the CPU.

// [N, z_dim]: row i is numpy's RandomState(seeds[i]).randn(z_dim), the reference tools' latent.
// Seeds are from 0 to 2^32 - 1.
at::Tensor latents_of_seeds(const std::vector<int64_t>& seeds, int64_t z_dim);

// [N, z_dim] of a .npy file, or of the array "z" of a .npz file. Throws UserError(kInput) naming
// file and both shapes.
at::Tensor latents_of_file(const std::filesystem::path& path, int64_t z_dim);

// [N, num_ws, w_dim] of a .npy file of that shape, or of [N, w_dim], one row for all layers; or of
// the array "w" of a .npz file, as the reference's projector writes it. Throws UserError(kInput)
// naming file and both shapes.
at::Tensor styles_of_file(const std::filesystem::path& path, int64_t num_ws, int64_t w_dim);

// Interpolates between a (t = 0) and b (t = 1), exact at both ends. Spherical interpolation
// (Shoemake 1985) goes along the great circle through both directions at even speed, and along a
// straight line where they are parallel; it takes one vector of any shape. Linear interpolation
// goes along a straight line.
at::Tensor spherical(const at::Tensor& a, const at::Tensor& b, double t);
at::Tensor linear(const at::Tensor& a, const at::Tensor& b, double t);

}  // namespace gantrain
