// SPDX-License-Identifier: Apache-2.0
#include "explore/picture_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "data/load_planes.h"
#include "data/source.h"

namespace gantrain {

namespace {

constexpr int64_t kLargestCompared = 256;    // pixels a side
constexpr int64_t kLargestForFeatures = 64;  // pixels a side
constexpr std::array<int64_t, 3> kWidths = {32, 64, 128};
constexpr int64_t kPlaces = 4;  // a side of the grid
constexpr double kSlope = 0.2;  // of leaky ReLU

int64_t longer_side(const at::Tensor& pictures) {
  return std::max(pictures.size(2), pictures.size(3));
}

}  // namespace

at::Tensor pixel_vectors(const at::Tensor& pictures) {
  const int64_t block = (longer_side(pictures) + kLargestCompared - 1) / kLargestCompared;
  at::Tensor values = pictures.to(at::kFloat);
  // Sums of whole numbers, which are exact, so that equal pictures have distance 0.
  if (block > 1) {
    values = at::avg_pool2d(values,
                            block,
                            /*stride=*/block,
                            /*padding=*/0,
                            /*ceil_mode=*/true,
                            /*count_include_pad=*/true,
                            /*divisor_override=*/1);
  }
  values = values.flatten(1);
  const double largest = 255.0 * static_cast<double>(block * block);
  return values.to(at::kDouble) / (largest * std::sqrt(static_cast<double>(values.size(1))));
}

RandomFeatures::RandomFeatures(int64_t channels) {
  int64_t in = channels;
  for (const int64_t out : kWidths) {
    const at::Tensor shape = torch::empty({out, in, 3, 3});
    const double gain = std::sqrt(2.0 / static_cast<double>(in * 9));
    weights_.push_back(normal_like(shape, 0, fmt::format("random features {}", out)) * gain);
    in = out;
  }
}

at::Tensor RandomFeatures::operator()(const at::Tensor& pictures) const {
  const torch::NoGradGuard no_grad;
  at::Tensor x = pictures.to(at::kFloat) / 127.5 - 1;
  if (longer_side(x) > kLargestForFeatures) {
    const double scale =
        static_cast<double>(kLargestForFeatures) / static_cast<double>(longer_side(x));
    const auto scaled = [&](int64_t side) {
      return std::max<int64_t>(std::llround(scale * static_cast<double>(side)), kPlaces);
    };
    x = torch::adaptive_avg_pool2d(x, {scaled(x.size(2)), scaled(x.size(3))});
  }
  std::vector<at::Tensor> features;
  for (const at::Tensor& weight : weights_) {
    if (!features.empty() && std::min(x.size(2), x.size(3)) > 1) x = torch::avg_pool2d(x, 2);
    x = torch::leaky_relu(torch::conv2d(x, weight, {}, 1, 1), kSlope);
    features.push_back(torch::adaptive_avg_pool2d(x, {kPlaces, kPlaces}).flatten(1));
  }
  const at::Tensor all = torch::cat(features, 1);
  return all / std::sqrt(static_cast<double>(all.size(1)));
}

at::Tensor load_pictures(const Dataset& dataset, int64_t first, int64_t count) {
  std::vector<WantedPicture> wanted;
  for (int64_t i = 0; i < count; ++i) wanted.push_back({first + i});
  return load_planes(dataset, wanted);
}

std::string picture_name(const Dataset& dataset, int64_t index) {
  const std::optional<PictureFile> file = dataset.picture_file(index);
  return file ? file->source->name(file->file) : fmt::format("picture {}", index);
}

}  // namespace gantrain
