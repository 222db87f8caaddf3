// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_act/bias_act_cpu.h"

#include <cmath>

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// An activation f: value(u) is f(u), slope(t) is f' as a function of t = f(u). Comparisons are
// written so that NaN goes where LibTorch lets it go.
struct Linear {
  static Vec value(Vec u, Vec) { return u; }
  static Vec slope(Vec, Vec) { return all(1); }
};
struct Relu {
  static Vec value(Vec u, Vec) { return u <= Vec{} ? Vec{} : u; }
  static Vec slope(Vec t, Vec) { return t > Vec{} ? all(1) : Vec{}; }
};
struct Lrelu {
  static Vec value(Vec u, Vec alpha) { return u > Vec{} ? u : u * alpha; }
  static Vec slope(Vec t, Vec alpha) { return t > Vec{} ? all(1) : alpha; }
};

// The numbers of a task in every lane.
struct Numbers {
  Vec alpha, gain, clamp;
  IntVec unclamped;  // all bits where nothing is clamped
};

Numbers numbers_of(const BiasActTask& task) {
  const bool free = std::isinf(task.clamp);
  return {all(task.alpha), all(task.gain), all(task.clamp), IntVec{} - static_cast<int32_t>(free)};
}

// 0 where |y| reached the clamp or is NaN; the clamp of infinity keeps everything.
Vec inside(Vec dx, Vec y, const Numbers& n) {
  return (magnitude(y) < n.clamp) | n.unclamped ? dx : Vec{};
}

// The two computations at one place. Arrays are read by take(array).
template <class Act>
struct Forward {
  const float* x;
  Numbers n;
  template <class Take>
  Vec operator()(const Take& take, Vec b) const {
    const Vec y = Act::value(take(x) + b, n.alpha) * n.gain;
    const Vec most = y > n.clamp ? n.clamp : y;
    return most < -n.clamp ? -n.clamp : most;
  }
};

template <class Act>
struct Gradient {
  const float *dy, *from;
  Numbers n;
  Vec inverse;  // 1 / gain
  template <class Take>
  Vec operator()(const Take& take, Vec) const {
    const Vec y = take(from);
    return inside(take(dy) * (Act::slope(y * inverse, n.alpha) * n.gain), y, n);
  }
};
struct Scaled {  // nothing was saved: the derivative is the gain everywhere
  const float* dy;
  Vec gain;
  template <class Take>
  Vec operator()(const Take& take, Vec) const {
    return take(dy) * gain;
  }
};

struct WholeAt {
  int64_t at;
  Vec operator()(const float* array) const { return load(array + at); }
};
struct PartAt {
  int64_t at, count;
  Vec operator()(const float* array) const { return load_some(array + at, count); }
};

// Units of a task, and what they are computed with beside the arrays.
struct Units {
  const BiasActTask& task;
  int64_t first, last;
  const float* b;
  float* sums;
};

float float_sum_of_lanes(Vec v) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

// Where results go: to an array, or nowhere if only their sums count.
struct Keep {
  float* to;
  void whole(int64_t at, Vec result) const { store(to + at, result); }
  void part(int64_t at, Vec result, int64_t count) const { store_some(to + at, result, count); }
};
struct Drop {
  void whole(int64_t, Vec) const {}
  void part(int64_t, Vec, int64_t) const {}
};

// Units of which each has one bias.
template <bool kSums, class Out, class Compute>
void each_run(const Units& units, const Out& out, const Compute& compute) {
  const BiasActTask& task = units.task;
  const float* b = units.b;
  const int64_t length = bias_act_units(task).numbers;
  const int64_t each = (task.inner + length - 1) / length;
  for (int64_t unit = units.first; unit < units.last; ++unit) {
    const int64_t run = unit / each, begin = (unit - run * each) * length;
    const int64_t end = begin + length < task.inner ? begin + length : task.inner;
    const int64_t stop = run * task.inner + end;
    const Vec bias = b == nullptr ? Vec{} : all(b[run % task.channels]);
    Vec sum{};
    int64_t at = run * task.inner + begin;
    for (; at + kLanes <= stop; at += kLanes) {
      const Vec result = compute(WholeAt{at}, bias);
      out.whole(at, result);
      if constexpr (kSums) sum += result;
    }
    if (at < stop) {
      const Vec result = compute(PartAt{at, stop - at}, bias);
      out.part(at, result, stop - at);
      // The lanes behind the end may hold anything.
      if constexpr (kSums) {
        for (int64_t i = 0; i < stop - at; ++i) sum[i] += result[i];
      }
    }
    if constexpr (kSums) units.sums[unit] = float_sum_of_lanes(sum);
  }
}

