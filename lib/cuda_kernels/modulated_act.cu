// SPDX-License-Identifier: Apache-2.0
// The epilogue of a modulated convolution in one pass over its result, instead of five: bandwidth
// bounds it. A thread reads its channels' terms once (planes_walk.h). Noise is one number a pixel:
// a pack of them in planes, one for a row of channels, where neighbouring threads share it.
#include "cuda_kernels/modulated_act.h"
#include "cuda_kernels/modulated_act_terms.h"

namespace gantrain::cuda_kernels {

namespace {

template <class T, int kPack, Order kOrder>
struct ModulatedWork : WorkOf<T, kPack, kOrder, 0> {
  using Base = WorkOf<T, kPack, kOrder, 0>;
  using Terms = ChannelTerms<Base::kWidth>;

  ModulatedActTask task;
  LeakyClamp act;
  const T* y;
  T* out;

  GANTRAIN_BOTH Terms terms(int64_t sample, int64_t channel) const {
    Terms t;
    load_factor(task, sample, channel, t.factor);
    load_strength(task, task.strength, 1.F, channel, t.strength);
    load_terms(task.bias, 0.F, channel, task.maps.channels, t.bias);
    t.noise = noise_of(task, sample);
    return t;
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

}  // namespace

bool packed(const ModulatedActTask& task, const void* y, const void* out) {
  return packs(task, y, out);
}

void modulated_act(const ModulatedActTask& task, const void* y, void* out, Stream stream) {
  with_body(task, packed(task, y, out), [&](auto tag, auto pack, auto order) {
    using T = typename decltype(tag)::type;
    const ModulatedWork<T, pack.value, order.value> work{
        {}, task, LeakyClamp(task), static_cast<const T*>(y), static_cast<T*>(out)};
    launch_work(task.maps, work, stream);
  });
}

}  // namespace gantrain::cuda_kernels
