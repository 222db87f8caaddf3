// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/generator.h"
#include "metrics/detector.h"
#include "metrics/picture_metrics.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kLobes = 3;  // of the Lanczos window on each side

// The part of an axis of `size` pixels with indices from `first` up to, not including, `end`.
struct Span {
  int64_t first, end;
};

Tensor mask_of(const Tensor& x, const Span& rows, const Span& columns) {
  Tensor mask = at::zeros({x.size(2), x.size(3)}, x.options());
  const int64_t high = rows.end - rows.first, wide = columns.end - columns.first;
  if (high > 0 && wide > 0)
    mask.narrow(0, rows.first, high).narrow(1, columns.first, wide).fill_(1);
  return mask;
}

Span whole_shift(int64_t size, int64_t by) {
  return {std::clamp<int64_t>(by, 0, size), std::clamp<int64_t>(size + by, 0, size)};
}

// x moved along one axis, with zeros coming in.
Tensor moved_along(const Tensor& x, int64_t axis, int64_t by) {
  const int64_t size = x.size(axis), kept = size - std::min(std::abs(by), size);
  Tensor moved = at::zeros_like(x);
  if (kept == 0) return moved;
  moved.narrow(axis, std::max<int64_t>(by, 0), kept)
      .copy_(x.narrow(axis, std::max<int64_t>(-by, 0), kept));
  return moved;
}

double sinc(double x) {
  const double t = M_PI * x;
  return x == 0 ? 1 : std::sin(t) / t;
}

// A shift along one axis: whole pixels, and taps for pixels -2 to 3 behind them.
struct FractionalShift {
  explicit FractionalShift(double by) : whole(static_cast<int64_t>(std::floor(by))) {
    const double fraction = by - std::floor(by);
    double sum = 0;
    for (int64_t j = 1 - kLobes; j <= kLobes; ++j) {
      const double at = static_cast<double>(j) - fraction;
      taps.push_back(sinc(at) * sinc(at / kLobes));
      sum += taps.back();
    }
    for (double& tap : taps) tap /= sum;
  }
  Tensor along(const Tensor& x, int64_t axis) const {
    Tensor moved = at::zeros_like(x);
    for (size_t i = 0; i < taps.size(); ++i)
      moved.add_(moved_along(x, axis, whole + 1 - kLobes + static_cast<int64_t>(i)), taps[i]);
    return moved;
  }
  Span valid(int64_t size) const {
    return {std::clamp<int64_t>(whole + kLobes, 0, size),
            std::clamp<int64_t>(size + whole + 1 - kLobes, 0, size)};
  }

  int64_t whole;
  std::vector<double> taps;
};

struct Grid {
  Tensor x, y;
};

// Convolution on a torus of two pictures whose middles are their origins.
Tensor convolved(const Tensor& a, const Tensor& b) {
  const Tensor product = at::fft_rfft2(at::fft_ifftshift(a)) * at::fft_rfft2(at::fft_ifftshift(b));
  return at::fft_fftshift(at::fft_irfft2(product, a.sizes()));
}

// Each plane of x filtered by f, a true convolution of what lies inside the padding.
Tensor filtered(const Tensor& x, const Tensor& f, int64_t padding) {
  const Tensor planes = x.reshape({-1, 1, x.size(2), x.size(3)});
  const Tensor kernel = f.flip({0, 1}).to(x.options()).reshape({1, 1, f.size(0), f.size(1)});
  const Tensor y = at::conv2d(planes, kernel, {}, 1, padding);
  return y.reshape({x.size(0), x.size(1), y.size(2), y.size(3)});
}

// Where the pixels of a rotated picture come from, in pixels from its middle.
Grid sources(const Tensor& x, double angle) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto middles = [&](int64_t n) {
    return at::arange(n, options) + (0.5 - static_cast<double>(n) / 2);
  };
  const Tensor column = middles(x.size(3)).unsqueeze(0), row = middles(x.size(2)).unsqueeze(1);
  const double c = std::cos(angle), s = std::sin(angle);
  return {column * c - row * s, column * s + row * c};
}

}  // namespace

MovedPictures shifted_by_pixels(const Tensor& x, int64_t right, int64_t down) {
  return {moved_along(moved_along(x, 3, right), 2, down),
          mask_of(x, whole_shift(x.size(2), down), whole_shift(x.size(3), right))};
}

MovedPictures shifted(const Tensor& x, double right, double down) {
  const FractionalShift along_x(right), along_y(down);
  return {along_y.along(along_x.along(x, 3), 2),
          mask_of(x, along_y.valid(x.size(2)), along_x.valid(x.size(3)))};
}

