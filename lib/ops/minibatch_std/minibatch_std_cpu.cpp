// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std/minibatch_std_cpu.h"

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

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
