// SPDX-License-Identifier: Apache-2.0
#include "ops/modulation/modulation_terms_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

// The epilogue of a modulated convolution in one pass over its result, instead of five: bandwidth
// bounds it. A thread reads its channels' terms once (gpu/planes_walk.h). Noise is one number a
// pixel: a pack of them in planes, one for a row of channels, where neighbouring threads share it.
template <class T, int kPack, Order kOrder>
struct ModulatedWork : WorkOf<T, kPack, kOrder, 0> {
  using Base = WorkOf<T, kPack, kOrder, 0>;
  using Terms = ChannelTerms<Base::kWidth>;

  ModulatedActTask task;
  LeakyClamp<T> act;
  const T* y;
  T* out;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    return channel_terms<Base::kWidth>(task, sample, channel);
  }

  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, NoSums&) const {
    float u[kPack], noise[Base::kPixels];
    load_wide(y + at, u);
    load_noise(t.noise, pixel, noise);
    for (int k = 0; k < kPack; ++k) {
      const int c = k % Base::kWidth;
      u[k] = act(u[k] * t.factor[c] + t.strength[c] * noise[k % Base::kPixels] + t.bias[c]);
    }
    store_rounded(out + at, u);
  }
};

// With what lies beside it: a block's residual.
template <class T, int kPack, Order kOrder>
struct AddedActWork : WorkOf<T, kPack, kOrder, 0> {
  using Base = WorkOf<T, kPack, kOrder, 0>;
  using Terms = ChannelTerms<Base::kWidth>;

  ModulatedActTask task;
  LeakyClamp<T> act;
  const T *y, *added;
  T* out;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    return channel_terms<Base::kWidth>(task, sample, channel);
  }

  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, NoSums&) const {
    float u[kPack], beside[kPack], noise[Base::kPixels];
    load_wide(y + at, u);
    load_wide(added + at, beside);
    load_noise(t.noise, pixel, noise);
    for (int k = 0; k < kPack; ++k) {
      const int c = k % Base::kWidth;
      const float v = u[k] * t.factor[c] + t.strength[c] * noise[k % Base::kPixels] + t.bias[c];
      u[k] = act(v) + beside[k];
    }
    store_rounded(out + at, u);
  }
};

}  // namespace

bool packed(const ModulatedActTask& task, const AddedActArrays& arrays) {
  return packs(task, arrays.y, arrays.added, arrays.out);
}

void added_act(const ModulatedActTask& task, const AddedActArrays& arrays, Stream stream) {
  with_body(task, packed(task, arrays), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const AddedActWork<T, pack.value, order.value> work{{},
                                                        task,
                                                        LeakyClamp<T>(task),
                                                        static_cast<const T*>(arrays.y),
                                                        static_cast<const T*>(arrays.added),
                                                        static_cast<T*>(arrays.out)};
    launch_work(task.maps, work, stream);
  });
}

bool packed(const ModulatedActTask& task, const void* y, const void* out) {
  return packs(task, y, out);
}

void modulated_act(const ModulatedActTask& task, const void* y, void* out, Stream stream) {
  with_body(task, packed(task, y, out), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const ModulatedWork<T, pack.value, order.value> work{
        {}, task, LeakyClamp<T>(task), static_cast<const T*>(y), static_cast<T*>(out)};
    launch_work(task.maps, work, stream);
  });
}

// The derivatives of modulated_act in one pass over grad, out and y, with the sums for the
// derivatives by d, strength and bias in registers; a block adds its threads' up in shared memory
// and sum_parts() adds the blocks' up. Bandwidth bounds it.

namespace {

template <class T, int kPack, Order kOrder>
struct ModulatedGradientWork : WorkOf<T, kPack, kOrder, 3> {
  using Base = WorkOf<T, kPack, kOrder, 3>;
  struct Terms {
    float factor[Base::kWidth];
    const float* noise;  // of the sample; null: none, or no sums of it
  };

  ModulatedActTask task;
  LeakyClamp<T> act;
  const T *grad, *out, *y;  // y: null if no sums of it are wanted
  T* dy;
  bool sums_noise;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    Terms t;
    load_factor(task, sample, channel, t.factor);
    t.noise = sums_noise ? noise_of(task, sample) : nullptr;
    return t;
  }

  template <class Sums>
  GANTRAIN_BOTH void operator()(int64_t at, int64_t pixel, const Terms& t, Sums& sums) const {
    constexpr bool kSums = !std::is_same_v<Sums, NoSums>;
    // All loads come before the store, behind which the compiler may move none.
    float du[kPack], result[kPack], value[kPack] = {}, noise[Base::kPixels];
    load_wide(grad + at, result);
    load_slopes(act, out, at, du);
    if (kSums && y != nullptr) load_wide(y + at, value);
    if (kSums) load_noise(t.noise, pixel, noise);
    for (int k = 0; k < kPack; ++k) {
      du[k] *= result[k];
      result[k] = du[k] * t.factor[k % Base::kWidth];
    }
    store_rounded(dy + at, result);
    if constexpr (kSums) add_gradient_sums<Base::kWidth>(du, value, noise, sums);
  }
};

}  // namespace

bool packed(const ModulatedActTask& task, const ModulatedGradientArrays& arrays) {
  return packs(task, arrays.grad, arrays.out, arrays.y, arrays.dy);
}

Parts gradient_parts(const ModulatedActTask& task, const ModulatedGradientArrays& arrays) {
  return parts_of(task.maps, packed(task, arrays) ? pack_size(task.type) : 1);
}

void modulated_act_gradient(const ModulatedActTask& task,
                            const ModulatedGradientArrays& arrays,
                            Stream stream) {
  with_body(task, packed(task, arrays), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const auto* y = arrays.sum_y == nullptr ? nullptr : static_cast<const T*>(arrays.y);
    const ModulatedGradientWork<T, pack.value, order.value> work{{},
                                                                 task,
                                                                 LeakyClamp<T>(task),
                                                                 static_cast<const T*>(arrays.grad),
                                                                 static_cast<const T*>(arrays.out),
                                                                 y,
                                                                 static_cast<T*>(arrays.dy),
                                                                 arrays.sum_noise != nullptr};
    if (arrays.sum_y == nullptr && arrays.sum_noise == nullptr && arrays.sum == nullptr)
      launch_work(task.maps, work, stream);
    else
      launch_summing(task.maps, work, stream, arrays.sum_y, arrays.sum_noise, arrays.sum);
  });
}

// The second derivatives of modulated_act in one pass over up to four maps, with the sums for the
// derivative by d. With s = scale * d * y' + scale * d' * y + strength' * noise + bias', where '
// marks directions, they are: by grad, c * s; by y, grad * c * scale * d'; by d, the sums of grad *
// c * scale * y'. Bandwidth bounds it.

namespace {

template <class T, int kPack, Order kOrder>
struct ModulatedSecondWork : WorkOf<T, kPack, kOrder, 1> {
  using Base = WorkOf<T, kPack, kOrder, 1>;
  struct Terms {
    ChannelTerms<Base::kWidth> of;  // factor: scale * d; strength and bias: of the directions
    float along_d[Base::kWidth];    // scale * d'
  };

  ModulatedActTask task;
  LeakyClamp<T> act;
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
                                                               LeakyClamp<T>(task),
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
