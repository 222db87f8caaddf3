// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "metrics/detector.h"
#include "metrics/features.h"
#include "metrics/picture_metrics.h"
#include "util/error.h"

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
Tensor blur(const Tensor& x, const std::vector<double>& taps) {
  const auto size = static_cast<int64_t>(taps.size());
  Tensor out = x;
  for (const int64_t dim : {2, 3}) {
    const int64_t length = out.size(dim) - size + 1;
    Tensor sum = out.narrow(dim, 0, length) * taps[0];
    for (int64_t i = 1; i < size; ++i) sum.add_(out.narrow(dim, i, length), taps[i]);
    out = sum;
  }
  return out;
}

// Averages 2x2 pixels; an odd last row or column is averaged by itself.
Tensor halve(const Tensor& x) {
  return at::avg_pool2d(x, {2, 2}, {2, 2}, {0, 0}, /*ceil_mode=*/true, /*count_include_pad=*/false);
}

}  // namespace

Similarity ssim(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const std::vector<double> taps = gaussian(std::min({kFilter, x.size(2), x.size(3)}));
  const Tensor mean_x = blur(x, taps), mean_y = blur(y, taps);
  const Tensor xx = mean_x * mean_x, yy = mean_y * mean_y, xy = mean_x * mean_y;
  const Tensor var_x = blur(x * x, taps) - xx, var_y = blur(y * y, taps) - yy;
  const Tensor covariance = blur(x * y, taps) - xy;
  const Tensor contrast = (2 * covariance + kC2) / (var_x + var_y + kC2);
  const Tensor luminance = (2 * xy + kC1) / (xx + yy + kC1);
  return {.ssim = (luminance * contrast).mean({1, 2, 3}), .cs = contrast.mean({1, 2, 3})};
}

std::vector<double> ms_ssim_weights(int64_t resolution) {
  if (resolution < 64) return {0.0448, 0.2856, 0.3001};
  return {0.0448, 0.2856, 0.3001, 0.2363, 0.1333};
}

Tensor ms_ssim_pairs(const Tensor& a, const Tensor& b, const std::vector<double>& weights) {
  TORCH_CHECK(a.sizes() == b.sizes(), "ms_ssim: pictures of one shape");
  Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  Tensor product = at::ones({a.size(0)}, x.options());
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
  const Tensor one = pictures.get({0});
  const std::vector<double> weights = ms_ssim_weights(std::min(one.size(2), one.size(3)));
  const int64_t pairs = count / 2;
  const Pieces pieces = {"pictures for msssim", 2 * pairs, kPicturesAtOnce};
  const double sum = share_sum(work, pieces, [&](const Piece& piece) {
    const Tensor some = pictures.get(piece.numbers()).to(work.device);
    const Tensor a = some.slice(0, 0, piece.count, 2), b = some.slice(0, 1, piece.count, 2);
    return ms_ssim_pairs(a, b, weights).sum().item<double>();
  });
  return sum / static_cast<double>(pairs);
}

