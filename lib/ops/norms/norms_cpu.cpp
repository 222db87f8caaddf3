// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms_cpu.h"

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

struct Band {
  Band(const NormMaps& how, int64_t i) {
    const int64_t bands = (how.pixels + kPixelBand - 1) / kPixelBand;
    const int64_t first = i % bands * kPixelBand;
    begin = i / bands * how.channels * how.pixels + first;
    count = how.pixels - first < kPixelBand ? how.pixels - first : kPixelBand;
  }
  int64_t begin;  // of the first channel's first pixel in x
  int64_t count;  // of pixels
};

// Adds a * b over the channels, for each pixel of the band.
void add_products(
    const NormMaps& how, const Band& band, const float* a, const float* b, float* sums) {
  std::memset(sums, 0, kPixelBand * sizeof(float));
  for (int64_t c = 0; c < how.channels; ++c) {
    const int64_t row = band.begin + c * how.pixels;
    each_vector(band.count, [&](int64_t i, auto access) {
      store(sums + i, load(sums + i) + access.get(a + row + i) * access.get(b + row + i));
    });
  }
}

// The factor of each pixel, 1 / sqrt(mean + eps).
void inverse_roots(const NormMaps& how, const float* squares, float* inverse) {
  const float share = 1 / static_cast<float>(how.channels);
  for (int64_t i = 0; i < kPixelBand; i += kLanes)
    store(inverse + i, 1 / square_root(load(squares + i) * share + how.eps));
}

void pixel_norm(const NormMaps& how, const float* x, float* out, int64_t begin, int64_t end) {
  float sums[kPixelBand], inverse[kPixelBand];
  for (int64_t b = begin; b < end; ++b) {
    const Band band(how, b);
    add_products(how, band, x, x, sums);
    inverse_roots(how, sums, inverse);
    for (int64_t c = 0; c < how.channels; ++c) {
      const int64_t row = band.begin + c * how.pixels;
      each_vector(band.count, [&](int64_t i, auto access) {
        access.put(out + row + i, access.get(x + row + i) * load(inverse + i));
      });
    }
  }
}

// With r = 1 / sqrt(mean(x^2) + eps): dx = r dout - x r^3 mean(dout x).
void pixel_norm_gradient(
    const NormMaps& how, const float* dout, const float* x, float* dx, int64_t begin, int64_t end) {
  float squares[kPixelBand], products[kPixelBand], inverse[kPixelBand];
  const float share = 1 / static_cast<float>(how.channels);
  for (int64_t b = begin; b < end; ++b) {
    const Band band(how, b);
    std::memset(squares, 0, sizeof squares);
    std::memset(products, 0, sizeof products);
    for (int64_t c = 0; c < how.channels; ++c) {
      const int64_t row = band.begin + c * how.pixels;
      each_vector(band.count, [&](int64_t i, auto access) {
        const Vec v = access.get(x + row + i);
        store(squares + i, load(squares + i) + v * v);
        store(products + i, load(products + i) + v * access.get(dout + row + i));
      });
    }
    inverse_roots(how, squares, inverse);
    for (int64_t i = 0; i < kPixelBand; i += kLanes) {
      const Vec r = load(inverse + i);
      store(products + i, load(products + i) * share * r * r * r);
    }
    for (int64_t c = 0; c < how.channels; ++c) {
      const int64_t row = band.begin + c * how.pixels;
      each_vector(band.count, [&](int64_t i, auto access) {
        access.put(dx + row + i,
                   access.get(dout + row + i) * load(inverse + i) -
                       access.get(x + row + i) * load(products + i));
      });
    }
  }
}

struct StyleOf {
  StyleOf(const NormMaps& how, int64_t p)
      : scale(p / how.channels * 2 * how.channels + p % how.channels),
        shift(scale + how.channels) {}
  int64_t scale, shift;  // where they lie in a style
};

void adain(
    const NormMaps& how, const AdainInput& in, const AdainOutput& to, int64_t begin, int64_t end) {
  const auto count = static_cast<double>(how.pixels);
  for (int64_t p = begin; p < end; ++p) {
    const float* x = in.x + p * how.pixels;
    float* out = to.out + p * how.pixels;
    Sum sum, squares;
    each_vector(
        how.pixels,
        [&](int64_t i, auto access) { sum.lanes += access.get(x + i); },
        [&] { sum.done(); });
    const auto mean = static_cast<float>(sum.total / count);
    each_vector(
        how.pixels,
        [&](int64_t i, auto access) {
          float centred[kLanes];  // lanes past the end must not count
          store(centred, access.get(x + i) - mean);
          const Vec v = access.get(centred);
          squares.lanes += v * v;
        },
        [&] { squares.done(); });
    const float inverse = 1 / std::sqrt(static_cast<float>(squares.total / count) + how.eps);
    const StyleOf style(how, p);
    const float factor = inverse * (1 + in.style[style.scale]);
    const float shift = in.style[style.shift];
    each_vector(how.pixels, [&](int64_t i, auto access) {
      access.put(out + i, (access.get(x + i) - mean) * factor + shift);
    });
    to.mean[p] = mean;
    to.inverse[p] = inverse;
  }
}

