// SPDX-License-Identifier: Apache-2.0
// The second derivative of bias_act, for the activations that have one: one pass over three arrays
// and the result. Bandwidth bounds it.
#include "cuda_kernels/bias_act.h"
#include "cuda_kernels/bias_act_curves.h"

namespace gantrain::cuda_kernels {

namespace {

// The derivative at one place, from v * dy, what was saved there and the bias.
template <class Number>
struct Bend {
  Curve<Number> act;
  GainClamp<Number> gain_clamp;

  explicit Bend(const BiasActTask& task) : act(task), gain_clamp(task) {}

  GANTRAIN_BOTH Number operator()(Number product, Number saved, Number bias) const {
    if (act.act != Activation::kSwish)
      return gain_clamp.inside(product * act.bend(saved * gain_clamp.inverse), saved);
    const Number u = saved + bias, s = sigmoid(u);
    const Number bend = s * (1 - s) * (2 + u * (1 - 2 * s)) * gain_clamp.gain;
    return gain_clamp.inside(product * bend, u * s * gain_clamp.gain);
  }
};

template <class T, int kPack, Order kOrder>
struct SecondWork : BiasedWork<T, kPack, kOrder, 0> {
  using Base = BiasedWork<T, kPack, kOrder, 0>;
  using typename Base::Number;
  using typename Base::Terms;

  const T *v, *dy, *from;
  T* result;
  Bend<Number> bend;

  GANTRAIN_BOTH void operator()(int64_t at, int64_t /*pixel*/, const Terms& t, NoSums&) const {
    Number along[kPack], grad[kPack], saved[kPack];
    load_wide(v + at, along);
    load_wide(dy + at, grad);
    load_wide(from + at, saved);
    for (int k = 0; k < kPack; ++k) along[k] = bend(along[k] * grad[k], saved[k], t.at(k));
    store_rounded(result + at, along);
  }
};

}  // namespace

bool packed(const BiasActTask& task, const BiasActSecondArrays& arrays) {
  return packs_fit(task.maps, pack_size(task.type), /*terms_of_pixels=*/false) &&
         aligned_for_packs(arrays.v, arrays.dy, arrays.from, arrays.result);
}

void bias_act_double_backward(const BiasActTask& task,
                              const BiasActSecondArrays& arrays,
                              Stream stream) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_walk<T>(task.maps, packed(task, arrays), [&](auto pack, auto order) {
      const SecondWork<T, pack.value, order.value> work{
          BiasedWork<T, pack.value, order.value, 0>(task),
          static_cast<const T*>(arrays.v),
          static_cast<const T*>(arrays.dy),
          static_cast<const T*>(arrays.from),
          static_cast<T*>(arrays.result),
          Bend<Wide<T>>(task)};
      launch_work(task.maps, work, stream);
    });
  });
}

}  // namespace gantrain::cuda_kernels