// The ideal filter passes what both pixel grids can hold, the given one and the rotated one: a sinc
// along the axes of one, convolved with that along the axes of the other. The product with a window
// made in the same way bounds it.
Tensor rotation_filter(double angle, int64_t up) {
  constexpr int64_t kTorus = 64, kKept = 6;  // pixels on each side
  const auto fine = static_cast<double>(up);
  const int64_t reach = kTorus * up - 1, kept = kKept * up - 1;
  const Tensor p = at::arange(-reach, reach + 1, at::TensorOptions().dtype(at::kDouble)) / fine;
  const Grid own{p.unsqueeze(0).expand({p.numel(), -1}), p.unsqueeze(1).expand({-1, p.numel()})};
  const double c = std::cos(angle), s = std::sin(angle);
  const Grid turned{own.x * c + own.y * s, own.y * c - own.x * s};
  const auto sinc_of = [](const Grid& at) { return at::sinc(at.x) * at::sinc(at.y); };
  const auto lanczos = [](const Tensor& t) {
    return at::where(t.abs() < kLobes, at::sinc(t / kLobes), at::zeros_like(t));
  };
  const auto window_of = [&](const Grid& at) { return lanczos(at.x) * lanczos(at.y); };
  const Tensor all =
      convolved(sinc_of(own), sinc_of(turned)) * convolved(window_of(own), window_of(turned));
  const int64_t first = reach - kept, count = 2 * kept + 1;
  Tensor f = all.narrow(0, first, count).narrow(1, first, count).clone();
  for (int64_t i = 0; i < up; ++i) {
    for (int64_t j = 0; j < up; ++j) {
      Tensor phase = f.slice(0, i, count, up).slice(1, j, count, up);
      phase.div_(phase.sum() * fine * fine);
    }
  }
  return f;
}

// Up-sampled by 4 with that filter, then looked up bilinearly.
MovedPictures rotated(const Tensor& x, double angle) {
  constexpr int64_t kUp = 4;
  const Tensor f = rotation_filter(angle, kUp);
  const int64_t reach = f.size(0) / 2;
  Tensor spread = at::zeros({x.size(0), x.size(1), x.size(2) * kUp, x.size(3) * kUp}, x.options());
  spread.slice(2, 0, spread.size(2), kUp).slice(3, 0, spread.size(3), kUp).copy_(x);
  const Tensor fine = filtered(spread, f * static_cast<double>(kUp * kUp), 2 * reach);

  // Positions on the fine grid, whose points 0, 4, 8, ... are the pixels' middles.
  const Grid source = sources(x, angle);
  const auto on_fine = [](const Tensor& t, int64_t pixels) {
    return (t + (static_cast<double>(pixels) / 2 - 0.5)) * static_cast<double>(kUp);
  };
  const Tensor u = on_fine(source.x, x.size(3)), v = on_fine(source.y, x.size(2));
  const auto for_sampler = [&](const Tensor& t, int64_t size) {
    return (t + static_cast<double>(reach)) * (2 / static_cast<double>(size - 1)) - 1;
  };
  const Tensor grid =
      at::stack({for_sampler(u, fine.size(3)), for_sampler(v, fine.size(2))}, 2).to(x.options());
  const Tensor looked_up =
      at::grid_sampler(fine, grid.unsqueeze(0).expand({x.size(0), -1, -1, -1}), 0, 0, true);

  // Valid where the nearest point of the fine grid has all of the filter inside the picture.
  const auto inside = [&](const Tensor& t, int64_t pixels) {
    const Tensor nearest = t.round();
    return nearest.ge(reach - 1).logical_and(nearest.lt(pixels * kUp - reach - kUp + 1));
  };
  const Tensor mask = inside(u, x.size(3)).logical_and(inside(v, x.size(2)));
  return {looked_up, mask.to(x.options())};
}

MovedPictures pseudo_rotated(const Tensor& x, double angle) {
  const Tensor f = rotation_filter(-angle, 1);
  const int64_t reach = f.size(0) / 2;
  return {filtered(x, f, reach),
          mask_of(x, {reach, x.size(2) - reach}, {reach, x.size(3) - reach})};
}

