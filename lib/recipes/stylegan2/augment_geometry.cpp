// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "ops/grid_sample.h"
#include "recipes/stylegan2/augment.h"
#include "recipes/stylegan2/augment_matrix.h"
#include "recipes/stylegan2/resample.h"

namespace gantrain::stylegan2 {

namespace {

using Plane = Matrix<3>;

struct Size {
  int64_t height = 0, width = 0;
};

Plane translation(double x, double y) { return {{{1, 0, x}, {0, 1, y}, {0, 0, 1}}}; }
Plane scaling(double x, double y) { return {{{x, 0, 0}, {0, y, 0}, {0, 0, 1}}}; }
Plane rotation(double cosine, double sine) {
  return {{{cosine, -sine, 0}, {sine, cosine, 0}, {0, 0, 1}}};
}
Plane turn(double angle) { return rotation(std::cos(angle), std::sin(angle)); }
Plane quarter_turns(double count) {  // exact
  const int i = static_cast<int>(count);
  return rotation(i == 0 ? 1 : i == 2 ? -1 : 0, i == 1 ? 1 : i == 3 ? -1 : 0);
}

// For each sample the matrix from output to input pixels, origin at the centre, y down: the product
// of the transforms' inverses (app. B).
std::vector<Plane> inverse_transforms(const AugmentOptions& o,
                                      double p,
                                      const Size& size,
                                      Draws& draws) {
  std::vector<Plane> G;
  const auto apply = [&](const Transform& transform, auto&& inverse) {
    if (transform.probability <= 0) return;
    const Drawn drawn = draw(transform, draws);
    G.resize(drawn.on.size(), identity<3>());
    for (size_t n = 0; n < G.size(); ++n) {
      if (drawn.on[n]) G[n] = G[n] * inverse(&drawn.number[n * transform.numbers]);
    }
  };
  const double W = static_cast<double>(size.width), H = static_cast<double>(size.height);
  const auto pixels = [&](double u, double length) {  // half-way cases to even
    return std::nearbyint((2 * u - 1) * o.xint_max * length);
  };
  const auto rotate = [&](const double* u) { return turn((2 * *u - 1) * M_PI * o.rotate_max); };
  // Either of two rotations has probability p * multiplier.
  const double p_rotate = 1 - std::sqrt(1 - std::clamp(o.rotate * p, 0.0, 1.0));
  using D = Distribution;

  apply({"xflip", D::kUniform, 1, o.xflip * p},
        [](const double* u) { return scaling(1 - 2 * std::floor(2 * *u), 1); });
  apply({"rotate90", D::kUniform, 1, o.rotate90 * p},
        [](const double* u) { return quarter_turns(std::floor(4 * *u)); });
  apply({"xint", D::kUniform, 2, o.xint * p},
        [&](const double* u) { return translation(-pixels(u[0], W), -pixels(u[1], H)); });
  apply({"scale", D::kNormal, 1, o.scale * p}, [&](const double* n) {
    return scaling(std::exp2(-*n * o.scale_std), std::exp2(-*n * o.scale_std));
  });
  apply({"rotate/before", D::kUniform, 1, p_rotate}, rotate);
  apply({"aniso", D::kNormal, 1, o.aniso * p}, [&](const double* n) {
    return scaling(std::exp2(-*n * o.aniso_std), std::exp2(*n * o.aniso_std));
  });
  apply({"rotate/after", D::kUniform, 1, p_rotate}, rotate);
  apply({"xfrac", D::kNormal, 2, o.xfrac * p}, [&](const double* n) {
    return translation(-n[0] * o.xfrac_std * W, -n[1] * o.xfrac_std * H);
  });
  return G;
}

// Pixels to mirror at each border so that the output's corners, in every sample, see pictures and
// not what lies outside. No more than a mirror has.
Padding2d margins(const std::vector<Plane>& G, const Size& size) {
  const double cx = static_cast<double>(size.width - 1) / 2;
  const double cy = static_cast<double>(size.height - 1) / 2;
  double x0 = 0, x1 = 0, y0 = 0, y1 = 0;
  for (const Plane& g : G) {
    for (const double sx : {-cx, cx}) {
      for (const double sy : {-cy, cy}) {
        const double x = g[0][0] * sx + g[0][1] * sy + g[0][2];
        const double y = g[1][0] * sx + g[1][1] * sy + g[1][2];
        x0 = std::max(x0, -x - cx + 2 * kCropped);
        x1 = std::max(x1, x - cx + 2 * kCropped);
        y0 = std::max(y0, -y - cy + 2 * kCropped);
        y1 = std::max(y1, y - cy + 2 * kCropped);
      }
    }
  }
  const auto whole = [](double margin, int64_t length) {
    return static_cast<int64_t>(std::ceil(std::min(margin, static_cast<double>(length - 1))));
  };
  return {
      whole(x0, size.width), whole(x1, size.width), whole(y0, size.height), whole(y1, size.height)};
}

Padding2d larger(const Padding2d& a, const Padding2d& b) {
  return {std::max(a.x0, b.x0), std::max(a.x1, b.x1), std::max(a.y0, b.y0), std::max(a.y1, b.y1)};
}

// What affine_grid makes, [N, h, w, 2] in [-1, 1] of the input; but without a matrix product, which
// would round coordinates to 11 bits where TF32 is allowed.
at::Tensor grid_of(const at::Tensor& matrices, const Size& out) {
  const auto centres = [&](int64_t length) {
    return (at::arange(length, matrices.options()) * 2 + 1) / length - 1;
  };
  const at::Tensor x = centres(out.width).view({1, 1, -1, 1});
  const at::Tensor y = centres(out.height).view({1, -1, 1, 1});
  const auto column = [&](int64_t i) { return matrices.select(2, i).view({-1, 1, 1, 2}); };
  return x * column(0) + (y * column(1) + column(2));
}

// Mirror, double the resolution, sample bilinearly, halve it again (app. B): sym6 keeps both
// aliasing and blur away.
at::Tensor resample(const at::Tensor& images, const std::vector<Plane>& G, const Padding2d& m) {
  const Route route = usual_route(images);
  const at::Tensor fine = doubled(images, m, route);
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const Size out{2 * (images.size(2) + 2 * kCropped), 2 * (images.size(3) + 2 * kCropped)};
  // Pixels of `fine`, whose centre is half of its pixels off, <- [-1, 1] of the output.
  const Plane to_fine = translation(-.5, -.5) * scaling(2, 2) *
                        translation(number(m.x0 - m.x1) / 2, number(m.y0 - m.y1) / 2);
  const Plane from_fine = scaling(.5, .5) * translation(.5, .5);
  const Plane to_unit = scaling(2 / number(fine.size(3)), 2 / number(fine.size(2)));
  const Plane from_unit = scaling(number(out.width) / 2, number(out.height) / 2);

  const at::Tensor matrices = at::empty({static_cast<int64_t>(G.size()), 2, 3}, at::kDouble);
  double* at = matrices.data_ptr<double>();
  for (const Plane& g : G) {
    const Plane unit = to_unit * to_fine * g * from_fine * from_unit;
    at = std::copy(unit[0].begin(), unit[0].end(), at);
    at = std::copy(unit[1].begin(), unit[1].end(), at);
  }
  return halved(grid_sample(fine, grid_of(sent_to(matrices, images), out)), route);
}

}  // namespace

at::Tensor augment_geometry(const at::Tensor& images,
                            double p,
                            const AugmentOptions& options,
                            Draws& draws) {
  const Size size{images.size(2), images.size(3)};
  const std::vector<Plane> G = inverse_transforms(options, p, size, draws);
  if (G.empty()) return images;
  TORCH_CHECK(static_cast<int64_t>(G.size()) == images.size(0), "draws for ", G.size(), " samples");
  // The batch shares its margins, and at the very border they are seen; the global batch's, as no
  // picture may depend on how many ranks share the work.
  Padding2d margin = margins(G, size);
  if (const std::unique_ptr<Draws> all = draws.whole_batch()) {
    margin = larger(margin, margins(inverse_transforms(options, p, size, *all), size));
  }
  return resample(images, G, margin);
}

}  // namespace gantrain::stylegan2