namespace {

constexpr int64_t kMostPictures = 2048;  // whose distances are computed
constexpr int64_t kSide = 32;            // that they are reduced to
constexpr int64_t kShapes = 10;          // classes of synth:shapes
constexpr int64_t kBank = 1024;          // reals that fakes are compared with
constexpr int64_t kProbes = 512;         // further reals, which say how near is near
constexpr int64_t kOutline = 16;         // side of a normalised outline in pixels

// Rows that each picture is turned into, [count, F] float64, on all ranks.
using ToRows = Tensor (*)(const Tensor& pictures);
Tensor rows_of(Pictures& pictures,
               const Pieces& pieces,
               int64_t first,
               ToRows to_rows,
               const SharedWork& work) {
  const int64_t length = to_rows(pictures.get({first})).size(1);
  const Tensor zeros = at::zeros({pieces.items, length}, at::kDouble);
  return share_rows(work, pieces, zeros, [&](Piece piece) {
    piece.first += first;
    return to_rows(pictures.get(piece.numbers()));
  });
}

Tensor reduced(const Tensor& pictures) {
  const Tensor x = pictures.to(at::kFloat);
  const int64_t factor = std::min(x.size(2), x.size(3)) / kSide;
  return (factor > 1 ? at::avg_pool2d(x, {factor, factor}) : x).flatten(1);
}

// 1 where a picture shows a shape, 0 on the ground, [N, 1, H, W]. The ground of synth:shapes is
// pale in every channel; shapes are dark or colourful, so that one channel is low.
Tensor shape_of(const Tensor& pictures) {
  constexpr double kPalest = 150;  // of a shape's lowest channel; the ground's is above 159
  const Tensor lowest = std::get<0>(to_rgb(pictures).min(1, /*keepdim=*/true));
  return ((kPalest - lowest) / 20 + 0.5).clamp_(0, 1);
}

// How much of the picture's border shows a shape, [N, 1]: nearly nothing for synth:shapes.
Tensor on_border(const Tensor& shape) {
  const auto line = [&](int64_t dim, int64_t at) { return shape.select(dim, at).mean({1, 2}); };
  const Tensor sum = line(2, 0) + line(2, -1) + line(3, 0) + line(3, -1);
  return (sum / 4).unsqueeze(1);
}

// The shape moved to the middle and scaled to equal spread, and the border, [N, 257].
Tensor outlines(const Tensor& pictures) {
  const Tensor shape = shape_of(pictures);
  const int64_t n = shape.size(0), height = shape.size(2), width = shape.size(3);
  const Tensor y = at::arange(height, at::kFloat).add_(0.5).view({1, 1, height, 1});
  const Tensor x = at::arange(width, at::kFloat).add_(0.5).view({1, 1, 1, width});
  const Tensor mass = shape.sum({1, 2, 3}, /*keepdim=*/true).clamp_min(1e-3);
  const Tensor mean_x = (shape * x).sum({1, 2, 3}, true) / mass;
  const Tensor mean_y = (shape * y).sum({1, 2, 3}, true) / mass;
  const Tensor squared = (x - mean_x).square() + (y - mean_y).square();
  const Tensor spread = ((shape * squared).sum({1, 2, 3}, true) / mass).sqrt().clamp_min(0.5);
  // Sampled from -2 to 2 spreads around the middle; grid_sample counts -1 to 1 over the picture.
  const Tensor steps = at::linspace(-2, 2, kOutline).view({1, kOutline});
  const Tensor at_x = (mean_x.view({n, 1}) + spread.view({n, 1}) * steps) * 2 / width - 1;
  const Tensor at_y = (mean_y.view({n, 1}) + spread.view({n, 1}) * steps) * 2 / height - 1;
  const Tensor grid = at::stack({at_x.view({n, 1, kOutline}).expand({n, kOutline, kOutline}),
                                 at_y.view({n, kOutline, 1}).expand({n, kOutline, kOutline})},
                                3);
  const Tensor outline =
      at::grid_sampler_2d(shape, grid, /*bilinear*/ 0, /*zeros*/ 0, /*align_corners=*/false);
  return at::cat({outline.flatten(1), kOutline * on_border(shape)}, 1);
}

// Nearest row of `bank` to each row, and the squared distance to it.
struct Nearest {
  Tensor distance;
  Tensor row;
};
Nearest nearest(const Tensor& rows, const Tensor& bank) {
  const auto [distance, row] = squared_distances(rows, bank).min(1);
  return {distance, row};
}

}  // namespace

double mean_distance(Pictures& pictures, int64_t count, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(count >= 2, "mean_distance: needs two pictures");
  const Pieces pieces = {"pictures for diversity", std::min(count, kMostPictures), kPicturesAtOnce};
  const Tensor rows = rows_of(pictures, pieces, 0, reduced, work);
  const auto n = static_cast<double>(rows.size(0));
  const Tensor distances = squared_distances(rows, rows).sqrt();
  const double sum = (distances.sum() - distances.trace()).item<double>();
  return sum / (n * (n - 1)) / std::sqrt(static_cast<double>(rows.size(1)));
}

Tensor classify_shapes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  if (reals.size() < 8 * kShapes)
    fail(Exit::kInput, "modes: needs {} reals of synth:shapes or more", 8 * kShapes);
  const int64_t bank_size = std::min(kBank, reals.size() / 2);
  const int64_t probes = std::min(kProbes, reals.size() - bank_size);
  const auto outlines_of = [&](Pictures& set, int64_t first, int64_t items) {
    return rows_of(set, {"pictures for modes", items, kPicturesAtOnce}, first, outlines, work);
  };
  const Tensor bank = outlines_of(reals, 0, bank_size);
  const Tensor near = nearest(outlines_of(reals, bank_size, probes), bank).distance;
  const Tensor farthest = 1.5 * near.quantile(0.99);
  const Piece in_bank = {.first = 0, .count = bank_size};
  const Tensor labels = at::tensor(reals.labels(in_bank.numbers()), at::kLong);
  const Nearest of_fakes = nearest(outlines_of(fakes, 0, count), bank);
  return labels.index_select(0, of_fakes.row).masked_fill(of_fakes.distance.gt(farthest), -1);
}

