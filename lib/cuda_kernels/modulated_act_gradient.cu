// SPDX-License-Identifier: Apache-2.0
// The derivatives of modulated_act in one pass over grad, out and y, with the sums for the
// derivatives by d, strength and bias in registers; a block adds its threads' up in shared memory
// and sum_parts() adds the blocks' up. Bandwidth bounds it.
#include "cuda_kernels/modulated_act.h"
#include "cuda_kernels/modulated_act_terms.h"

namespace gantrain::cuda_kernels {

namespace {

template <class T, int kPack, Order kOrder>
struct ModulatedGradientWork : WorkOf<T, kPack, kOrder, 3> {
  using Base = WorkOf<T, kPack, kOrder, 3>;
  struct Terms {
    float factor[Base::kWidth];
    const float* noise;  // of the sample; null: none, or no sums of it
  };

  ModulatedActTask task;
  LeakyClamp act;
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
    float du[kPack], result[kPack];
    load_wide(grad + at, result);
    load_slopes(act, out, at, du);
    for (int k = 0; k < kPack; ++k) {
      du[k] *= result[k];
      result[k] = du[k] * t.factor[k % Base::kWidth];
    }
    store_rounded(dy + at, result);
    if constexpr (!std::is_same_v<Sums, NoSums>) add(at, pixel, t, du, sums);
  }

 private:
  template <class Sums>
  GANTRAIN_BOTH void add(
      int64_t at, int64_t pixel, const Terms& t, const float (&du)[kPack], Sums& sums) const {
    if (y != nullptr) {
      float value[kPack];
      load_wide(y + at, value);
      for (int k = 0; k < kPack; ++k) sums[0][k % Base::kWidth] += du[k] * value[k];
    }
    if (t.noise != nullptr) {
      float noise[Base::kPixels];
      load_wide(t.noise + pixel, noise);
      for (int k = 0; k < kPack; ++k) sums[1][k % Base::kWidth] += du[k] * noise[k % Base::kPixels];
    }
    for (int k = 0; k < kPack; ++k) sums[2][k % Base::kWidth] += du[k];
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
                                                                 LeakyClamp(task),
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

}  // namespace gantrain::cuda_kernels
