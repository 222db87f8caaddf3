// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/modulation/map_layout.h"
#include "ops/modulation/modulation.h"
#include "ops/operator.h"

namespace gantrain {

namespace {

// Linear in both arguments, so the derivatives are three functions that are each other's: y(x, w);
// dx(dy, w), which lies in memory as x does; dw(x, dy).
enum class SampleProduct { kY, kDx, kDw };

struct SampleProducts {
  SampleProduct which;
  bool channels_last;  // x
};

// Maps [N, C, H, W] as matrices [N, C, H * W]: views of dense maps in either order.
Tensor as_matrices(const Tensor& maps, bool channels_last) {
  const int64_t n = maps.size(0), c = maps.size(1), pixels = maps.size(2) * maps.size(3);
  if (channels_last) return maps.permute({0, 2, 3, 1}).reshape({n, pixels, c}).transpose(1, 2);
  return maps.reshape({n, c, pixels});
}

// The result of each is the one that at::bmm writes in rows, so that nothing is copied.
Tensor computed(const Tensor& a, const Tensor& b, const SampleProducts& how) {
  const bool last = how.channels_last;
  switch (how.which) {
    case SampleProduct::kY:
      return at::bmm(b, as_matrices(a, last)).reshape({a.size(0), b.size(1), a.size(2), a.size(3)});
    case SampleProduct::kDx: {
      const Tensor dy = as_matrices(a, false);
      const int64_t n = a.size(0), c = b.size(2), h = a.size(2), w = a.size(3);
      if (last) return at::bmm(dy.transpose(1, 2), b).reshape({n, h, w, c}).permute({0, 3, 1, 2});
      return at::bmm(b.transpose(1, 2), dy).reshape({n, c, h, w});
    }
    case SampleProduct::kDw:
      return at::bmm(as_matrices(b, false), as_matrices(a, last).transpose(1, 2));
  }
  TORCH_CHECK(false, "no such product");
}

struct SampleProductsFunction : torch::autograd::Function<SampleProductsFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& a,
                        const Tensor& b,
                        const SampleProducts& how) {
    save(context, {a, b});
    hold(context, "how", how);
    return computed(a, b, how);
  }

  static variable_list backward(AutogradContext* context, variable_list gradient) {
    variable_list result(3);
    const Tensor& g = gradient[0];
    if (!g.defined()) return result;
    const WithoutAutocast exact;
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    const bool last = held<SampleProducts>(context, "how").channels_last;
    const auto y = [&](const Tensor& x, const Tensor& w) {
      return apply(x, w, SampleProducts{SampleProduct::kY, last});
    };
    const auto dx = [&](const Tensor& dy, const Tensor& w) {
      return apply(dy, w, SampleProducts{SampleProduct::kDx, last});
    };
    const auto dw = [&](const Tensor& x, const Tensor& dy) {
      return apply(x, dy, SampleProducts{SampleProduct::kDw, last});
    };
    const bool first = context->needs_input_grad(0), second = context->needs_input_grad(1);
    switch (held<SampleProducts>(context, "how").which) {
      case SampleProduct::kY:  // a: x, b: w, g: dy
        if (first) result[0] = dx(g, b);
        if (second) result[1] = dw(a, g);
        break;
      case SampleProduct::kDx:  // a: dy, b: w, g: like x
        if (first) result[0] = y(g, b);
        if (second) result[1] = dw(g, a);
        break;
      case SampleProduct::kDw:  // a: x, b: dy, g: like w
        if (first) result[0] = dx(b, g);
        if (second) result[1] = y(a, g);
        break;
    }
    return result;
  }
};

}  // namespace

Tensor sample_products(const Tensor& x, const Tensor& w) {
  const MapLayout layout(x);
  return SampleProductsFunction::apply(
      layout(x), w, SampleProducts{SampleProduct::kY, layout.channels_last()});
}

}  // namespace gantrain
