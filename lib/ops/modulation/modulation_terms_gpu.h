// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "ops/gpu/planes_walk.h"
#include "ops/modulation/modulation_gpu.h"

namespace gantrain::cuda_kernels {

// What the kernels of modulated_act() and modulated_act_scaled() share. Terms are float32 whatever
// the type of the maps.

// The terms of a channel or, in kRows, of a pack of channels.
template <int kWidth>
struct ChannelTerms {
  float factor[kWidth], strength[kWidth], bias[kWidth];
  const float* noise;  // of the sample; null: none
};

// Loads one number for each channel, from `first` on; of an absent array they are `absent`.
template <int kWidth>
GANTRAIN_BOTH void load_terms(
    const float* from, float absent, int64_t first, int64_t channels, float (&to)[kWidth]) {
  if (from == nullptr)
    fill(to, absent);
  else
    load_channels(from, first, channels, to);
}

template <int kWidth>
GANTRAIN_BOTH void load_strength(const ModulatedActTask& task,
                                 const float* from,
                                 float absent,
                                 int64_t channel,
                                 float (&to)[kWidth]) {
  if (from != nullptr && task.strength_stride == 0)
    fill(to, *from);
  else
    load_terms(from, absent, channel, task.maps.channels, to);
}

template <int kWidth>
GANTRAIN_BOTH void load_factor(const ModulatedActTask& task,
                               int64_t sample,
                               int64_t channel,
                               float (&to)[kWidth]) {
  const int64_t channels = task.maps.channels;
  load_terms(task.d == nullptr ? nullptr : task.d + sample * channels, 1.F, channel, channels, to);
  for (int k = 0; k < kWidth; ++k) to[k] *= task.scale;
}

GANTRAIN_BOTH const float* noise_of(const ModulatedActTask& task, int64_t sample) {
  return task.noise == nullptr ? nullptr : task.noise + sample * task.noise_stride;
}

// All of them, of the sample's channel or pack of channels.
template <int kWidth>
GANTRAIN_BOTH ChannelTerms<kWidth> channel_terms(const ModulatedActTask& task,
                                                 int64_t sample,
                                                 int64_t channel) {
  ChannelTerms<kWidth> t;
  load_factor(task, sample, channel, t.factor);
  load_strength(task, task.strength, 1.F, channel, t.strength);
  load_terms(task.bias, 0.F, channel, task.maps.channels, t.bias);
  t.noise = noise_of(task, sample);
  return t;
}

template <int kPixels>
GANTRAIN_BOTH void load_noise(const float* noise, int64_t pixel, float (&to)[kPixels]) {
  if (noise == nullptr)
    fill(to, 0.F);
  else
    load_wide(noise + pixel, to);
}

// The activation, and c = d out / d u as a function of out. The clamp is that of stored numbers,
// which are compared with it: one that is no number of type T would let gradients pass.
template <class T>
struct LeakyClamp {
  float positive, negative, clamp;
  bool clamps;

  explicit LeakyClamp(const ModulatedActTask& task)
      : positive(task.gain),
        negative(task.gain * task.alpha),
        clamp(as_stored<T>(task.clamp)),
        clamps(!std::isinf(task.clamp)) {}

  // What is not a number stays so. Zero times infinity would not be zero.
  GANTRAIN_BOTH float operator()(float u) const {
    const float t = u < 0 ? (negative == 0 ? 0 : u * negative) : u * positive;
    const float most = t > clamp ? clamp : t;
    return most < -clamp ? -clamp : most;
  }
  // Equality is outside: a clamped value cannot be told from one just there.
  GANTRAIN_BOTH float slope(float out) const {
    const float c = out > 0 ? positive : negative;
    return !clamps || std::fabs(out) < clamp ? c : 0;
  }
};

// c of a pack; null `out`: it is the gain everywhere.
template <class T, int kPack>
GANTRAIN_BOTH void load_slopes(const LeakyClamp<T>& act,
                               const T* out,
                               int64_t at,
                               float (&to)[kPack]) {
  if (out == nullptr) {
    fill(to, act.positive);
  } else {
    load_wide(out + at, to);
    for (int k = 0; k < kPack; ++k) to[k] = act.slope(to[k]);
  }
}

// Adds a pack's part of the sums over pixels that are derivatives by d, strength and bias but for
// their factors: those of du y, of du times the noise, and of du, the derivatives by u.
template <int kWidth, int kPack, int kPixels, class Sums>
GANTRAIN_BOTH void add_gradient_sums(const float (&du)[kPack],
                                     const float (&y)[kPack],
                                     const float (&noise)[kPixels],
                                     Sums& sums) {
  for (int k = 0; k < kPack; ++k) {
    const int c = k % kWidth;
    sums[0][c] += du[k] * y[k];
    sums[1][c] += du[k] * noise[k % kPixels];
    sums[2][c] += du[k];
  }
}

template <class... Pointers>
bool packs(const ModulatedActTask& task, const Pointers*... maps) {
  // In planes, noise is loaded like the maps; the noise of a sample begins where its planes may.
  const auto* noise = task.maps.order == Order::kPlanes ? task.noise : nullptr;
  return packs_fit(task.maps, pack_size(task.type), task.noise != nullptr) &&
         aligned_for_packs(noise, maps...);
}

// Calls use(TypeTag<T>{}, Int<pack>{}, OrderTag<order>{}).
template <class Use>
void with_body(const ModulatedActTask& task, bool packed, const Use& use) {
  with_type(task.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>)
      with_walk<T>(task.maps, packed, [&](auto pack, auto order) { use(tag, pack, order); });
  });
}

}  // namespace gantrain::cuda_kernels
