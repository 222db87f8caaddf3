// SPDX-License-Identifier: Apache-2.0
#include "augment/diff_augment.h"

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/operator.h"

namespace gantrain {

namespace {

constexpr double kTranslated = 0.125, kCutOut = 0.2;  // of height and width
constexpr int64_t kKinds = 3;                         // of Shown

// A fraction of a length in whole pixels, halves upwards.
int64_t pixels_of(double fraction, int64_t length) {
  return static_cast<int64_t>(fraction * static_cast<double>(length) + .5);
}

// Whole numbers from 0 to below `count`, one for each of u, uniform in [0, 1). In float64: in
// float32 the product could be `count` itself.
Tensor below(int64_t count, const Tensor& u) {
  return (u.to(at::kDouble) * static_cast<double>(count)).floor().to(at::kLong);
}

// [N] as [N, 1, 1, 1], for pictures.
Tensor per_picture(const Tensor& numbers, const Tensor& like) {
  return numbers.to(like.scalar_type()).view({-1, 1, 1, 1});
}

// The positions 0, 1, ... of an axis (2: rows, 3: columns), [1, 1, length, 1] or [1, 1, 1, length].
Tensor positions(const Tensor& images, int64_t axis) {
  const Tensor all = at::arange(images.size(axis), images.options().dtype(at::kLong));
  return axis == 2 ? all.view({1, 1, -1, 1}) : all.view({1, 1, 1, -1});
}

Tensor whole_per_picture(const Tensor& numbers) {
  return numbers.to(at::kLong).view({-1, 1, 1, 1});
}

// out[i] = x[i + by] along an axis, and 0 where that lies outside.
Tensor moved(const Tensor& x, const Tensor& by, int64_t axis) {
  const Tensor from = positions(x, axis) + whole_per_picture(by);
  const int64_t last = x.size(axis) - 1;
  const Tensor inside = from.ge(0).logical_and(from.le(last));
  const Tensor taken = x.gather(axis, from.clamp(0, last).expand_as(x));
  return at::where(inside, taken, at::zeros({}, x.options()));
}

// Moves pictures by whole pixels. Its derivative moves back, so that no kernel adds up numbers in
// an order of its own, as that of gather() does.
struct Translation : torch::autograd::Function<Translation> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& x,
                        const Tensor& rows,
                        const Tensor& columns) {
    save(context, {rows, columns});
    return moved(moved(x, rows, 2), columns, 3);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list by = context->get_saved_variables();
    const Tensor& dout = gradients[0];
    if (!dout.defined()) return {Tensor(), Tensor(), Tensor()};
    return {Translation::apply(dout, by[0].neg(), by[1].neg()), Tensor(), Tensor()};
  }
};

// The mean over `axes` is kept, what differs from it is multiplied.
Tensor scaled_about_mean(const Tensor& x, const Tensor& factor, at::IntArrayRef axes) {
  const Tensor mean = x.mean(axes, /*keepdim=*/true);
  return (x - mean) * factor + mean;
}

Tensor recoloured(const Tensor& images, const DiffAugmentDraws& draws) {
  Tensor x = images;
  if (draws.brightness.defined()) x = x + (per_picture(draws.brightness, x) - .5);
  if (draws.saturation.defined())
    x = scaled_about_mean(x, 2 * per_picture(draws.saturation, x), {1});
  if (draws.contrast.defined())
    x = scaled_about_mean(x, per_picture(draws.contrast, x) + .5, {1, 2, 3});
  return x;
}

Tensor coloured(const Tensor& images, const DiffAugmentDraws& draws) {
  if (images.size(1) > 4) return images;  // no colours
  const int64_t channels = images.size(1) >= 3 ? 3 : 1;
  if (images.size(1) == channels) return recoloured(images, draws);
  return at::cat({recoloured(images.narrow(1, 0, channels), draws),
                  images.narrow(1, channels, images.size(1) - channels)},
                 1);
}

// Where the square about a centre lies, along one axis. What would lie outside is moved to the
// border.
Tensor cut_out(const Tensor& images, const Tensor& centre, int64_t axis) {
  const int64_t last = images.size(axis) - 1, length = pixels_of(kCutOut, last + 1);
  const Tensor first = whole_per_picture(centre) - length / 2;
  const Tensor place = positions(images, axis);
  if (length == 0) return place.lt(0);
  return place.ge(first.clamp(0, last))
      .logical_and(place.le((first + (length - 1)).clamp(0, last)));
}

}  // namespace

DiffAugmentDraws diff_augment_draws(const DiffPolicy& policy,
                                    const DrawKey& key,
                                    const Samples& samples,
                                    const Size& size) {
  const auto drawn = [&](const char* part, int64_t count) {
    return uniform(key, std::string("diffaugment/") + part, samples, {count}).unbind(1);
  };
  DiffAugmentDraws draws;
  if (policy.color) {
    const std::vector<Tensor> u = drawn("color", 3);
    draws.brightness = u[0];
    draws.saturation = u[1];
    draws.contrast = u[2];
  }
  if (policy.translation) {
    const std::vector<Tensor> u = drawn("translation", 2);
    const auto shift = [&](int64_t length, const Tensor& of) {
      const int64_t most = pixels_of(kTranslated, length);
      return below(2 * most + 1, of) - most;
    };
    draws.translation_rows = shift(size.height, u[0]);
    draws.translation_columns = shift(size.width, u[1]);
  }
  if (policy.cutout) {
    const std::vector<Tensor> u = drawn("cutout", 2);
    // A square of even length has its centre between two pixels, of which there is one more.
    const auto centre = [&](int64_t length, const Tensor& of) {
      return below(length + 1 - pixels_of(kCutOut, length) % 2, of);
    };
    draws.cutout_row = centre(size.height, u[0]);
    draws.cutout_column = centre(size.width, u[1]);
  }
  return draws;
}

Tensor diff_augment(const Tensor& images, const DiffAugmentDraws& draws) {
  const bool exact_type = images.scalar_type() == at::kFloat || images.scalar_type() == at::kDouble;
  TORCH_CHECK(images.dim() == 4 && exact_type, "diff_augment: images ", images.toString());
  check_augment({}, {images.size(3), images.size(2)}, images.size(1));
  const WithoutAutocast exact;
  Tensor x = coloured(images, draws);
  if (draws.translation_rows.defined())
    x = Translation::apply(x, draws.translation_rows, draws.translation_columns);
  if (draws.cutout_row.defined()) {
    const Tensor cut =
        cut_out(x, draws.cutout_row, 2).logical_and(cut_out(x, draws.cutout_column, 3));
    x = at::where(cut, at::zeros({}, x.options()), x);
  }
  return x;
}

Tensor seen_by_D(const AugmentChoice<DiffAugmentMode>& choice,
                 const Tensor& x,
                 Shown kind,
                 const DrawKey& key,
                 const Samples& samples) {
  if (choice.mode == DiffAugmentMode::kOff) return x;
  const DrawKey own = key.of_phase(kKinds * key.phase + static_cast<int64_t>(kind));
  const Size size{x.size(3), x.size(2)};
  return diff_augment(x, diff_augment_draws(choice.policy, own, samples, size));
}

}  // namespace gantrain
