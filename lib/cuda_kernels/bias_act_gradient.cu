// SPDX-License-Identifier: Apache-2.0
// The derivative of bias_act in one pass over dy and the saved tensor, which also sums dx to the
// bias: each thread keeps its channels' sums in registers, a block adds its threads' up in shared
// memory, and sum_parts() adds the blocks' up. Bandwidth bounds it.
#include "cuda_kernels/bias_act.h"
#include "cuda_kernels/bias_act_curves.h"

namespace gantrain::cuda_kernels {

namespace {

// dx at one place, from dy, what was saved there and the bias.
template <class Number, class Act>
struct SlopeAtOutput {
  Act act;
  GainClamp<Number> gain_clamp;

  explicit SlopeAtOutput(const BiasActTask& task) : act(task), gain_clamp(task) {}
  GANTRAIN_BOTH Number operator()(Number dy, Number y, Number /*bias*/) const {
    return gain_clamp.inside(dy * (act.slope(y * gain_clamp.inverse) * gain_clamp.gain), y);
  }
};
template <class Number>
struct SlopeOfSwish {
  GainClamp<Number> gain_clamp;

  explicit SlopeOfSwish(const BiasActTask& task) : gain_clamp(task) {}
  GANTRAIN_BOTH Number operator()(Number dy, Number x, Number bias) const {
    const Number u = x + bias, s = sigmoid(u), slope = s * (1 + u * (1 - s));
    return gain_clamp.inside(dy * (slope * gain_clamp.gain), u * s * gain_clamp.gain);
  }
};

template <class T, int kPack, Order kOrder, class Slope>
struct GradientWork : BiasedWork<T, kPack, kOrder, 1> {
  using Base = BiasedWork<T, kPack, kOrder, 1>;
  using typename Base::Number;
  using typename Base::Terms;

  const T *dy, *from;
  T* dx;
  Number gain;
  Slope slope;

  template <class Sums>
  GANTRAIN_BOTH void operator()(int64_t at, int64_t /*pixel*/, const Terms& t, Sums& sums) const {
    Number result[kPack], saved[kPack];
    load_wide(dy + at, result);
    if (from == nullptr) {
      for (int k = 0; k < kPack; ++k) result[k] *= gain;
    } else {
      load_wide(from + at, saved);
      for (int k = 0; k < kPack; ++k) result[k] = slope(result[k], saved[k], t.at(k));
    }
    if (dx != nullptr) store_rounded(dx + at, result);
    if constexpr (!std::is_same_v<Sums, NoSums>) {
      for (int k = 0; k < kPack; ++k) sums[0][k % Base::kWidth] += result[k];
    }
  }
};

template <class T, class Slope>
void launch_gradient(const BiasActTask& task, const BiasActGradientArrays& arrays, Stream stream) {
  with_walk<T>(task.maps, packed(task, arrays), [&](auto pack, auto order) {
    const GradientWork<T, pack.value, order.value, Slope> work{
        BiasedWork<T, pack.value, order.value, 1>(task),
        static_cast<const T*>(arrays.dy),
        static_cast<const T*>(arrays.from),
        static_cast<T*>(arrays.dx),
        static_cast<Wide<T>>(task.gain),
        Slope(task)};
    if (arrays.sums != nullptr)
      launch_summing(task.maps, work, stream, arrays.sums);
    else
      launch_work(task.maps, work, stream);
  });
}

}  // namespace

bool packed(const BiasActTask& task, const BiasActGradientArrays& arrays) {
  return packs_fit(task.maps, pack_size(task.type), /*terms_of_pixels=*/false) &&
         aligned_for_packs(arrays.dy, arrays.from, arrays.dx);
}

Parts gradient_parts(const BiasActTask& task, const BiasActGradientArrays& arrays) {
  return parts_of(task.maps, packed(task, arrays) ? pack_size(task.type) : 1);
}

void bias_act_gradient(const BiasActTask& task,
                       const BiasActGradientArrays& arrays,
                       Stream stream) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Number = Wide<T>;
    if (two_lines(task.act))
      launch_gradient<T, SlopeAtOutput<Number, TwoLines<Number>>>(task, arrays, stream);
    else if (task.act == Activation::kSwish)
      launch_gradient<T, SlopeOfSwish<Number>>(task, arrays, stream);
    else
      launch_gradient<T, SlopeAtOutput<Number, Curve<Number>>>(task, arrays, stream);
  });
}

}  // namespace gantrain::cuda_kernels
