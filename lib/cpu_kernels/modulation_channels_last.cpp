// SPDX-License-Identifier: Apache-2.0
// The activation of modulation.h for maps whose channels lie side by side: the terms of channels
// are vectors, and noise is one number a pixel.
#include "cpu_kernels/act_slope.h"
#include "cpu_kernels/lanes.h"
#include "cpu_kernels/modulation.h"

namespace gantrain::GANTRAIN_ISA {

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

void act(const ActPlanes& how, const float* y, float* out, int64_t begin, int64_t end) {
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
void gradient_part(const ActPlanes& how,
                   const ActSaved& saved,
                   const ActGradient& result,
                   int64_t i) {
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
        const Vec du = access.get(saved.grad + at + c) * slope(saved.out, at + c, access);
        access.put(result.y + at + c, du * access.get(terms.m + c));
        if (result.sum != nullptr) sum.add(c, du, access);
        if (result.sum_y != nullptr) sum_y.add(c, du * access.get(saved.y + at + c), access);
        if (result.sum_noise != nullptr) sum_noise.add(c, du * noise[p], access);
      });
    }
    const int64_t to = i * how.channels + begin;
    if (result.sum != nullptr) sum.write(result.sum + to, count);
    if (result.sum_y != nullptr) sum_y.write(result.sum_y + to, count);
    if (result.sum_noise != nullptr) sum_noise.write(result.sum_noise + to, count);
  });
}

void gradient(const ActPlanes& how,
              const ActSaved& saved,
              const ActGradient& result,
              int64_t begin,
              int64_t end) {
  const Slope kind = slope_of(how, saved.out);
  const auto one = kind == Slope::kConstant ? gradient_part<Slope::kConstant>
                   : kind == Slope::kSigns  ? gradient_part<Slope::kSigns>
                                            : gradient_part<Slope::kClamped>;
  for (int64_t i = begin; i < end; ++i) one(how, saved, result, i);
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

void second(const ActPlanes& how,
            const ActSaved& saved,
            const ActDirections& directions,
            const ActSecond& result,
            int64_t begin,
            int64_t end) {
  const Slope kind = slope_of(how, saved.out);
  const auto one = kind == Slope::kConstant ? second_part<Slope::kConstant>
                   : kind == Slope::kSigns  ? second_part<Slope::kSigns>
                                            : second_part<Slope::kClamped>;
  for (int64_t i = begin; i < end; ++i) one(how, saved, directions, result, i);
}

}  // namespace

ActKernels channels_last_act_kernels() { return {act, gradient, second}; }

}  // namespace gantrain::GANTRAIN_ISA
