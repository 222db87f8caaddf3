// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "augment/augment.h"
#include "augment/sample_values.h"
#include "augment/wavelets.h"
#include "core/torch.h"
#include "ops/affine_warp/affine_warp.h"
#include "ops/resample.h"
#include "util/size.h"

namespace gantrain {

namespace {

template <class Number>
using Plane = PlaneMatrix<Number>;

// The transforms of the plane, in their order.
std::vector<NamedStep> plane_steps(const AugmentOptions& o, const Size& size) {
  using K = MatrixKind;
  const auto W = static_cast<double>(size.width), H = static_cast<double>(size.height);
  // Either of two rotations has probability p * multiplier.
  const MatrixStep turn{K::kTurn, o.rotate, o.rotate_max, 1, 1, /*one_of_two=*/true};
  return possible({{"xflip", {K::kFlip, o.xflip}},
                   {"rotate90", {K::kQuarterTurns, o.rotate90}},
                   {"xint", {K::kWholeShift, o.xint, o.xint_max, W, H}},
                   {"scale", {K::kZoom, o.scale, o.scale_std}},
                   {"rotate/before", turn},
                   {"aniso", {K::kStretch, o.aniso, o.aniso_std}},
                   {"rotate/after", turn},
                   {"xfrac", {K::kShift, o.xfrac, o.xfrac_std, W, H}}});
}

// For each sample the matrix from output to input pixels, origin at the centre, y down: the product
// of the transforms' inverses (app. B).
template <class Number>
SampleValues<Number, 9> inverse_transforms(const std::vector<NamedStep>& steps,
                                           const Number& p,
                                           AugmentDraws& draws) {
  SampleValues<Number, 9> G(identity_matrix<3>());
  for (const NamedStep& named : steps) {
    G.apply(
        transform_of(named, p),
        draws,
        [&](const Number* drawn) { return plane_matrix(named.step, drawn); },
        [](const auto& before, const auto& made) { return matrix_product<3>(before, made); });
  }
  return G;
}

// Pixels beyond the output that the filter which halves it sees.
constexpr double kBeyond = 2 * kSym6Cropped;

// For each sample the pixels to mirror at each border.
template <class Number>
SampleValues<Number, 4> margins_of(const SampleValues<Number, 9>& G, const Size& size) {
  return G.template map<4>([&](const Plane<Number>& g) {
    return margins_for(
        g, static_cast<double>(size.width), static_cast<double>(size.height), kBeyond);
  });
}

// The largest margins of all samples, in whole pixels, but no more than a mirror has.
Padding2d largest(const SampleValues<double, 4>& margins, const Size& size) {
  std::array<double, 4> most = {0, 0, 0, 0};
  for (const std::array<double, 4>& margin : margins.each()) {
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], margin[i]);
  }
  const auto whole = [](double margin, int64_t length) {
    return static_cast<int64_t>(std::ceil(std::min(margin, static_cast<double>(length - 1))));
  };
  return {whole(most[0], size.width),
          whole(most[1], size.width),
          whole(most[2], size.height),
          whole(most[3], size.height)};
}

Padding2d larger(const Padding2d& a, const Padding2d& b) {
  return {std::max(a.x0, b.x0), std::max(a.x1, b.x1), std::max(a.y0, b.y0), std::max(a.y1, b.y1)};
}

// The same on the device: [4] float64.
Tensor largest(const SampleValues<SampleNumber, 4>& margins, const Size& size) {
  const Tensor most = margins.tensor().amax(0);
  return at::cat({most.narrow(0, 0, 2).clamp(0, size.width - 1),
                  most.narrow(0, 2, 2).clamp(0, size.height - 1)})
      .ceil();
}

// The picture that is sampled: mirrored, and of twice the resolution.
struct FinePicture {
  Tensor pixels;
  FilterRoute route;                // by which it was made, and by which it is halved again
  double moved_x = 0, moved_y = 0;  // half the difference of its margins, in pixels of `images`
};

// The margins that the batch shares, whose end is seen at the very border; the global batch's, as
// no picture may depend on how many ranks share the work.
Padding2d shared_margins(const SampleValues<double, 4>& margins,
                         const SampleValues<double, 4>& whole_batch,
                         const Size& size) {
  return larger(largest(margins, size), largest(whole_batch, size));
}

// The same on the device: [4] float64.
Tensor shared_margins(const SampleValues<SampleNumber, 4>& margins,
                      const SampleValues<SampleNumber, 4>& whole_batch,
                      const Size& size) {
  const Tensor m = largest(margins, size);
  return whole_batch.empty() ? m : at::maximum(m, largest(whole_batch, size));
}

FinePicture fine_picture(const Tensor& images, const Padding2d& m) {
  const FilterRoute route = usual_route(images);
  return {sym6_doubled(images, m, route),
          route,
          static_cast<double>(m.x0 - m.x1) / 2,
          static_cast<double>(m.y0 - m.y1) / 2};
}

// On the device the result's size cannot depend on the margins: it is that of the largest margins
// there can be, equal on all sides, and what lies beyond the drawn transforms' own is cleared. So
// the pictures are those of a CPU to the very border.
FinePicture fine_picture(const Tensor& images, const Tensor& margins) {
  return {sym6_doubled_within(images, margins), FilterRoute::kFilter};
}

