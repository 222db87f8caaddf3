// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/modulation.h"

#include "cpu_kernels/act_slope.h"
#include "cpu_kernels/lanes.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// The terms of one plane.
struct Plane {
  float m, strength, bias;
  const float* noise;
};

Plane plane_of(const ActPlanes& how, int64_t p) {
  const int64_t n = p / how.channels, c = p % how.channels;
  Plane plane{how.scale, 0, 0, nullptr};
  if (how.d != nullptr) plane.m *= how.d[p];
  if (how.noise != nullptr) {
    plane.noise = how.noise + n * how.noise_stride;
    plane.strength = how.strength[c * how.strength_stride];
  }
  if (how.bias != nullptr) plane.bias = how.bias[c];
  return plane;
}

template <bool kNoise, bool kClamp>
void act_plane(
    const ActPlanes& how, const Plane& plane, const float* y, float* out, int64_t pixels) {
  const ActOf<kClamp> activation(how);
  each_vector(pixels, [&](int64_t i, auto access) {
    Vec u = access.get(y + i) * plane.m + plane.bias;
    if constexpr (kNoise) u += access.get(plane.noise + i) * plane.strength;
    access.put(out + i, activation(u));
  });
}

void act(const ActPlanes& how, const float* y, float* out, int64_t begin, int64_t end) {
  const bool clamped = clamps(how);
  for (int64_t p = begin; p < end; ++p) {
    const Plane plane = plane_of(how, p);
    const float* from = y + p * how.pixels;
    float* to = out + p * how.pixels;
    if (plane.noise != nullptr) {
      (clamped ? act_plane<true, true> : act_plane<true, false>)(how, plane, from, to, how.pixels);
    } else {
      (clamped ? act_plane<false, true>
               : act_plane<false, false>)(how, plane, from, to, how.pixels);
    }
  }
}

template <Slope kSlope, bool kY, bool kNoise>
void gradient_plane(const ActPlanes& how,
                    const ActSaved& saved,
                    const ActGradient& result,
                    int64_t p) {
  const SlopeAt<kSlope> slope(how);
  const Plane plane = plane_of(how, p);
  const int64_t first = p * how.pixels;
  const float* grad = saved.grad + first;
  const float* out = kSlope == Slope::kConstant ? nullptr : saved.out + first;
  const float* y = kY ? saved.y + first : nullptr;
  float* dy = result.y + first;
  Sum sum_y, sum_noise, sum;
  each_vector(
      how.pixels,
      [&](int64_t i, auto access) {
        const Vec du = access.get(grad + i) * slope(out, i, access);
        access.put(dy + i, du * plane.m);
        sum.lanes += du;
        if constexpr (kY) sum_y.lanes += du * access.get(y + i);
        if constexpr (kNoise) sum_noise.lanes += du * access.get(plane.noise + i);
      },
      [&] {
        sum.done();
        if constexpr (kY) sum_y.done();
        if constexpr (kNoise) sum_noise.done();
      });
  if (result.sum != nullptr) result.sum[p] = sum.total;
  if constexpr (kY) result.sum_y[p] = sum_y.total;
  if constexpr (kNoise) result.sum_noise[p] = sum_noise.total;
}

template <Slope kSlope>
void gradient_planes(const ActPlanes& how,
                     const ActSaved& saved,
                     const ActGradient& result,
                     int64_t begin,
                     int64_t end) {
  const bool y = result.sum_y != nullptr, noise = result.sum_noise != nullptr;
  const auto one =
      y ? (noise ? gradient_plane<kSlope, true, true> : gradient_plane<kSlope, true, false>)
        : (noise ? gradient_plane<kSlope, false, true> : gradient_plane<kSlope, false, false>);
  for (int64_t p = begin; p < end; ++p) one(how, saved, result, p);
}

void gradient(const ActPlanes& how,
              const ActSaved& saved,
              const ActGradient& result,
              int64_t begin,
              int64_t end) {
  switch (slope_of(how, saved.out)) {
    case Slope::kConstant:
      return gradient_planes<Slope::kConstant>(how, saved, result, begin, end);
    case Slope::kSigns:
      return gradient_planes<Slope::kSigns>(how, saved, result, begin, end);
    case Slope::kClamped:
      return gradient_planes<Slope::kClamped>(how, saved, result, begin, end);
  }
}