namespace {

constexpr int64_t kMovedTogether = 4;    // pictures with one move
constexpr double kLargestShift = 0.125;  // of the picture's size
constexpr double kPeak = 2;              // pictures lie in [-1, 1]

// The move of a batch, from two numbers in [-1, 1).
Move move_of(const Tensor& drawn, const Size& size, MovedBy moved_by) {
  const double a = drawn[0].item<double>(), b = drawn[1].item<double>();
  if (moved_by == MovedBy::kAngles) return {.angle = a * std::numbers::pi};
  Move move{.right = a * kLargestShift * static_cast<double>(size.width),
            .down = b * kLargestShift * static_cast<double>(size.height)};
  if (moved_by == MovedBy::kPixels) {
    move.right = std::nearbyint(move.right);
    move.down = std::nearbyint(move.down);
  }
  return move;
}

// The inverse of the move in units of the picture's width: [3, 3].
Tensor inverse_of(const Move& move, const Tensor& picture) {
  const auto width = static_cast<double>(picture.size(3));
  const double c = std::cos(move.angle), s = std::sin(move.angle);
  return at::tensor({c, -s, -move.right / width, s, c, -move.down / width, 0.0, 0.0, 1.0},
                    at::kDouble)
      .reshape({3, 3});
}

// {sum of squared errors, count}, where both pictures are valid.
Tensor compared(const Tensor& moved_input, const Tensor& at_rest, const Move& move, MovedBy by) {
  Tensor made = moved_input;
  MovedPictures wanted;
  if (by == MovedBy::kAngles) {
    wanted = rotated(at_rest, move.angle);
    const MovedPictures turned = pseudo_rotated(moved_input, move.angle);
    made = turned.pictures;
    wanted.mask = wanted.mask * turned.mask;
  } else if (by == MovedBy::kFractions) {
    wanted = shifted(at_rest, move.right, move.down);
  } else {
    wanted = shifted_by_pixels(at_rest, std::llround(move.right), std::llround(move.down));
  }
  const Tensor error = (made - wanted.pictures).square() * wanted.mask;
  const double planes = static_cast<double>(made.size(0) * made.size(1));
  return at::stack({error.sum(at::kDouble), wanted.mask.sum(at::kDouble) * planes}).cpu();
}

}  // namespace

std::optional<MovedBy> moved_by(std::string_view metric) {
  if (metric == "eqt") return MovedBy::kPixels;
  if (metric == "eqt_frac") return MovedBy::kFractions;
  return metric == "eqr" ? std::optional(MovedBy::kAngles) : std::nullopt;
}

Tensor equivariance_sums(Generator& generator,
                         const Tensor& ws,
                         const Move& move,
                         MovedBy moved_by,
                         const SynthesisOptions& how) {
  const Tensor at_rest = generator.synthesize(ws, how);
  auto& movable = dynamic_cast<MovableInput&>(generator);
  const Tensor moved = movable.synthesize_moved(ws, inverse_of(move, at_rest), how);
  return compared(moved, at_rest, move, moved_by);
}

double equivariance_of(const Tensor& sums) {
  const double mean = sums[0].item<double>() / sums[1].item<double>();
  return 20 * std::log10(kPeak) - 10 * std::log10(mean);
}

void check_movable(Generator& generator, MovedBy moved_by, std::string_view metric) {
  const auto* movable = dynamic_cast<const MovableInput*>(&generator);
  if (movable != nullptr && (movable->rotates() || moved_by != MovedBy::kAngles)) return;
  fail(Exit::kUsage,
       "{}: {}; it is a number of StyleGAN3's{}",
       metric,
       movable == nullptr ? "this model has no input that could be moved"
                          : "this model's input can be translated, but not rotated",
       moved_by == MovedBy::kAngles ? "" : " (and of StyleGAN2's) generators");
}

double equivariance(GeneratedPictures& pictures,
                    const EquivarianceOptions& options,
                    const SharedWork& work) {
  const at::NoGradGuard no_grad;
  Generator& generator = pictures.generator();
  const MovedBy by = options.moved_by;
  check_movable(generator, by, "equivariance");
  SynthesisOptions how = pictures.options().synthesis;
  how.noise = NoiseMode::kNone;
  const Stream latents(options.seed, "equivariance/z"), moves(options.seed, "equivariance/move");
  const Tensor one = pictures.get({0});
  const Size size{one.size(3), one.size(2)};
  Tensor sums = at::zeros({2}, at::kDouble);
  share(work, {"moved pictures", options.samples, kMovedTogether}, [&](const Piece& piece) {
    const Tensor z = normal(latents, {piece.first, 1, piece.count}, {generator.z_dim()});
    const Tensor labels = pictures.given(piece.numbers());
    const Tensor drawn = uniform(moves, {piece.first / kMovedTogether, 1, 1}, {2})[0] * 2 - 1;
    const Move move = move_of(drawn, size, by);
    sums += equivariance_sums(generator, generator.map(z, labels, how), move, by, how);
  });
  sum_over_ranks_(work, sums);
  return equivariance_of(sums);
}

