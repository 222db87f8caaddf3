// SPDX-License-Identifier: Apache-2.0
#include "metrics/ms_ssim.h"

#include <algorithm>
#include <cmath>

#include "core/torch.h"

namespace gantrain {

namespace {

constexpr double kRange = 255;
constexpr double kC1 = (0.01 * kRange) * (0.01 * kRange);  // Wang et al. 2004, K1, K2
constexpr double kC2 = (0.03 * kRange) * (0.03 * kRange);
constexpr int64_t kFilter = 11;

// Gaussian of `size` taps with sum 1, centred (between two taps if size is even).
std::vector<double> gaussian(int64_t size) {
  const double sigma = 1.5 * static_cast<double>(size) / kFilter;
  std::vector<double> taps;
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) - static_cast<double>(size - 1) / 2;
    taps.push_back(std::exp(-x * x / (2 * sigma * sigma)));
    sum += taps.back();
  }
  for (double& tap : taps) tap /= sum;
  return taps;
}

// Filters where the whole window lies inside: [N, C, H - size + 1, W - size + 1].
at::Tensor blur(const at::Tensor& x, const std::vector<double>& taps) {
  const auto size = static_cast<int64_t>(taps.size());
  at::Tensor out = x;
  for (const int64_t dim : {2, 3}) {
    const int64_t length = out.size(dim) - size + 1;
    at::Tensor sum = out.narrow(dim, 0, length) * taps[0];
    for (int64_t i = 1; i < size; ++i) sum.add_(out.narrow(dim, i, length), taps[i]);
    out = sum;
  }
  return out;
}

// Averages 2x2 pixels; an odd last row or column is averaged by itself.
at::Tensor halve(const at::Tensor& x) {
  return at::avg_pool2d(x, {2, 2}, {2, 2}, {0, 0}, /*ceil_mode=*/true, /*count_include_pad=*/false);
}

}  // namespace

Similarity ssim(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const std::vector<double> taps = gaussian(std::min({kFilter, x.size(2), x.size(3)}));
  const at::Tensor mean_x = blur(x, taps), mean_y = blur(y, taps);
  const at::Tensor xx = mean_x * mean_x, yy = mean_y * mean_y, xy = mean_x * mean_y;
  const at::Tensor var_x = blur(x * x, taps) - xx, var_y = blur(y * y, taps) - yy;
  const at::Tensor covariance = blur(x * y, taps) - xy;
  const at::Tensor contrast = (2 * covariance + kC2) / (var_x + var_y + kC2);
  const at::Tensor luminance = (2 * xy + kC1) / (xx + yy + kC1);
  return {.ssim = (luminance * contrast).mean({1, 2, 3}), .cs = contrast.mean({1, 2, 3})};
}

std::vector<double> ms_ssim_weights(int64_t resolution) {
  if (resolution < 64) return {0.0448, 0.2856, 0.3001};
  return {0.0448, 0.2856, 0.3001, 0.2363, 0.1333};
}

at::Tensor ms_ssim_pairs(const at::Tensor& a,
                         const at::Tensor& b,
                         const std::vector<double>& weights) {
  TORCH_CHECK(a.sizes() == b.sizes(), "ms_ssim: pictures of one shape");
  at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  at::Tensor product = at::ones({a.size(0)}, x.options());
  for (size_t scale = 0; scale < weights.size(); ++scale) {
    const bool last = scale + 1 == weights.size();
    const Similarity similarity = ssim(x, y);
    product *= (last ? similarity.ssim : similarity.cs).clamp_min(0).pow(weights[scale]);
    if (last) break;
    x = halve(x);
    y = halve(y);
  }
  return product;
}

double ms_ssim(Pictures& pictures, int64_t count, const SharedWork& work) {
  TORCH_CHECK(count >= 2, "ms_ssim: needs two pictures");
  const at::NoGradGuard no_grad;
  const at::Tensor one = pictures.get({0});
  const std::vector<double> weights = ms_ssim_weights(std::min(one.size(2), one.size(3)));
  const int64_t pairs = count / 2;
  at::Tensor sums = at::zeros({(2 * pairs + kPicturesAtOnce - 1) / kPicturesAtOnce}, at::kDouble);
  share(work, {"pictures for msssim", 2 * pairs, kPicturesAtOnce}, [&](const Piece& piece) {
    const at::Tensor some = pictures.get(piece.numbers()).to(work.device);
    const at::Tensor a = some.slice(0, 0, piece.count, 2), b = some.slice(0, 1, piece.count, 2);
    sums[piece.first / kPicturesAtOnce] = ms_ssim_pairs(a, b, weights).sum().item<double>();
  });
  sum_over_ranks_(work, sums);
  double sum = 0;  // in order, so that any number of ranks gets the same bits
  for (int64_t i = 0; i < sums.size(0); ++i) sum += sums[i].item<double>();
  return sum / static_cast<double>(pairs);
}

double ms_ssim(const at::Tensor& images) {
  TORCH_CHECK(images.dim() == 4, "ms_ssim: pictures are [N, C, H, W]");
  TensorPictures pictures(images);
  const SharedWork alone = {.group = nullptr, .device = images.device()};
  return ms_ssim(pictures, images.size(0), alone);
}

}  // namespace gantrain