// kY: directions.y is there; kD: directions.d is there.
template <Slope kSlope, bool kY, bool kD, bool kNoise>
void second_plane(const ActPlanes& how,
                  const ActSaved& saved,
                  const ActDirections& v,
                  const ActSecond& result,
                  int64_t p) {
  const SlopeAt<kSlope> slope(how);
  const Plane plane = plane_of(how, p);
  const int64_t first = p * how.pixels, channel = p % how.channels;
  const float* grad = saved.grad + first;
  const float* out = kSlope == Slope::kConstant ? nullptr : saved.out + first;
  const float* y = kD ? saved.y + first : nullptr;
  const float* along_y = kY ? v.y + first : nullptr;
  const float along_d = kD ? v.d[p] * how.scale : 0;
  const float along_noise = kNoise ? v.strength[channel * how.strength_stride] : 0;
  const float along_bias = v.bias != nullptr ? v.bias[channel] : 0;
  float* to_y = result.y != nullptr ? result.y + first : nullptr;
  Sum sum_d;
  each_vector(
      how.pixels,
      [&](int64_t i, auto access) {
        const Vec c = slope(out, i, access);
        const Vec du = access.get(grad + i) * c;
        Vec along = all(along_bias);
        if constexpr (kNoise) along += access.get(plane.noise + i) * along_noise;
        if constexpr (kD) {
          along += access.get(y + i) * along_d;
          if (to_y != nullptr) access.put(to_y + i, du * along_d);
        }
        if constexpr (kY) {
          const Vec there = access.get(along_y + i);
          along += there * plane.m;
          sum_d.lanes += du * there;
        }
        access.put(result.grad + first + i, c * along);
      },
      [&] {
        if constexpr (kY) sum_d.done();
      });
  if (result.sum_d != nullptr) result.sum_d[p] = sum_d.total;
}

template <Slope kSlope>
void second_planes(const ActPlanes& how,
                   const ActSaved& saved,
                   const ActDirections& v,
                   const ActSecond& result,
                   int64_t begin,
                   int64_t end) {
  using OfPlane =
      void (*)(const ActPlanes&, const ActSaved&, const ActDirections&, const ActSecond&, int64_t);
  constexpr OfPlane kAll[2][2][2] = {
      {{second_plane<kSlope, false, false, false>, second_plane<kSlope, false, false, true>},
       {second_plane<kSlope, false, true, false>, second_plane<kSlope, false, true, true>}},
      {{second_plane<kSlope, true, false, false>, second_plane<kSlope, true, false, true>},
       {second_plane<kSlope, true, true, false>, second_plane<kSlope, true, true, true>}}};
  const OfPlane one = kAll[v.y != nullptr][v.d != nullptr][v.strength != nullptr];
  for (int64_t p = begin; p < end; ++p) one(how, saved, v, result, p);
}

void second(const ActPlanes& how,
            const ActSaved& saved,
            const ActDirections& directions,
            const ActSecond& result,
            int64_t begin,
            int64_t end) {
  switch (slope_of(how, saved.out)) {
    case Slope::kConstant:
      return second_planes<Slope::kConstant>(how, saved, directions, result, begin, end);
    case Slope::kSigns:
      return second_planes<Slope::kSigns>(how, saved, directions, result, begin, end);
    case Slope::kClamped:
      return second_planes<Slope::kClamped>(how, saved, directions, result, begin, end);
  }
}

// Rows are a convolution's k x k weights: as short as 9 or 1, and many.
template <int64_t kLength>
void products_of(
    const float* a, const float* b, float* sums, int64_t length, int64_t begin, int64_t end) {
  const int64_t n = kLength > 0 ? kLength : length;
  for (int64_t r = begin; r < end; ++r) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[r * n + i] * b[r * n + i];
    sums[r] = sum;
  }
}

void row_products(
    const float* a, const float* b, float* sums, int64_t length, int64_t begin, int64_t end) {
  (length == 9 ? products_of<9> : products_of<0>)(a, b, sums, length, begin, end);
}

template <int64_t kLength>
void scaled_by(const float* w,
               const float* by,
               float factor,
               float* out,
               int64_t length,
               int64_t begin,
               int64_t end) {
  const int64_t n = kLength > 0 ? kLength : length;
  for (int64_t r = begin; r < end; ++r) {
    const float g = factor * by[r];
    for (int64_t i = 0; i < n; ++i) out[r * n + i] = w[r * n + i] * g;
  }
}

void scaled_rows(const float* w,
                 const float* by,
                 float factor,
                 float* out,
                 int64_t length,
                 int64_t begin,
                 int64_t end) {
  (length == 9 ? scaled_by<9> : scaled_by<0>)(w, by, factor, out, length, begin, end);
}

}  // namespace

ActKernels channels_last_act_kernels();

ModulationKernels modulation_kernels() {
  return {{act, gradient, second}, channels_last_act_kernels(), row_products, scaled_rows};
}

}  // namespace gantrain::GANTRAIN_ISA
