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

void adain(const NormMaps& how,
           const AdainInput& input,
           const AdainOutput& output,
           int64_t begin,
           int64_t end) {
  const auto count = static_cast<double>(how.pixels);
  for (int64_t p = begin; p < end; ++p) {
    const float* x = input.x + p * how.pixels;
    float* to = output.out + p * how.pixels;
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
    const float factor = inverse * (1 + input.style[style.scale]);
    const float shift = input.style[style.shift];
    each_vector(how.pixels, [&](int64_t i, auto access) {
      access.put(to + i, (access.get(x + i) - mean) * factor + shift);
    });
    output.mean[p] = mean;
    output.inverse[p] = inverse;
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

}  // namespace gantrain::GANTRAIN_ISA
