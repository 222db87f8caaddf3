// SPDX-License-Identifier: Apache-2.0
#include "image/weighted_sums.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace gantrain {

namespace {

using Floats4 [[gnu::vector_size(16)]] = float;

template <class T>
void rows(
    const T* in, int64_t stride, const float* weights, int64_t count, int64_t width, float* out) {
  std::fill_n(out, width, 0.0f);
  for (int64_t k = 0; k < count; ++k) {
    const T* row = in + k * stride;
    for (int64_t x = 0; x < width; ++x) out[x] += weights[k] * static_cast<float>(row[x]);
  }
}

[[gnu::target("avx2")]] inline __m256 load8(const uint8_t* in) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))));
}

[[gnu::target("avx2")]] inline __m256 load8(const float* in) { return _mm256_loadu_ps(in); }

// 32 outputs at a time stay in registers while all their rows are added.
template <class T>
[[gnu::target("avx2")]] void rows_avx2(
    const T* in, int64_t stride, const float* weights, int64_t count, int64_t width, float* out) {
  int64_t x = 0;
  for (; x + 32 <= width; x += 32) {
    __m256 sums[4] = {};
    for (int64_t k = 0; k < count; ++k) {
      const __m256 weight = _mm256_set1_ps(weights[k]);
      for (int part = 0; part < 4; ++part) {
        const __m256 value = load8(in + k * stride + x + 8 * part);
        sums[part] = _mm256_add_ps(sums[part], _mm256_mul_ps(weight, value));
      }
    }
    for (int part = 0; part < 4; ++part) _mm256_storeu_ps(out + x + 8 * part, sums[part]);
  }
  rows(in + x, stride, weights, count, width - x, out + x);
}

template <class T>
void best_rows(
    const T* in, int64_t stride, const float* weights, int64_t count, int64_t width, float* out) {
  if (__builtin_cpu_supports("avx2")) return rows_avx2(in, stride, weights, count, width, out);
  rows(in, stride, weights, count, width, out);
}

// A register holds a pixel; of three channels the fourth number is the next pixel's and is dropped.
template <int kChannels>
void columns_in_registers(const float* in, const Taps& taps, float* out) {
  for (size_t i = 0; i < taps.first.size(); ++i, out += kChannels) {
    const float* from = in + taps.first[i] * kChannels;
    const float* weights = taps.weights_of(static_cast<int64_t>(i));
    Floats4 sum = {};
    for (int64_t k = 0; k < taps.count[i]; ++k, from += kChannels) {
      Floats4 pixel;
      std::memcpy(&pixel, from, sizeof(pixel));
      sum += weights[k] * pixel;
    }
    std::memcpy(out, &sum, kChannels * sizeof(float));
  }
}

template <int kChannels>
void columns(const float* in, const Taps& taps, float* out) {
  for (size_t i = 0; i < taps.first.size(); ++i) {
    const float* from = in + taps.first[i] * kChannels;
    const float* weights = taps.weights_of(static_cast<int64_t>(i));
    float sum[kChannels] = {};
    for (int64_t k = 0; k < taps.count[i]; ++k, from += kChannels) {
      for (int c = 0; c < kChannels; ++c) sum[c] += weights[k] * from[c];
    }
    out = std::copy_n(sum, kChannels, out);
  }
}

}  // namespace

void sum_rows(const uint8_t* in,
              int64_t stride,
              const float* weights,
              int64_t count,
              int64_t width,
              float* out) {
  best_rows(in, stride, weights, count, width, out);
}

void sum_rows(const float* in,
              int64_t stride,
              const float* weights,
              int64_t count,
              int64_t width,
              float* out) {
  best_rows(in, stride, weights, count, width, out);
}

void sum_columns(const float* in, int64_t channels, const Taps& taps, float* out) {
  switch (channels) {
    case 1:
      return columns<1>(in, taps, out);
    case 2:
      return columns<2>(in, taps, out);
    case 3:
      return columns_in_registers<3>(in, taps, out);
    default:
      return columns_in_registers<4>(in, taps, out);
  }
}

}  // namespace gantrain