// With n = (x - mean) * inverse: dx = inverse (1 + scale) (dout - mean(dout) - n mean(dout n)).
void adain_gradient(const NormMaps& how,
                    const AdainInput& input,
                    const AdainMoments& moments,
                    const float* dout,
                    const AdainGradient& result,
                    int64_t begin,
                    int64_t end) {
  const auto count = static_cast<double>(how.pixels);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * how.pixels;
    const float* x = input.x + first;
    const float* dy = dout + first;
    const float mean = moments.mean[p], inverse = moments.inverse[p];
    Sum sum, products;
    each_vector(
        how.pixels,
        [&](int64_t i, auto access) {
          const Vec v = access.get(dy + i);
          sum.lanes += v;
          products.lanes += v * ((access.get(x + i) - mean) * inverse);
        },
        [&] {
          sum.done();
          products.done();
        });
    const StyleOf style(how, p);
    result.style[style.scale] = static_cast<float>(products.total);
    result.style[style.shift] = static_cast<float>(sum.total);
    const float factor = inverse * (1 + input.style[style.scale]);
    const auto of_sum = static_cast<float>(sum.total / count);
    const auto of_products = static_cast<float>(products.total / count) * inverse;
    each_vector(how.pixels, [&](int64_t i, auto access) {
      const Vec centred = access.get(x + i) - mean;
      access.put(result.x + first + i,
                 (access.get(dy + i) - of_sum - centred * of_products) * factor);
    });
  }
}

}  // namespace

NormKernels norm_kernels() { return {pixel_norm, pixel_norm_gradient, adain, adain_gradient}; }

namespace {

// Where a cell's numbers lie in x and in the result, of its group's first sample; from one sample
// of the group to the next they are in_step and out_step further.
struct Cell {
  Cell(const MinibatchStd& how, int64_t i)
      : in_step(how.groups * how.parts * how.length),
        out_step(how.groups * how.parts * (how.length + how.pixels)) {
    const int64_t m = i / how.parts, part = i % how.parts;
    in = m * how.parts * how.length + part * how.length;
    out = m * how.parts * (how.length + how.pixels) + part * how.length;
    map = m * how.parts * (how.length + how.pixels) + how.parts * how.length + part * how.pixels;
  }

  int64_t in_step, out_step;
  int64_t in, out, map;
};

// Mean and variance over a group of one vector's numbers. The mean is mean + rest: where a group's
// numbers are nearly equal, a float32 mean alone is as far off as they are apart.
struct Moments {
  Vec mean, rest, variance;

  Vec centred(Vec x) const { return (x - mean) - rest; }
};

template <class Access>
Moments moments_of(const MinibatchStd& how, const float* x, int64_t step, Access access) {
  const auto g = static_cast<float>(how.g);
  Moments m{};
  for (int64_t j = 0; j < how.g; ++j) m.mean += access.get(x + j * step);
  m.mean /= g;
  for (int64_t j = 0; j < how.g; ++j) m.rest += access.get(x + j * step) - m.mean;
  m.rest /= g;
  for (int64_t j = 0; j < how.g; ++j) {
    const Vec centred = m.centred(access.get(x + j * step));
    m.variance += centred * centred;
  }
  m.variance /= g;
  return m;
}

void forward(const MinibatchStd& how, const float* x, float* out, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Cell cell(how, c);
    Sum sum;
    each_vector(
        how.length,
        [&](int64_t i, auto access) {
          const float* from = x + cell.in + i;
          const Vec variance = moments_of(how, from, cell.in_step, access).variance;
          // Lanes past the end must not count.
          float roots[kLanes];
          store(roots, square_root(variance + how.eps));
          sum.lanes += access.get(roots);
          for (int64_t j = 0; j < how.g; ++j)
            access.put(out + cell.out + j * cell.out_step + i, access.get(from + j * cell.in_step));
        },
        [&] { sum.done(); });
    const auto deviation = static_cast<float>(sum.total / static_cast<double>(how.length));
    for (int64_t j = 0; j < how.g; ++j) {
      float* map = out + cell.map + j * cell.out_step;
      each_vector(how.pixels, [&](int64_t i, auto access) { access.put(map + i, all(deviation)); });
    }
  }
}

// d deviation / d x = (x - mean) / (sqrt(variance + eps) g length).
void gradient(const MinibatchStd& how,
              const float* dout,
              const float* x,
              float* dx,
              int64_t begin,
              int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Cell cell(how, c);
    Sum sum;
    for (int64_t j = 0; j < how.g; ++j) {
      const float* map = dout + cell.map + j * cell.out_step;
      each_vector(
          how.pixels,
          [&](int64_t i, auto access) { sum.lanes += access.get(map + i); },
          [&] { sum.done(); });
    }
    const auto factor = static_cast<float>(sum.total / static_cast<double>(how.g * how.length));
    each_vector(how.length, [&](int64_t i, auto access) {
      const float* from = x + cell.in + i;
      const Moments moments = moments_of(how, from, cell.in_step, access);
      const Vec slope = factor / square_root(moments.variance + how.eps);
      for (int64_t j = 0; j < how.g; ++j) {
        const Vec centred = moments.centred(access.get(from + j * cell.in_step));
        access.put(dx + cell.in + j * cell.in_step + i,
                   access.get(dout + cell.out + j * cell.out_step + i) + centred * slope);
      }
    });
  }
}

}  // namespace

MinibatchStdKernels minibatch_std_kernels() { return {forward, gradient}; }

}  // namespace gantrain::GANTRAIN_ISA