// Units of rows, in which each column has its bias.
template <bool kSums, class Out, class Compute>
void each_column(const Units& range, const Out& out, const Compute& compute) {
  const BiasActTask& task = range.task;
  const float* b = range.b;
  const BiasActUnits units = bias_act_units(task);
  const int64_t total = task.outer * task.channels;
  for (int64_t unit = range.first; unit < range.last; ++unit) {
    float* sum = kSums ? range.sums + unit * units.columns : nullptr;
    if constexpr (kSums) std::memset(sum, 0, sizeof(float) * units.columns);
    const int64_t begin = unit * units.numbers;
    const int64_t stop = begin + units.numbers < total ? begin + units.numbers : total;
    for (int64_t row = begin; row < stop; row += units.columns) {
      const int64_t length = stop - row < units.columns ? stop - row : units.columns;
      int64_t i = 0;
      for (; i + kLanes <= length; i += kLanes) {
        const Vec result = compute(WholeAt{row + i}, b == nullptr ? Vec{} : load(b + i));
        out.whole(row + i, result);
        if constexpr (kSums) store(sum + i, load(sum + i) + result);
      }
      if (i < length) {
        const int64_t rest = length - i;
        const Vec result =
            compute(PartAt{row + i, rest}, b == nullptr ? Vec{} : load_some(b + i, rest));
        out.part(row + i, result, rest);
        if constexpr (kSums) store_some(sum + i, load_some(sum + i, rest) + result, rest);
      }
    }
  }
}

template <bool kSums, class Out, class Compute>
void each_unit(const Units& units, const Out& out, const Compute& compute) {
  if (units.task.inner > 1)
    each_run<kSums>(units, out, compute);
  else
    each_column<kSums>(units, out, compute);
}

template <class Compute>
void compute_units(const Units& units, float* out, const Compute& compute) {
  if (units.sums != nullptr)
    each_unit<true>(units, Keep{out}, compute);
  else
    each_unit<false>(units, Keep{out}, compute);
}

// Calls body(f) with the activation f.
template <class Body>
void with_activation(Activation act, const Body& body) {
  if (act == Activation::kLinear) return body(Linear{});
  if (act == Activation::kRelu) return body(Relu{});
  body(Lrelu{});
}

void forward(
    const BiasActTask& how, const float* x, const float* b, float* y, int64_t first, int64_t last) {
  with_activation(how.act, [&](auto act) {
    compute_units({how, first, last, b, nullptr}, y, Forward<decltype(act)>{x, numbers_of(how)});
  });
}

void gradient(const BiasActTask& task,
              const float* dy,
              const float* y,
              float* dx,
              float* sums,
              int64_t first,
              int64_t last) {
  const Units units{task, first, last, nullptr, sums};
  const Vec inverse = all(1 / task.gain);
  if (y == nullptr) {
    const Scaled scaled{dy, all(task.gain)};
    if (dx == nullptr) return each_unit<true>(units, Drop{}, scaled);
    return compute_units(units, dx, scaled);
  }
  with_activation(task.act, [&](auto act) {
    compute_units(units, dx, Gradient<decltype(act)>{dy, y, numbers_of(task), inverse});
  });
}

}  // namespace

BiasActKernels bias_act_kernels() { return {forward, gradient}; }

}  // namespace gantrain::GANTRAIN_ISA
