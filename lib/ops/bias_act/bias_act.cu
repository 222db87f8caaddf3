// SPDX-License-Identifier: Apache-2.0
// Each function is one pass that reads and writes every number once: bandwidth bounds it. A thread
// reads its channels' biases once and visits its packs (gpu/planes_walk.h). The derivative also
// sums dx to the bias: each thread keeps its channels' sums in registers, a block adds its threads'
// up in shared memory, and sum_parts() adds the blocks' up.
#include <cmath>

#include "ops/bias_act/bias_act_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

// linear, relu and lrelu. Comparisons are written so that NaN goes where LibTorch lets it go.
template <class Number>
struct TwoLines {
  Number alpha;

  explicit TwoLines(const BiasActTask& task)
      : alpha(static_cast<Number>(task.act == Activation::kLinear ? 1
                                  : task.act == Activation::kRelu ? 0
                                                                  : task.alpha)) {}
  // Zero times infinity would not be zero.
  GANTRAIN_BOTH Number value(Number u) const { return u < 0 ? (alpha == 0 ? 0 : u * alpha) : u; }
  GANTRAIN_BOTH Number slope(Number t) const { return t > 0 ? Number{1} : alpha; }
};

// What follows the activation. The clamp is that of stored numbers, which are compared with it: one
// that is no number of type T would let gradients pass where y was clamped.
template <class T>
struct GainClamp {
  using Number = Wide<T>;
  Number gain, inverse, clamp;
  bool clamps;

  explicit GainClamp(const BiasActTask& task)
      : gain(static_cast<Number>(task.gain)),
        inverse(static_cast<Number>(1 / task.gain)),
        clamp(as_stored<T>(static_cast<Number>(task.clamp))),
        clamps(!std::isinf(task.clamp)) {}

  GANTRAIN_BOTH Number operator()(Number t) const {
    const Number y = t * gain, most = y > clamp ? clamp : y;
    return most < -clamp ? -clamp : most;
  }
  // 0 where |y| reached the clamp. Equality is outside: a clamped y cannot be told from one there.
  GANTRAIN_BOTH Number inside(Number dx, Number y) const {
    return !clamps || std::fabs(y) < clamp ? dx : Number{0};
  }
};

template <class T, int kPack, Order kOrder>
struct BiasActWork : WorkOf<T, kPack, kOrder, 0> {
  using Base = WorkOf<T, kPack, kOrder, 0>;
  using Number = typename Base::Number;
  struct Terms {
    Number bias[Base::kWidth];
  };

  const T* b;
  int64_t channels;
  const T* x;
  T* y;
  TwoLines<Number> act;
  GainClamp<T> gain_clamp;

  GANTRAIN_BOTH Terms terms(int64_t /*sample*/, int64_t channel) const {
    Terms terms;
    if (b == nullptr)
      fill(terms.bias, Number{0});
    else
      load_channels(b, channel, channels, terms.bias);
    return terms;
  }

  GANTRAIN_BOTH void operator()(int64_t at, int64_t /*pixel*/, const Terms& t, NoSums&) const {
    Number u[kPack];
    load_wide(x + at, u);
    for (int k = 0; k < kPack; ++k) {
      const Number biased = u[k] + t.bias[k % Base::kWidth];
      u[k] = gain_clamp(act.value(biased));
    }
    store_rounded(y + at, u);
  }
};

template <class T, int kPack, Order kOrder>
struct GradientWork : WorkOf<T, kPack, kOrder, 1> {
  using Base = WorkOf<T, kPack, kOrder, 1>;
  using Number = typename Base::Number;
  struct Terms {};

  const T *dy, *y;
  T* dx;
  TwoLines<Number> act;
  GainClamp<T> gain_clamp;

  GANTRAIN_BOTH Terms terms(int64_t /*sample*/, int64_t /*channel*/) const { return {}; }

  template <class Sums>
  GANTRAIN_BOTH void operator()(int64_t at, int64_t /*pixel*/, const Terms&, Sums& sums) const {
    Number result[kPack], saved[kPack];
    load_wide(dy + at, result);
    if (y == nullptr) {
      for (int k = 0; k < kPack; ++k) result[k] *= gain_clamp.gain;
    } else {
      load_wide(y + at, saved);
      for (int k = 0; k < kPack; ++k) {
        const Number slope = act.slope(saved[k] * gain_clamp.inverse) * gain_clamp.gain;
        result[k] = gain_clamp.inside(result[k] * slope, saved[k]);
      }
    }
    if (dx != nullptr) store_rounded(dx + at, result);
    if constexpr (!std::is_same_v<Sums, NoSums>) {
      for (int k = 0; k < kPack; ++k) sums[0][k % Base::kWidth] += result[k];
    }
  }
};

}  // namespace

bool packed(const BiasActTask& task, const void* x, const void* y) {
  return packs_fit(task.maps, pack_size(task.type), /*terms_of_pixels=*/false) &&
         aligned_for_packs(x, y);
}

void bias_act(const BiasActTask& task, const void* x, void* y, Stream stream) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_walk<T>(task.maps, packed(task, x, y), [&](auto pack, auto order) {
      const BiasActWork<T, pack.value, order.value> work{{},
                                                         static_cast<const T*>(task.b),
                                                         task.maps.channels,
                                                         static_cast<const T*>(x),
                                                         static_cast<T*>(y),
                                                         TwoLines<Wide<T>>(task),
                                                         GainClamp<T>(task)};
      launch_work(task.maps, work, stream);
    });
  });
}

bool packed(const BiasActTask& task, const BiasActGradientArrays& arrays) {
  return packs_fit(task.maps, pack_size(task.type), /*terms_of_pixels=*/false) &&
         aligned_for_packs(arrays.dy, arrays.y, arrays.dx);
}

Parts gradient_parts(const BiasActTask& task, const BiasActGradientArrays& arrays) {
  return parts_of(task.maps, packed(task, arrays) ? pack_size(task.type) : 1);
}

void bias_act_gradient(const BiasActTask& task,
                       const BiasActGradientArrays& arrays,
                       Stream stream) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_walk<T>(task.maps, packed(task, arrays), [&](auto pack, auto order) {
      const GradientWork<T, pack.value, order.value> work{{},
                                                          static_cast<const T*>(arrays.dy),
                                                          static_cast<const T*>(arrays.y),
                                                          static_cast<T*>(arrays.dx),
                                                          TwoLines<Wide<T>>(task),
                                                          GainClamp<T>(task)};
      if (arrays.sums != nullptr)
        launch_summing(task.maps, work, stream, arrays.sums);
      else
        launch_work(task.maps, work, stream);
    });
  });
}

}  // namespace gantrain::cuda_kernels