Modes count_modes(Pictures& reals, Pictures& fakes, int64_t count, const SharedWork& work) {
  const Tensor classes = classify_shapes(reals, fakes, count, work);
  const double enough = std::max(1.0, static_cast<double>(count) / (10 * kShapes));
  Modes modes;
  for (int64_t label = 0; label < kShapes; ++label) {
    if (classes.eq(label).sum().item<double>() >= enough) ++modes.shown;
  }
  modes.recognised = classes.ge(0).to(at::kDouble).mean().item<double>();
  return modes;
}

namespace {

constexpr double kInk = 25;         // the lowest channel of an ellipse
constexpr double kBright = 112;     // between a channel's two values in it, 25 and 200
constexpr double kSizeOff = 0.2;    // of the range from 0 to 1
constexpr double kAngleOff = 0.25;  // of a label; one is 60 degrees

// How much of each pixel belongs to the ellipse, [N, H, W]; the ground is as the border is.
Tensor covered(const Tensor& pictures) {
  const Tensor lowest = std::get<0>(pictures.min(1));
  const Tensor border = at::cat(
      {lowest.select(1, 0), lowest.select(1, -1), lowest.select(2, 0), lowest.select(2, -1)}, 1);
  const Tensor ground = std::get<0>(border.median(1)).view({-1, 1, 1}).clamp_min(kInk + 50);
  const Tensor share = ((ground - lowest) / (ground - kInk)).clamp(0, 1);
  return share.masked_fill(share < 0.15, 0);  // what is uneven in the ground
}

}  // namespace

Tensor shown_attributes(const Tensor& pictures) {
  const Tensor x = pictures.to(at::kDouble), share = covered(x);
  const int64_t height = x.size(2), width = x.size(3);
  const Tensor mass = share.sum({1, 2}).clamp_min(1e-3);
  const auto mean = [&](const Tensor& values) { return (share * values).sum({1, 2}) / mass; };
  const Tensor row = at::arange(height, at::kDouble).view({1, height, 1});
  const Tensor column = at::arange(width, at::kDouble).view({1, 1, width});
  const Tensor dx = column - mean(column).view({-1, 1, 1});
  const Tensor dy = mean(row).view({-1, 1, 1}) - row;  // upwards
  const Tensor turn = at::atan2(2 * mean(dx * dy), mean(dx * dx) - mean(dy * dy)) / 2;
  const auto side = static_cast<double>(std::min(height, width));
  const Tensor radius = (mass * ShapeOutline::kRatio / M_PI).sqrt() / side;
  const Tensor size =
      (radius - ShapeOutline::kSmallest) / (ShapeOutline::kLargest - ShapeOutline::kSmallest);
  // Of the inside alone: the edge is mixed with the ground.
  const Tensor inside = share * share * share, weight = inside.sum({1, 2}).clamp_min(1e-3);
  std::vector<Tensor> all;
  for (int64_t c = 0; c < 3; ++c)
    all.push_back((inside * x.select(1, c)).sum({1, 2}).div(weight).gt(kBright).to(at::kDouble));
  all.push_back(size);
  all.push_back(turn / ShapeOutline::kMostAngle);
  return at::stack(all, 1);
}

AttributeAccuracy attribute_accuracy(Pictures& fakes, int64_t count, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  const Tensor one = fakes.get({0}), label = fakes.vectors({0});
  if (one.size(1) != 3 || !label.defined() || label.size(1) != ShapeAttributes::kNumbers)
    fail(Exit::kInput, "attributes: needs RGB pictures of labels of synth:shapes-attributes");
  const Pieces pieces = {"pictures for attributes", count, kPicturesAtOnce};
  const Tensor right =
      share_rows(work, pieces, at::zeros({count, 3}, at::kDouble), [&](const Piece& piece) {
        const Tensor shown = shown_attributes(fakes.get(piece.numbers()));
        const Tensor off = (shown - fakes.vectors(piece.numbers()).to(at::kDouble)).abs();
        return at::stack(
                   {off.narrow(1, 0, 3).amax(1).lt(0.5),
                    off.select(1, 3).le(kSizeOff),
                    // Half a turn is three labels of 60 degrees.
                    at::minimum(off.select(1, 4), (3 - off.select(1, 4)).abs()).le(kAngleOff)},
                   1)
            .to(at::kDouble);
      });
  const Tensor shares = right.mean(0);
  return {.color = shares[0].item<double>(),
          .size = shares[1].item<double>(),
          .angle = shares[2].item<double>(),
          .all = right.amin(1).mean().item<double>()};
}

}  // namespace gantrain
