// SPDX-License-Identifier: Apache-2.0
// The sums of which resizing consists: of bytes, weighted, along rows and columns (image/codec.h).
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "image/codec.h"

namespace gantrain {

namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

void rows(const uint8_t* in,
          int64_t stride,
          const int32_t* weights,
          int64_t count,
          int64_t width,
          int32_t* out) {
  std::fill_n(out, width, kHalf);
  for (int64_t k = 0; k < count; ++k) {
    const uint8_t* row = in + k * stride;
    for (int64_t x = 0; x < width; ++x) out[x] += weights[k] * row[x];
  }
}

template <int kChannels>
void columns(const int32_t* in, const Taps& taps, int32_t* out) {
  constexpr int64_t kNumbers = kChannels * kRowsAtOnce;
  for (size_t i = 0; i < taps.first.size(); ++i, out += kNumbers) {
    const int32_t* from = in + taps.first[i] * kNumbers;
    const int32_t* weights = taps.weights_of(static_cast<int64_t>(i));
    int32_t sums[kNumbers];
    std::fill_n(sums, kNumbers, kHalf);
    for (int64_t k = 0; k < taps.count[i]; ++k, from += kNumbers) {
      for (int64_t n = 0; n < kNumbers; ++n) sums[n] += weights[k] * from[n];
    }
    std::copy_n(sums, kNumbers, out);
  }
}

#if defined(__x86_64__)

[[gnu::target("avx2")]] inline __m256i load8(const uint8_t* in) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
}

[[gnu::target("avx2")]] inline __m256i load8(const int32_t* in) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
}

[[gnu::target("avx2")]] inline void store8(__m256i numbers, int32_t* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), numbers);
}

// 32 outputs at a time stay in registers while all their rows are added.
[[gnu::target("avx2")]] void rows_avx2(const uint8_t* in,
                                       int64_t stride,
                                       const int32_t* weights,
                                       int64_t count,
                                       int64_t width,
                                       int32_t* out) {
  int64_t x = 0;
  for (; x + 32 <= width; x += 32) {
    __m256i sums[4];
    for (__m256i& sum : sums) sum = _mm256_set1_epi32(kHalf);
    for (int64_t k = 0; k < count; ++k) {
      const __m256i weight = _mm256_set1_epi32(weights[k]);
      for (int part = 0; part < 4; ++part) {
        const __m256i value = load8(in + k * stride + x + 8 * part);
        sums[part] = _mm256_add_epi32(sums[part], _mm256_mullo_epi32(weight, value));
      }
    }
    for (int part = 0; part < 4; ++part) store8(sums[part], out + x + 8 * part);
  }
  rows(in + x, stride, weights, count, width - x, out + x);
}

// A register for each channel.
template <int kChannels>
[[gnu::target("avx2")]] void columns_avx2(const int32_t* in, const Taps& taps, int32_t* out) {
  constexpr int64_t kNumbers = kChannels * kRowsAtOnce;
  for (size_t i = 0; i < taps.first.size(); ++i, out += kNumbers) {
    const int32_t* from = in + taps.first[i] * kNumbers;
    const int32_t* weights = taps.weights_of(static_cast<int64_t>(i));
    __m256i sums[kChannels];
    for (__m256i& sum : sums) sum = _mm256_set1_epi32(kHalf);
    for (int64_t k = 0; k < taps.count[i]; ++k, from += kNumbers) {
      const __m256i weight = _mm256_set1_epi32(weights[k]);
      for (int c = 0; c < kChannels; ++c) {
        const __m256i value = load8(from + c * kRowsAtOnce);
        sums[c] = _mm256_add_epi32(sums[c], _mm256_mullo_epi32(weight, value));
      }
    }
    for (int c = 0; c < kChannels; ++c) store8(sums[c], out + c * kRowsAtOnce);
  }
}

__m128i load8_bytes(const uint8_t* in) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
}

void store16_bytes(__m128i bytes, uint8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
}

