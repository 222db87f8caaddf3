// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Pictures to be projected.
struct Targets {
  std::vector<std::string> files;
  std::vector<std::string> names;  // of the files without folder and ending, all different
  at::Tensor pictures;             // uint8 [N, C, H, W]
};

// Reads pictures of any form and size and brings them to `size` and `channels` as training data is:
// the largest part in the middle that has the shape, resampled by Lanczos. Throws UserError(kInput)
// that names a file which cannot be read, and UserError(kUsage) for two files of one name.
Targets load_targets(const std::vector<std::string>& files, Size size, int64_t channels);

// Returns the values in [-1, 1] that pictures of a generator are rounded from, as float32: the
// middle of what becomes that byte.
at::Tensor from_bytes(const at::Tensor& pictures);

// Returns [N]: the peak signal-to-noise ratio in dB between uint8 pictures [N, C, H, W], float64;
// infinite for equal ones.
at::Tensor psnr(const at::Tensor& a, const at::Tensor& b);

// Returns a picture as uint8 [C, H, W].
at::Tensor planes_of(const ImageView& image);

}  // namespace gantrain
