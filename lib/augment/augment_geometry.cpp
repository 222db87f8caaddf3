// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "augment/augment.h"
#include "augment/sample_values.h"
#include "augment/wavelets.h"
#include "core/torch.h"
#include "ops/resample.h"
#include "util/size.h"

namespace gantrain {

namespace {

template <class Number>
using Plane = SampleMatrix<Number, 3>;

template <class Number>
Plane<Number> translation(const Number& x, const Number& y) {
  return {1, 0, x, 0, 1, y, 0, 0, 1};
}
template <class Number>
Plane<Number> scaling(const Number& x, const Number& y) {
  return {x, 0, 0, 0, y, 0, 0, 0, 1};
}
template <class Number>
Plane<Number> rotation(const Number& cosine, const Number& sine) {
  return {cosine, -sine, 0, sine, cosine, 0, 0, 0, 1};
}
template <class Number>
Plane<Number> turn(const Number& angle) {
  using std::cos, std::sin;
  return rotation<Number>(cos(angle), sin(angle));
}
template <class Number>
Plane<Number> quarter_turns(const Number& count) {  // 0 to 3; exact
  using std::abs;
  return rotation<Number>(abs(count - 2) - 1, 1 - abs(count - 1));
}

// For each sample the matrix from output to input pixels, origin at the centre, y down: the product
// of the transforms' inverses (app. B).
template <class Number>
SampleValues<Number, 9> inverse_transforms(const AugmentOptions& o,
                                           const Number& p,
                                           const Size& size,
                                           AugmentDraws& draws) {
  using std::exp2, std::floor, std::nearbyint, std::sqrt;
  using D = AugmentDistribution;
  SampleValues<Number, 9> G(identity_matrix<3>());
  const auto apply = [&](const AugmentTransform<Number>& transform, auto&& inverse) {
    if (is_never(transform.probability)) return;
    G.apply(transform, draws, inverse, [](const auto& before, const auto& made) {
      return matrix_product<3>(before, made);
    });
  };
  const double W = static_cast<double>(size.width), H = static_cast<double>(size.height);
  const auto pixels = [&](const Number& u, double length) -> Number {  // half-way cases to even
    return nearbyint((2 * u - 1) * o.xint_max * length);
  };
  const auto rotate = [&](const Number* u) {
    return turn<Number>((2 * *u - 1) * M_PI * o.rotate_max);
  };
  // Either of two rotations has probability p * multiplier.
  const Number p_rotate = 1 - sqrt(1 - clamped_to_unit(o.rotate * p));

  apply({"xflip", D::kUniform, 1, o.xflip * p},
        [](const Number* u) { return scaling<Number>(1 - 2 * floor(2 * *u), 1); });
  apply({"rotate90", D::kUniform, 1, o.rotate90 * p},
        [](const Number* u) { return quarter_turns<Number>(floor(4 * *u)); });
  apply({"xint", D::kUniform, 2, o.xint * p},
        [&](const Number* u) { return translation<Number>(-pixels(u[0], W), -pixels(u[1], H)); });
  apply({"scale", D::kNormal, 1, o.scale * p}, [&](const Number* n) {
    const Number factor = exp2(-*n * o.scale_std);
    return scaling<Number>(factor, factor);
  });
  apply({"rotate/before", D::kUniform, 1, p_rotate}, rotate);
  apply({"aniso", D::kNormal, 1, o.aniso * p}, [&](const Number* n) {
    return scaling<Number>(exp2(-*n * o.aniso_std), exp2(*n * o.aniso_std));
  });
  apply({"rotate/after", D::kUniform, 1, p_rotate}, rotate);
  apply({"xfrac", D::kNormal, 2, o.xfrac * p}, [&](const Number* n) {
    return translation<Number>(-n[0] * o.xfrac_std * W, -n[1] * o.xfrac_std * H);
  });
  return G;
}

// For each sample the pixels to mirror at each border, x0, x1, y0, y1, so that the output's corners
// see pictures and not what lies outside.
template <class Number>
SampleValues<Number, 4> margins_of(const SampleValues<Number, 9>& G, const Size& size) {
  const double cx = static_cast<double>(size.width - 1) / 2;
  const double cy = static_cast<double>(size.height - 1) / 2;
  return G.template map<4>([&](const Plane<Number>& g) -> std::array<Number, 4> {
    using std::abs;
    // How far the corners lie from where the centre comes to.
    const Number x = abs(g[0]) * cx + abs(g[1]) * cy;
    const Number y = abs(g[3]) * cx + abs(g[4]) * cy;
    return {x - g[2] - cx + 2 * kSym6Cropped,
            x + g[2] - cx + 2 * kSym6Cropped,
            y - g[5] - cy + 2 * kSym6Cropped,
            y + g[5] - cy + 2 * kSym6Cropped};
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

// The batch shares its margins, and at the very border they are seen; the global batch's, as no
// picture may depend on how many ranks share the work.
FinePicture fine_picture(const Tensor& images,
                         const SampleValues<double, 4>& margins,
                         const SampleValues<double, 4>& whole_batch,
                         const Size& size) {
  const Padding2d m = larger(largest(margins, size), largest(whole_batch, size));
  const FilterRoute route = usual_route(images);
  return {sym6_doubled(images, m, route),
          route,
          static_cast<double>(m.x0 - m.x1) / 2,
          static_cast<double>(m.y0 - m.y1) / 2};
}

// On the device the result's size cannot depend on the margins: it is that of the largest margins
// there can be, equal on all sides, and what lies beyond the drawn transforms' own is cleared. So
// the pictures are those of a CPU to the very border.
FinePicture fine_picture(const Tensor& images,
                         const SampleValues<SampleNumber, 4>& margins,
                         const SampleValues<SampleNumber, 4>& whole_batch,
                         const Size& size) {
  Tensor m = largest(margins, size);
  if (!whole_batch.empty()) m = at::maximum(m, largest(whole_batch, size));
  return {sym6_doubled_within(images, m), FilterRoute::kFilter};
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

// Mirror, double the resolution, sample bilinearly, halve it again (app. B): sym6 keeps both
// aliasing and blur away.
template <class Number>
Tensor transformed(const Tensor& images,
                   const AugmentOptions& options,
                   const Number& p,
                   AugmentDraws& draws) {
  const Size size{images.size(3), images.size(2)};
  const auto G = inverse_transforms(options, p, size, draws);
  if (G.empty()) return images;
  TORCH_CHECK(G.samples() == images.size(0), "draws for ", G.samples(), " samples");
  auto whole_batch = SampleValues<Number, 9>(identity_matrix<3>());
  if (const std::unique_ptr<AugmentDraws> all = draws.whole_batch()) {
    whole_batch = inverse_transforms(options, p, size, *all);
  }
  const FinePicture fine =
      fine_picture(images, margins_of(G, size), margins_of(whole_batch, size), size);
  const Size out{2 * (size.width + 2 * kSym6Cropped), 2 * (size.height + 2 * kSym6Cropped)};
  const Tensor matrices = sampling_matrices(G, fine, out).to(images.scalar_type());
  return sym6_halved(grid_sample(fine.pixels, grid_of(matrices, out)), fine.route);
}

}  // namespace

Tensor augment_geometry(const Tensor& images,
                        const Tensor& p,
                        const AugmentOptions& options,
                        AugmentDraws& draws) {
  return with_strength(
      p, [&](const auto& strength) { return transformed(images, options, strength, draws); });
}

}  // namespace gantrain
