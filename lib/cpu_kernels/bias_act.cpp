// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/bias_act.h"

#include <cmath>

#include "cpu_kernels/vector_math.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// An activation f: value(u) is f(u), slope(t) is f' as a function of t = f(u), and bend(t) is the
// derivative of that by t. Comparisons are written so that NaN goes where LibTorch lets it go.
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
struct Tanh {
  static Vec value(Vec u, Vec) { return tanh(u); }
  static Vec slope(Vec t, Vec) { return 1.F - t * t; }
  static Vec bend(Vec t) { return -2.F * t; }
};
struct Sigmoid {
  static Vec value(Vec u, Vec) { return sigmoid(u); }
  static Vec slope(Vec t, Vec) { return t * (1.F - t); }
  static Vec bend(Vec t) { return 1.F - 2.F * t; }
};
struct Elu {
  static Vec value(Vec u, Vec) { return u > Vec{} ? u : expm1_of_negative(u); }
  static Vec slope(Vec t, Vec) { return (t > Vec{} ? Vec{} : t) + 1.F; }
  static Vec bend(Vec t) { return t < Vec{} ? all(1) : Vec{}; }
};
struct Selu {
  static constexpr auto kScale = static_cast<float>(kSeluScale);
  static constexpr auto kBoth = static_cast<float>(kSeluScale * kSeluAlpha);
  static Vec value(Vec u, Vec) { return u > Vec{} ? u * kScale : expm1_of_negative(u) * kBoth; }
  static Vec slope(Vec t, Vec) { return t > Vec{} ? all(kScale) : t + kBoth; }
  static Vec bend(Vec t) { return t < Vec{} ? all(1) : Vec{}; }
};
struct Softplus {
  static Vec value(Vec u, Vec) {
    const Vec positive = u < Vec{} ? Vec{} : u;
    return positive + log1p_of_small(exp(-magnitude(u)));
  }
  static Vec slope(Vec t, Vec) { return -expm1_of_negative(-t); }
  static Vec bend(Vec t) { return exp(-t); }
};
struct Swish {
  static Vec value(Vec u, Vec) { return u * sigmoid(u); }
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

// The three computations at one place. Arrays are read by take(array).
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
template <>
struct Gradient<Swish> {
  const float *dy, *from;
  Numbers n;
  Vec inverse;
  template <class Take>
  Vec operator()(const Take& take, Vec b) const {
    const Vec u = take(from) + b, s = sigmoid(u);
    return inside(take(dy) * (s * (1.F + u * (1.F - s)) * n.gain), u * s * n.gain, n);
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

template <class Act>
struct Bent {
  const float *v, *dy, *from;
  Numbers n;
  Vec inverse;
  template <class Take>
  Vec operator()(const Take& take, Vec) const {
    const Vec y = take(from);
    return inside(take(v) * take(dy) * Act::bend(y * inverse), y, n);
  }
};
template <>
struct Bent<Swish> {
  const float *v, *dy, *from;
  Numbers n;
  Vec inverse;
  template <class Take>
  Vec operator()(const Take& take, Vec b) const {
    const Vec u = take(from) + b, s = sigmoid(u);
    const Vec bend = s * (1.F - s) * (2.F + u * (1.F - 2.F * s)) * n.gain;
    return inside(take(v) * take(dy) * bend, u * s * n.gain, n);
  }
};

struct Whole {
  int64_t at;
  Vec operator()(const float* array) const { return load(array + at); }
};
struct Part {
  int64_t at, count;
  Vec operator()(const float* array) const { return load_some(array + at, count); }
};

struct Range {
  int64_t first, last;
};

float sum_of_lanes(Vec v) {
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
void each_run(const BiasActTask& task,
              Range units,
              const float* b,
              const Out& out,
              float* sums,
              const Compute& compute) {
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
      const Vec result = compute(Whole{at}, bias);
      out.whole(at, result);
      if constexpr (kSums) sum += result;
    }
    if (at < stop) {
      const Vec result = compute(Part{at, stop - at}, bias);
      out.part(at, result, stop - at);
      // The lanes behind the end may hold anything.
      if constexpr (kSums) {
        for (int64_t i = 0; i < stop - at; ++i) sum[i] += result[i];
      }
    }
    if constexpr (kSums) sums[unit] = sum_of_lanes(sum);
  }
}

// Units of rows, in which each column has its bias.
template <bool kSums, class Out, class Compute>
void each_column(const BiasActTask& task,
                 Range range,
                 const float* b,
                 const Out& out,
                 float* sums,
                 const Compute& compute) {
  const BiasActUnits units = bias_act_units(task);
  const int64_t total = task.outer * task.channels;
  for (int64_t unit = range.first; unit < range.last; ++unit) {
    float* sum = kSums ? sums + unit * units.columns : nullptr;
    if constexpr (kSums) std::memset(sum, 0, sizeof(float) * units.columns);
    const int64_t begin = unit * units.numbers;
    const int64_t stop = begin + units.numbers < total ? begin + units.numbers : total;
    for (int64_t row = begin; row < stop; row += units.columns) {
      const int64_t length = stop - row < units.columns ? stop - row : units.columns;
      int64_t i = 0;
      for (; i + kLanes <= length; i += kLanes) {
        const Vec result = compute(Whole{row + i}, b == nullptr ? Vec{} : load(b + i));
        out.whole(row + i, result);
        if constexpr (kSums) store(sum + i, load(sum + i) + result);
      }
      if (i < length) {
        const int64_t rest = length - i;
        const Vec result =
            compute(Part{row + i, rest}, b == nullptr ? Vec{} : load_some(b + i, rest));
        out.part(row + i, result, rest);
        if constexpr (kSums) store_some(sum + i, load_some(sum + i, rest) + result, rest);
      }
    }
  }
}

template <bool kSums, class Out, class Compute>
void each_unit(const BiasActTask& task,
               Range units,
               const float* b,
               const Out& out,
               float* sums,
               const Compute& compute) {
  if (task.inner > 1)
    each_run<kSums>(task, units, b, out, sums, compute);
  else
    each_column<kSums>(task, units, b, out, sums, compute);
}

template <class Compute>
void compute_units(const BiasActTask& task,
                   Range units,
                   const float* b,
                   float* out,
                   float* sums,
                   const Compute& compute) {
  if (sums != nullptr)
    each_unit<true>(task, units, b, Keep{out}, sums, compute);
  else
    each_unit<false>(task, units, b, Keep{out}, nullptr, compute);
}

// Calls body(f) with the activation f.
template <class Body>
void with_bent(Activation act, const Body& body) {
  switch (act) {
    case Activation::kTanh:
      return body(Tanh{});
    case Activation::kSigmoid:
      return body(Sigmoid{});
    case Activation::kElu:
      return body(Elu{});
    case Activation::kSelu:
      return body(Selu{});
    case Activation::kSoftplus:
      return body(Softplus{});
    case Activation::kSwish:
      return body(Swish{});
    case Activation::kLinear:
    case Activation::kRelu:
    case Activation::kLrelu:
      return;
  }
}

template <class Body>
void with_activation(Activation act, const Body& body) {
  switch (act) {
    case Activation::kLinear:
      return body(Linear{});
    case Activation::kRelu:
      return body(Relu{});
    case Activation::kLrelu:
      return body(Lrelu{});
    default:
      return with_bent(act, body);
  }
}

void forward(const BiasActTask& task,
             const float* x,
             const float* b,
             float* y,
             int64_t first,
             int64_t last) {
  with_activation(task.act, [&](auto act) {
    compute_units(task, {first, last}, b, y, nullptr, Forward<decltype(act)>{x, numbers_of(task)});
  });
}

void gradient(const BiasActTask& task,
              const float* dy,
              const float* from,
              const float* b,
              float* dx,
              float* sums,
              int64_t first,
              int64_t last) {
  const Range units{first, last};
  const Vec inverse = all(1 / task.gain);
  if (from == nullptr) {
    const Scaled scaled{dy, all(task.gain)};
    if (dx == nullptr) return each_unit<true>(task, units, nullptr, Drop{}, sums, scaled);
    return compute_units(task, units, nullptr, dx, sums, scaled);
  }
  with_activation(task.act, [&](auto act) {
    compute_units(
        task, units, b, dx, sums, Gradient<decltype(act)>{dy, from, numbers_of(task), inverse});
  });
}

void double_backward(const BiasActTask& task,
                     const float* v,
                     const float* dy,
                     const float* from,
                     const float* b,
                     float* result,
                     int64_t first,
                     int64_t last) {
  const Vec inverse = all(1 / task.gain);
  with_bent(task.act, [&](auto act) {
    compute_units(task,
                  {first, last},
                  b,
                  result,
                  nullptr,
                  Bent<decltype(act)>{v, dy, from, numbers_of(task), inverse});
  });
}

}  // namespace

BiasActKernels bias_act_kernels() { return {forward, gradient, double_backward}; }

}  // namespace gantrain::GANTRAIN_ISA