namespace {

constexpr int64_t kPathsAtOnce = 8;
constexpr int64_t kLargest = 256;  // pixels a side that pictures are compared at

// The two ends of a short piece of each path.
struct Ends {
  Tensor at_0;
  Tensor at_epsilon;
};

// Great circles (Shoemake 1985) between the directions of two sets of z; ends have length 1.
Ends on_great_circles(const Tensor& from, const Tensor& to, double t) {
  const Tensor a = from / from.norm(2, 1, true), b = to / to.norm(2, 1, true);
  const Tensor cosine = (a * b).sum(1, true);
  const Tensor angle = t * cosine.clamp(-1, 1).acos();
  const Tensor c = b - cosine * a;
  const Tensor moved = a * angle.cos() + c / c.norm(2, 1, true) * angle.sin();
  return {a, moved / moved.norm(2, 1, true)};
}

// -1..1 -> 0..255 in at most 256 pixels a side.
Tensor shown(const Tensor& images) {
  const Tensor x = to_rgb((images.detach().to(at::kFloat) + 1) * 127.5);
  const int64_t factor = std::min(x.size(2), x.size(3)) / kLargest;
  return factor > 1 ? at::avg_pool2d(x, {factor, factor}) : x;
}

Ends pictures_of(Generator& generator,
                 const Tensor& z,
                 const Tensor& labels,
                 SynthesisOptions how,
                 double epsilon) {
  const int64_t count = z.size(0) / 2;
  const Tensor from = z.narrow(0, 0, count), to = z.narrow(0, count, count);
  if (how.noise == NoiseMode::kConst) how.noise = NoiseMode::kRandom;  // other noise at each call
  if (generator.num_ws() == 0) {
    // A network that was trained on N(0, I) sees vectors of length sqrt(z_dim).
    const double length = std::sqrt(static_cast<double>(z.size(1)));
    const Ends ends = on_great_circles(from, to, epsilon);
    return {generator.images(ends.at_0 * length, labels, how),
            generator.images(ends.at_epsilon * length, labels, how)};
  }
  const Tensor w0 = generator.map(from, labels, how), w1 = generator.map(to, labels, how);
  return {generator.synthesize(w0, how), generator.synthesize(w0.lerp(w1, epsilon), how)};
}

}  // namespace

double mean_within_percentiles(std::vector<double> values) {
  TORCH_CHECK(!values.empty(), "mean_within_percentiles: no values");
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  const double low = values[static_cast<size_t>(std::floor(0.01 * last))];
  const double high = values[static_cast<size_t>(std::ceil(0.99 * last))];
  const auto from = std::lower_bound(values.begin(), values.end(), low);
  const auto to = std::upper_bound(values.begin(), values.end(), high);
  return std::accumulate(from, to, 0.0) / static_cast<double>(to - from);
}

double perceptual_path_length(GeneratedPictures& pictures,
                              Detector& detector,
                              const PathLengthOptions& options,
                              const SharedWork& work) {
  const at::NoGradGuard no_grad;
  Generator& generator = pictures.generator();
  const Stream stream(options.seed, "ppl");
  const Pieces pieces = {"paths for ppl", options.samples, kPathsAtOnce};
  const Tensor zeros = at::zeros({options.samples}, at::kDouble);
  const Tensor lengths = share_rows(work, pieces, zeros, [&](const Piece& piece) {
    const Tensor z = normal(stream, {2 * piece.first, 1, 2 * piece.count}, {generator.z_dim()});
    const Tensor labels = pictures.given(piece.numbers());
    SynthesisOptions how = pictures.options().synthesis;
    how.noise_seed = options.seed + static_cast<uint64_t>(piece.first);
    const Ends ends = pictures_of(generator, z, labels, how, options.epsilon);
    const Tensor difference =
        detector.lpips(shown(ends.at_0)) - detector.lpips(shown(ends.at_epsilon));
    return difference.to(at::kDouble).square().sum(1) / (options.epsilon * options.epsilon);
  });
  const double* values = lengths.const_data_ptr<double>();
  return mean_within_percentiles({values, values + lengths.numel()});
}

}  // namespace gantrain