// out[x * 8 + r] = rows[r][x], for x < 8.
void transpose(const EightRows& rows, uint8_t* out) {
  const __m128i bytes01 = _mm_unpacklo_epi8(load8_bytes(rows[0]), load8_bytes(rows[1]));
  const __m128i bytes23 = _mm_unpacklo_epi8(load8_bytes(rows[2]), load8_bytes(rows[3]));
  const __m128i bytes45 = _mm_unpacklo_epi8(load8_bytes(rows[4]), load8_bytes(rows[5]));
  const __m128i bytes67 = _mm_unpacklo_epi8(load8_bytes(rows[6]), load8_bytes(rows[7]));
  const __m128i left_low = _mm_unpacklo_epi16(bytes01, bytes23);
  const __m128i left_high = _mm_unpackhi_epi16(bytes01, bytes23);
  const __m128i right_low = _mm_unpacklo_epi16(bytes45, bytes67);
  const __m128i right_high = _mm_unpackhi_epi16(bytes45, bytes67);
  store16_bytes(_mm_unpacklo_epi32(left_low, right_low), out);
  store16_bytes(_mm_unpackhi_epi32(left_low, right_low), out + 16);
  store16_bytes(_mm_unpacklo_epi32(left_high, right_high), out + 32);
  store16_bytes(_mm_unpackhi_epi32(left_high, right_high), out + 48);
}

#else

// out[x * 8 + r] = rows[r][x], for x < 8.
void transpose(const EightRows& rows, uint8_t* out) {
  for (int64_t x = 0; x < kRowsAtOnce; ++x) {
    for (const uint8_t* row : rows) *out++ = row[x];
  }
}

#endif

template <int kChannels>
void best_columns(const int32_t* in, const Taps& taps, int32_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return columns_avx2<kChannels>(in, taps, out);
#endif
  columns<kChannels>(in, taps, out);
}

}  // namespace

void sum_rows(const uint8_t* in,
              int64_t stride,
              const int32_t* weights,
              int64_t count,
              int64_t width,
              int32_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return rows_avx2(in, stride, weights, count, width, out);
#endif
  rows(in, stride, weights, count, width, out);
}

void interleave(const EightRows& rows, int64_t width, int32_t* out) {
  int64_t x = 0;
  for (; x + kRowsAtOnce <= width; x += kRowsAtOnce) {
    EightRows from = rows;
    for (const uint8_t*& row : from) row += x;
    uint8_t bytes[kRowsAtOnce * kRowsAtOnce];
    transpose(from, bytes);
    for (const uint8_t byte : bytes) *out++ = byte;
  }
  for (; x < width; ++x) {
    for (const uint8_t* row : rows) *out++ = row[x];
  }
}

void sum_columns(const int32_t* in, int64_t channels, const Taps& taps, int32_t* out) {
  with_constant(channels, [&](auto count) { best_columns<count>(in, taps, out); });
}

void separate(const int32_t* in, int64_t width, int64_t stride, uint8_t* out) {
  uint8_t bytes[kRowsAtOnce * kRowsAtOnce];
  uint8_t rows[kRowsAtOnce * kRowsAtOnce];
  for (int64_t x = 0; x < width; x += kRowsAtOnce) {
    const int64_t part = std::min(width - x, kRowsAtOnce);
    to_bytes(in + x * kRowsAtOnce, part * kRowsAtOnce, bytes);
    EightRows from;
    for (int64_t i = 0; i < kRowsAtOnce; ++i)
      from[static_cast<size_t>(i)] = bytes + i * kRowsAtOnce;
    transpose(from, rows);
    for (int64_t r = 0; r < kRowsAtOnce; ++r)
      std::copy_n(rows + r * kRowsAtOnce, part, out + r * stride + x);
  }
}

void to_bytes(const int32_t* in, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = static_cast<uint8_t>(std::clamp(in[i] >> kWeightBits, 0, 255));
}

}  // namespace gantrain
