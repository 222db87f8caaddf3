// SPDX-License-Identifier: Apache-2.0
// The epilogue of a modulated convolution together with the modulation of the next one, which
// multiplies each of its channels by that layer's style: one pass over the maps instead of two, and
// backward one instead of two and the sum of two gradients. Bandwidth bounds both.
#include "ops/modulation/modulation_terms_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

template <int kWidth>
struct ScaledTerms {
  ChannelTerms<kWidth> of;
  float then[kWidth];
};

template <int kWidth>
GANTRAIN_BOTH ScaledTerms<kWidth> scaled_terms(const ModulatedActTask& task,
                                               const float* then,
                                               int64_t sample,
                                               int64_t channel) {
  const int64_t channels = task.maps.channels;
  ScaledTerms<kWidth> t;
  t.of = channel_terms<kWidth>(task, sample, channel);
  const float* of_sample = then == nullptr ? nullptr : then + sample * channels;
  load_terms(of_sample, 1.F, channel, channels, t.then);
  return t;
}

// What modulated_act() stores: out of y, a pack, rounded to T. The scaled copy and the derivatives
// are computed from that number, as if it had been read.
template <class T, int kPack, int kWidth, int kPixels>
GANTRAIN_BOTH void stored_act(const LeakyClamp<T>& act,
                              const ChannelTerms<kWidth>& t,
                              const float (&y)[kPack],
                              const float (&noise)[kPixels],
                              float (&out)[kPack]) {
  for (int k = 0; k < kPack; ++k) {
    const int c = k % kWidth;
    const float u = y[k] * t.factor[c] + t.strength[c] * noise[k % kPixels] + t.bias[c];
    out[k] = widened(rounded<T>(act(u)));
  }
}

template <class T, int kPack, Order kOrder>
struct ScaledActWork : WorkOf<T, kPack, kOrder, 0> {
  using Base = WorkOf<T, kPack, kOrder, 0>;
  using Terms = ScaledTerms<Base::kWidth>;

  ModulatedActTask task;
  LeakyClamp<T> act;
  const T* y;
  const float* then;
  T *out, *scaled;  // out: null if it is not wanted

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    return scaled_terms<Base::kWidth>(task, then, sample, channel);
  }

  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, NoSums&) const {
    float value[kPack], noise[Base::kPixels], result[kPack];
    load_wide(y + at, value);
    load_noise(t.of.noise, pixel, noise);
    stored_act(act, t.of, value, noise, result);
    if (out != nullptr) store_rounded(out + at, result);
    for (int k = 0; k < kPack; ++k) result[k] *= t.then[k % Base::kWidth];
    store_rounded(scaled + at, result);
  }
};

template <class T, int kPack, Order kOrder>
struct ScaledGradientWork : WorkOf<T, kPack, kOrder, 4> {
  using Base = WorkOf<T, kPack, kOrder, 4>;
  using Terms = ScaledTerms<Base::kWidth>;

  ModulatedActTask task;
  LeakyClamp<T> act;
  const T *grad, *grad_scaled, *y;  // one of the first two may be null: 0
  const float* then;
  T* dy;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    return scaled_terms<Base::kWidth>(task, then, sample, channel);
  }

  template <class Sums>
  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, Sums& sums) const {
    // All loads come before the store, behind which the compiler may move none.
    float du[kPack] = {}, by_scaled[kPack] = {}, value[kPack], noise[Base::kPixels], out[kPack];
    load_wide(y + at, value);
    if (grad != nullptr) load_wide(grad + at, du);
    if (grad_scaled != nullptr) load_wide(grad_scaled + at, by_scaled);
    load_noise(t.of.noise, pixel, noise);
    stored_act(act, t.of, value, noise, out);
    float result[kPack];
    for (int k = 0; k < kPack; ++k) {
      const int c = k % Base::kWidth;
      du[k] = (du[k] + by_scaled[k] * t.then[c]) * act.slope(out[k]);
      result[k] = du[k] * t.of.factor[c];
    }
    store_rounded(dy + at, result);
    add_gradient_sums<Base::kWidth>(du, value, noise, sums);
    for (int k = 0; k < kPack; ++k) sums[3][k % Base::kWidth] += by_scaled[k] * out[k];
  }
};

}  // namespace

bool packed(const ModulatedActTask& task, const ScaledActArrays& arrays) {
  return packs(task, arrays.y, arrays.out, arrays.scaled);
}

void scaled_act(const ModulatedActTask& task, const ScaledActArrays& arrays, Stream stream) {
  with_body(task, packed(task, arrays), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const ScaledActWork<T, pack.value, order.value> work{{},
                                                         task,
                                                         LeakyClamp<T>(task),
                                                         static_cast<const T*>(arrays.y),
                                                         arrays.then,
                                                         static_cast<T*>(arrays.out),
                                                         static_cast<T*>(arrays.scaled)};
    launch_work(task.maps, work, stream);
  });
}

bool packed(const ModulatedActTask& task, const ScaledGradientArrays& arrays) {
  return packs(task, arrays.grad, arrays.grad_scaled, arrays.y, arrays.dy);
}

Parts scaled_parts(const ModulatedActTask& task, const ScaledGradientArrays& arrays) {
  return parts_of(task.maps, packed(task, arrays) ? pack_size(task.type) : 1);
}

void scaled_act_gradient(const ModulatedActTask& task,
                         const ScaledGradientArrays& arrays,
                         Stream stream) {
  with_body(task, packed(task, arrays), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const auto as_maps = [](const void* maps) { return static_cast<const T*>(maps); };
    const ScaledGradientWork<T, pack.value, order.value> work{{},
                                                              task,
                                                              LeakyClamp<T>(task),
                                                              as_maps(arrays.grad),
                                                              as_maps(arrays.grad_scaled),
                                                              as_maps(arrays.y),
                                                              arrays.then,
                                                              static_cast<T*>(arrays.dy)};
    launch_summing(
        task.maps, work, stream, arrays.sum_y, arrays.sum_noise, arrays.sum, arrays.sum_then);
  });
}

}  // namespace gantrain::cuda_kernels