// The transforms between [-1, 1] of the output and [-1, 1] of `fine`, [N, 2, 3] float64.
template <class Number>
Tensor sampling_matrices(const SampleValues<Number, 9>& G,
                         const FinePicture& fine,
                         const Size& out) {
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const auto times = [](const auto& a, const auto& b) { return matrix_product<3>(a, b); };
  // Pixels of `fine`, whose centre is half of its pixels off, <- [-1, 1] of the output.
  const Plane<Number> to_fine = times(times(translation<Number>(-.5, -.5), scaling<Number>(2, 2)),
                                      translation<Number>(fine.moved_x, fine.moved_y));
  const Plane<Number> from_fine = times(scaling<Number>(.5, .5), translation<Number>(.5, .5));
  const Plane<Number> to_unit =
      scaling<Number>(2 / number(fine.pixels.size(3)), 2 / number(fine.pixels.size(2)));
  const Plane<Number> from_unit = scaling<Number>(number(out.width) / 2, number(out.height) / 2);
  const Plane<Number> before = times(to_unit, to_fine);
  return G
      .template map<6>([&](const Plane<Number>& g) -> std::array<Number, 6> {
        const Plane<Number> affine = {g[0], g[1], g[2], g[3], g[4], g[5], 0, 0, 1};
        const Plane<Number> unit = times(times(times(before, affine), from_fine), from_unit);
        return {unit[0], unit[1], unit[2], unit[3], unit[4], unit[5]};
      })
      .tensor()
      .view({-1, 2, 3});
}

// What affine_grid makes, [N, h, w, 2] in [-1, 1] of the input; but without a matrix product, which
// would round coordinates to 11 bits where TF32 is allowed.
Tensor grid_of(const Tensor& matrices, const Size& out) {
  const auto centres = [&](int64_t length) {
    return (at::arange(length, matrices.options()) * 2 + 1) / length - 1;
  };
  const Tensor x = centres(out.width).view({1, 1, -1, 1});
  const Tensor y = centres(out.height).view({1, -1, 1, 1});
  const auto column = [&](int64_t i) { return matrices.select(2, i).view({-1, 1, 1, 2}); };
  return x * column(0) + (y * column(1) + column(2));
}

// Mirrors, doubles the resolution and samples bilinearly, in steps.
template <class Number, class Margins>
Tensor sampled(const Tensor& images, const SampleValues<Number, 9>& G, const Margins& margins) {
  const Size out{2 * (images.size(3) + 2 * kSym6Cropped), 2 * (images.size(2) + 2 * kSym6Cropped)};
  const FinePicture fine = fine_picture(images, margins);
  const Tensor matrices = sampling_matrices(G, fine, out).to(images.scalar_type());
  return sym6_halved(grid_sample(fine.pixels, grid_of(matrices, out)), fine.route);
}

// What is drawn for a batch: the matrices, and the margins that its pictures share.
template <class Number>
using SharedMargins = std::conditional_t<std::is_same_v<Number, double>, Padding2d, Tensor>;
template <class Number>
struct DrawnGeometry {
  SampleValues<Number, 9> G;
  SharedMargins<Number> margins;
};

template <class Number>
DrawnGeometry<Number> drawn_geometry(const std::vector<NamedStep>& steps,
                                     const Number& p,
                                     const Size& size,
                                     AugmentDraws& draws) {
  if constexpr (std::is_same_v<Number, SampleNumber>) {
    const DrawnMatrices how{.width = static_cast<double>(size.width),
                            .height = static_cast<double>(size.height),
                            .beyond = kBeyond};
    if (const auto made = drawn_by_kernel(steps, p, draws, how))
      return {SampleValues<Number, 9>(made->each), made->margins};
  }
  const auto G = inverse_transforms(steps, p, draws);
  auto whole_batch = SampleValues<Number, 9>(identity_matrix<3>());
  if (const std::unique_ptr<AugmentDraws> all = draws.whole_batch()) {
    whole_batch = inverse_transforms(steps, p, *all);
  }
  return {G, shared_margins(margins_of(G, size), margins_of(whole_batch, size), size)};
}

// Mirror, double the resolution, sample bilinearly, halve it again (app. B): sym6 keeps both
// aliasing and blur away. Where there is a kernel, it does all but the halving at once.
template <class Number>
Tensor transformed(const Tensor& images,
                   const std::vector<NamedStep>& steps,
                   const Number& p,
                   AugmentDraws& draws) {
  const auto [G, margins] = drawn_geometry(steps, p, Size{images.size(3), images.size(2)}, draws);
  TORCH_CHECK(G.samples() == images.size(0), "draws for ", G.samples(), " samples");
  if constexpr (std::is_same_v<Number, SampleNumber>) {
    if (has_affine_warp(images)) {
      const Tensor fine = affine_warp(images, {sym6_lowpass(), G.tensor(), margins});
      return sym6_halved(fine, FilterRoute::kFilter);
    }
  }
  return sampled(images, G, margins);
}

}  // namespace

Tensor augment_geometry(const Tensor& images,
                        const Tensor& p,
                        const AugmentOptions& options,
                        AugmentDraws& draws) {
  const std::vector<NamedStep> steps = plane_steps(options, {images.size(3), images.size(2)});
  if (steps.empty()) return images;
  return with_strength(
      p, [&](const auto& strength) { return transformed(images, steps, strength, draws); });
}

}  // namespace gantrain
