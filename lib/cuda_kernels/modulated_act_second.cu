// SPDX-License-Identifier: Apache-2.0
// The second derivatives of modulated_act in one pass over up to four maps, with the sums for the
// derivative by d. With s = scale * d * y' + scale * d' * y + strength' * noise + bias', where '
// marks directions, they are: by grad, c * s; by y, grad * c * scale * d'; by d, the sums of grad *
// c * scale * y'. Bandwidth bounds it.
#include "cuda_kernels/modulated_act.h"
#include "cuda_kernels/modulated_act_terms.h"

namespace gantrain::cuda_kernels {

namespace {

template <class T, int kPack, Order kOrder>
struct ModulatedSecondWork : WorkOf<T, kPack, kOrder, 1> {
  using Base = WorkOf<T, kPack, kOrder, 1>;
  struct Terms {
    ChannelTerms<Base::kWidth> of;  // factor: scale * d; strength and bias: of the directions
    float along_d[Base::kWidth];    // scale * d'
  };

  ModulatedActTask task;
  LeakyClamp act;
  const T *grad, *out, *y;
  const T* along_y;
  ModulatedDirections along;
  T *by_grad, *by_y;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    const int64_t channels = task.maps.channels;
    Terms t;
    load_factor(task, sample, channel, t.of.factor);
    load_strength(task, along.strength, 0.F, channel, t.of.strength);
    load_terms(along.bias, 0.F, channel, channels, t.of.bias);
    const float* d = along.d == nullptr ? nullptr : along.d + sample * channels;
    load_terms(d, 0.F, channel, channels, t.along_d);
    for (int k = 0; k < Base::kWidth; ++k) t.along_d[k] *= task.scale;
    t.of.noise = along.strength == nullptr ? nullptr : noise_of(task, sample);
    return t;
  }

  template <class Sums>
  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, Sums& sums) const {
    float c[kPack], s[kPack];
    load_slopes(act, out, at, c);
    start(pixel, t, s);
    if (along_y != nullptr) add_along_y(at, t, c, s, sums);
    if (along.d != nullptr) add_along_d(at, t, c, s);
    for (int k = 0; k < kPack; ++k) s[k] *= c[k];
    store_rounded(by_grad + at, s);
  }

 private:
  GANTRAIN_BOTH void start(int64_t pixel, const Terms& t, float (&s)[kPack]) const {
    float noise[Base::kPixels];
    load_noise(t.of.noise, pixel, noise);
    for (int k = 0; k < kPack; ++k) {
      const int channel = k % Base::kWidth;
      s[k] = t.of.bias[channel] + t.of.strength[channel] * noise[k % Base::kPixels];
    }
  }

  template <class Sums>
  GANTRAIN_BOTH void add_along_y(
      int64_t at, const Terms& t, const float (&c)[kPack], float (&s)[kPack], Sums& sums) const {
    float direction[kPack];
    load_wide(along_y + at, direction);
    for (int k = 0; k < kPack; ++k) s[k] += direction[k] * t.of.factor[k % Base::kWidth];
    if constexpr (!std::is_same_v<Sums, NoSums>) {
      float dout[kPack];
      load_wide(grad + at, dout);
      for (int k = 0; k < kPack; ++k) sums[0][k % Base::kWidth] += dout[k] * c[k] * direction[k];
    }
  }

  GANTRAIN_BOTH void add_along_d(int64_t at,
                                 const Terms& t,
                                 const float (&c)[kPack],
                                 float (&s)[kPack]) const {
    float values[kPack];
    load_wide(y + at, values);
    for (int k = 0; k < kPack; ++k) s[k] += values[k] * t.along_d[k % Base::kWidth];
    if (by_y == nullptr) return;
    load_wide(grad + at, values);
    for (int k = 0; k < kPack; ++k) values[k] *= c[k] * t.along_d[k % Base::kWidth];
    store_rounded(by_y + at, values);
  }
};

}  // namespace

bool packed(const ModulatedActTask& task, const ModulatedSecondArrays& arrays) {
  return packs(
      task, arrays.grad, arrays.out, arrays.y, arrays.along.y, arrays.by_grad, arrays.by_y);
}

Parts second_parts(const ModulatedActTask& task, const ModulatedSecondArrays& arrays) {
  return parts_of(task.maps, packed(task, arrays) ? pack_size(task.type) : 1);
}

void modulated_act_second(const ModulatedActTask& task,
                          const ModulatedSecondArrays& arrays,
                          Stream stream) {
  with_body(task, packed(task, arrays), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const auto as_maps = [](const void* maps) { return static_cast<const T*>(maps); };
    const ModulatedSecondWork<T, pack.value, order.value> work{{},
                                                               task,
                                                               LeakyClamp(task),
                                                               as_maps(arrays.grad),
                                                               as_maps(arrays.out),
                                                               as_maps(arrays.y),
                                                               as_maps(arrays.along.y),
                                                               arrays.along,
                                                               static_cast<T*>(arrays.by_grad),
                                                               static_cast<T*>(arrays.by_y)};
    if (arrays.sum_d == nullptr)
      launch_work(task.maps, work, stream);
    else
      launch_summing(task.maps, work, stream, arrays.sum_d);
  });
}

}  // namespace gantrain::cuda_kernels
