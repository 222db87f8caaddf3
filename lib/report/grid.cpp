// SPDX-License-Identifier: Apache-2.0
#include "report/grid.h"

#include <algorithm>

#include "core/torch.h"

namespace gantrain {

namespace {

// [H, W, C] uint8 -> Image.
Image from_pixels(const at::Tensor& pixels) {
  const at::Tensor dense = pixels.contiguous();
  const uint8_t* first = dense.const_data_ptr<uint8_t>();
  return {.width = dense.size(1),
          .height = dense.size(0),
          .channels = dense.size(2),
          .pixels = std::vector<uint8_t>(first, first + dense.numel())};
}

// Of [..., C, H, W].
void check_channels(const at::Tensor& images) {
  const int64_t channels = images.size(-3);
  TORCH_CHECK(channels >= 1 && channels <= 4, "pictures have 1 to 4 channels, not ", channels);
}

}  // namespace

Image to_image(const at::Tensor& picture) {
  TORCH_CHECK(picture.dim() == 3, "to_image: a picture is [C, H, W]");
  check_channels(picture);
  return from_pixels(to_bytes(picture).permute({1, 2, 0}));
}

Image tile(const at::Tensor& images, int64_t columns) {
  TORCH_CHECK(images.dim() == 4 && images.size(0) > 0, "tile: pictures are [N, C, H, W]");
  TORCH_CHECK(columns > 0, "tile: at least one column");
  check_channels(images);
  const at::Tensor bytes = to_bytes(images);
  const int64_t count = bytes.size(0), channels = bytes.size(1);
  const int64_t height = bytes.size(2), width = bytes.size(3);
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  at::Tensor cells = at::zeros({rows * columns, channels, height, width}, at::kByte);
  cells.narrow(0, 0, count).copy_(bytes);
  return from_pixels(cells.view({rows, columns, channels, height, width})
                         .permute({0, 3, 1, 4, 2})
                         .reshape({rows * height, columns * width, channels}));
}

}  // namespace gantrain
