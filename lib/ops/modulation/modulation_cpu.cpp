// SPDX-License-Identifier: Apache-2.0
#include "ops/modulation/modulation_cpu.h"

#include <cmath>

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

// The activation of ActPlanes, lane by lane, and its derivative.

inline bool clamps(const ActPlanes& how) { return !std::isinf(how.clamp); }

// out as a function of u. What is not a number stays so.
template <bool kClamp>
struct ActOf {
  explicit ActOf(const ActPlanes& how)
      : positive(all(how.gain)), negative(all(how.gain * how.alpha)), most(all(how.clamp)) {}

  Vec operator()(Vec u) const {
    Vec t = u * (u > 0 ? positive : negative);
    if constexpr (kClamp) {
      t = t > most ? most : t;
      t = t < -most ? -most : t;
    }
    return t;
  }

  Vec positive, negative, most;
};

// c = d out / d u, from out.
enum class Slope { kConstant, kSigns, kClamped };

inline Slope slope_of(const ActPlanes& how, const float* out) {
  if (out == nullptr) return Slope::kConstant;
  return clamps(how) ? Slope::kClamped : Slope::kSigns;
}

// Calls use.operator()<slope>().
template <class Use>
void with_slope(Slope slope, const Use& use) {
  switch (slope) {
    case Slope::kConstant:
      return use.template operator()<Slope::kConstant>();
    case Slope::kSigns:
      return use.template operator()<Slope::kSigns>();
    case Slope::kClamped:
      return use.template operator()<Slope::kClamped>();
  }
}

template <Slope kSlope>
struct SlopeAt {
  explicit SlopeAt(const ActPlanes& how)
      : positive(all(how.gain)), negative(all(how.gain * how.alpha)), clamp(all(how.clamp)) {}

  template <class Access>
  Vec operator()(const float* out, int64_t i, Access access) const {
    if constexpr (kSlope == Slope::kConstant) return positive;
    const Vec t = access.get(out + i);
    Vec c = t > 0 ? positive : negative;
    // Equality is outside: a clamped value cannot be told from one just there.
    if constexpr (kSlope == Slope::kClamped) {
      c = t < clamp ? c : Vec{};
      c = t > -clamp ? c : Vec{};
    }
    return c;
  }

  Vec positive, negative, clamp;
};

// The activation of modulation.h for maps whose channels lie side by side: the terms of channels
// are vectors, and noise is one number a pixel.

namespace {

// Channels whose terms and sums are held at once.
constexpr int64_t kChannels = 512;

struct PixelPart {
  PixelPart(const ActPlanes& how, int64_t i) {
    const int64_t parts = (how.pixels + kPixelPart - 1) / kPixelPart;
    sample = i / parts;
    first = i % parts * kPixelPart;
    count = how.pixels - first < kPixelPart ? how.pixels - first : kPixelPart;
    offset = (sample * how.pixels + first) * how.channels;
  }
  const float* noise(const ActPlanes& how) const {
    return how.noise == nullptr ? nullptr : how.noise + sample * how.noise_stride + first;
  }
  int64_t sample, first, count, offset;
};

// The terms of the channels [begin, begin + count) of a sample.
struct Terms {
  float m[kChannels], strength[kChannels], bias[kChannels];
};

void fill(Terms& terms, const ActPlanes& how, int64_t sample, int64_t begin, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = begin + i;
    terms.m[i] = how.d == nullptr ? how.scale : how.scale * how.d[sample * how.channels + c];
    terms.strength[i] = how.noise == nullptr ? 0 : how.strength[c * how.strength_stride];
    terms.bias[i] = how.bias == nullptr ? 0 : how.bias[c];
  }
}

// Calls body(first channel, channels) for blocks of channels.
template <class Body>
void each_block(const ActPlanes& how, const Body& body) {
  for (int64_t begin = 0; begin < how.channels; begin += kChannels) {
    const int64_t left = how.channels - begin;
    body(begin, left < kChannels ? left : kChannels);
  }
}

template <bool kClamp>
void act_part(const ActPlanes& how, const float* y, float* out, int64_t i) {
  const PixelPart part(how, i);
  const ActOf<kClamp> activation(how);
  const float* noise = part.noise(how);
  Terms terms;
  each_block(how, [&](int64_t begin, int64_t count) {
    fill(terms, how, part.sample, begin, count);
    for (int64_t p = 0; p < part.count; ++p) {
      const int64_t at = part.offset + p * how.channels + begin;
      const float added = noise == nullptr ? 0 : noise[p];
      each_vector(count, [&](int64_t c, auto access) {
        const Vec u = access.get(y + at + c) * access.get(terms.m + c) +
                      access.get(terms.bias + c) + access.get(terms.strength + c) * added;
        access.put(out + at + c, activation(u));
      });
    }
  });
}

void act_of_parts(const ActPlanes& how, const float* y, float* out, int64_t begin, int64_t end) {
  const auto one = clamps(how) ? act_part<true> : act_part<false>;
  for (int64_t i = begin; i < end; ++i) one(how, y, out, i);
}

// Sums over a part's pixels, one for each channel.
struct Sums {
  float of[kChannels];

  void clear() { std::memset(of, 0, sizeof of); }
  template <class Access>
  void add(int64_t c, Vec v, Access access) {
    access.put(of + c, access.get(of + c) + v);
  }
  void write(double* to, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(of[i]);
  }
};

template <Slope kSlope>
void gradient_part(const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t i) {
  const PixelPart part(how, i);
  const SlopeAt<kSlope> slope(how);
  const float* noise = part.noise(how);
  Terms terms;
  Sums sum_y, sum_noise, sum;
  each_block(how, [&](int64_t begin, int64_t count) {
    fill(terms, how, part.sample, begin, count);
    sum_y.clear();
    sum_noise.clear();
    sum.clear();
    for (int64_t p = 0; p < part.count; ++p) {
      const int64_t at = part.offset + p * how.channels + begin;
      each_vector(count, [&](int64_t c, auto access) {
        const Vec du = access.get(in.grad + at + c) * slope(in.out, at + c, access);
        access.put(to.y + at + c, du * access.get(terms.m + c));
        if (to.sum != nullptr) sum.add(c, du, access);
        if (to.sum_y != nullptr) sum_y.add(c, du * access.get(in.y + at + c), access);
        if (to.sum_noise != nullptr) sum_noise.add(c, du * noise[p], access);
      });
    }
    const int64_t at = i * how.channels + begin;
    if (to.sum != nullptr) sum.write(to.sum + at, count);
    if (to.sum_y != nullptr) sum_y.write(to.sum_y + at, count);
    if (to.sum_noise != nullptr) sum_noise.write(to.sum_noise + at, count);
  });
}

void gradient_of_parts(
    const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t begin, int64_t end) {
  with_slope(slope_of(how, in.out), [&]<Slope kSlope>() {
    for (int64_t i = begin; i < end; ++i) gradient_part<kSlope>(how, in, to, i);
  });
}

// The directions of a block of channels; those that are not there are 0.
struct Along {
  float d[kChannels], strength[kChannels], bias[kChannels];
};

void fill(Along& along,
          const ActPlanes& how,
          const ActDirections& v,
          int64_t sample,
          int64_t begin,
          int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = begin + i;
    along.d[i] = v.d == nullptr ? 0 : how.scale * v.d[sample * how.channels + c];
    along.strength[i] = v.strength == nullptr ? 0 : v.strength[c * how.strength_stride];
    along.bias[i] = v.bias == nullptr ? 0 : v.bias[c];
  }
}

template <Slope kSlope>
void second_part(const ActPlanes& how,
                 const ActSaved& saved,
                 const ActDirections& v,
                 const ActSecond& result,
                 int64_t i) {
  const PixelPart part(how, i);
  const SlopeAt<kSlope> slope(how);
  const float* noise = v.strength != nullptr ? part.noise(how) : nullptr;
  Terms terms;
  Along along;
  Sums sum_d;
  each_block(how, [&](int64_t begin, int64_t count) {
    fill(terms, how, part.sample, begin, count);
    fill(along, how, v, part.sample, begin, count);
    sum_d.clear();
    for (int64_t p = 0; p < part.count; ++p) {
      const int64_t at = part.offset + p * how.channels + begin;
      const float of_noise = noise == nullptr ? 0 : noise[p];
      each_vector(count, [&](int64_t c, auto access) {
        const Vec bent = slope(saved.out, at + c, access);
        const Vec du = access.get(saved.grad + at + c) * bent;
        Vec sum = access.get(along.bias + c) + access.get(along.strength + c) * of_noise;
        if (v.d != nullptr) {
          const Vec of_d = access.get(along.d + c);
          sum += access.get(saved.y + at + c) * of_d;
          if (result.y != nullptr) access.put(result.y + at + c, du * of_d);
        }
        if (v.y != nullptr) {
          const Vec of_y = access.get(v.y + at + c);
          sum += of_y * access.get(terms.m + c);
          if (result.sum_d != nullptr) sum_d.add(c, du * of_y, access);
        }
        access.put(result.grad + at + c, bent * sum);
      });
    }
    if (result.sum_d != nullptr) sum_d.write(result.sum_d + i * how.channels + begin, count);
  });
}

void second_of_parts(const ActPlanes& how,
                     const ActSaved& saved,
                     const ActDirections& directions,
                     const ActSecond& result,
                     int64_t begin,
                     int64_t end) {
  with_slope(slope_of(how, saved.out), [&]<Slope kSlope>() {
    for (int64_t i = begin; i < end; ++i) second_part<kSlope>(how, saved, directions, result, i);
  });
}

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
void gradient_plane(const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t p) {
  const SlopeAt<kSlope> slope(how);
  const Plane plane = plane_of(how, p);
  const int64_t first = p * how.pixels;
  const float* grad = in.grad + first;
  const float* out = kSlope == Slope::kConstant ? nullptr : in.out + first;
  const float* y = kY ? in.y + first : nullptr;
  float* dy = to.y + first;
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
  if (to.sum != nullptr) to.sum[p] = sum.total;
  if constexpr (kY) to.sum_y[p] = sum_y.total;
  if constexpr (kNoise) to.sum_noise[p] = sum_noise.total;
}

template <Slope kSlope>
void gradient_planes(
    const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t begin, int64_t end) {
  const bool y = to.sum_y != nullptr, noise = to.sum_noise != nullptr;
  const auto one =
      y ? (noise ? gradient_plane<kSlope, true, true> : gradient_plane<kSlope, true, false>)
        : (noise ? gradient_plane<kSlope, false, true> : gradient_plane<kSlope, false, false>);
  for (int64_t p = begin; p < end; ++p) one(how, in, to, p);
}

void gradient(
    const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t begin, int64_t end) {
  with_slope(slope_of(how, in.out),
             [&]<Slope kSlope>() { gradient_planes<kSlope>(how, in, to, begin, end); });
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
  with_slope(slope_of(how, saved.out), [&]<Slope kSlope>() {
    second_planes<kSlope>(how, saved, directions, result, begin, end);
  });
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

ModulationKernels modulation_kernels() {
  return {{act, gradient, second},
          {act_of_parts, gradient_of_parts, second_of_parts},
          row_products,
          scaled_rows};
}

}  // namespace gantrain::GANTRAIN_ISA
