// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "cuda_kernels/bias_act.h"
#include "cuda_kernels/planes_work.h"

// What the kernels of bias_act.h share. Activations f: value(u) is f(u), slope(t) is f' as a
// function of t = f(u), and bend(t) is the derivative of that by t. Comparisons are written so that
// NaN goes where LibTorch lets it go.
namespace gantrain::cuda_kernels {

// linear, relu and lrelu: two straight lines.
template <class Number>
struct TwoLines {
  Number alpha;

  explicit TwoLines(const BiasActTask& task)
      : alpha(static_cast<Number>(task.act == Activation::kLinear ? 1
                                  : task.act == Activation::kRelu ? 0
                                                                  : task.alpha)) {}
  // Zero times infinity would not be zero.
  GANTRAIN_BOTH Number value(Number u) const { return u < 0 ? (alpha == 0 ? 0 : u * alpha) : u; }
  GANTRAIN_BOTH Number slope(Number t) const { return t > 0 ? Number{1} : alpha; }
};

// A GPU divides floats by a function that it calls, but has an instruction for quotients that are
// right up to the last bit, where the divisor is not close to the largest number. Beyond that it
// gives 0.
template <class Number>
GANTRAIN_BOTH Number sigmoid(Number u) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<Number, float>) return __fdividef(1, 1 + std::exp(-u));
#endif
  return 1 / (1 + std::exp(-u));
}

// The others. Which one it is, is the same for all threads, so that no warp diverges.
template <class Number>
struct Curve {
  Activation act;

  explicit Curve(const BiasActTask& task) : act(task.act) {}

  GANTRAIN_BOTH Number value(Number u) const {
    switch (act) {
      case Activation::kTanh:
        return std::tanh(u);
      case Activation::kSigmoid:
        return sigmoid(u);
      case Activation::kElu:
        return u > 0 ? u : std::expm1(u);
      case Activation::kSelu:
        return u > 0 ? u * kScale : std::expm1(u) * kBoth;
      case Activation::kSoftplus:
        return (u < 0 ? Number{0} : u) + std::log1p(std::exp(-std::fabs(u)));
      default:
        return u * sigmoid(u);
    }
  }
  GANTRAIN_BOTH Number slope(Number t) const {
    switch (act) {
      case Activation::kTanh:
        return 1 - t * t;
      case Activation::kSigmoid:
        return t * (1 - t);
      case Activation::kElu:
        return (t > 0 ? Number{0} : t) + 1;
      case Activation::kSelu:
        return t > 0 ? kScale : t + kBoth;
      default:
        return -std::expm1(-t);
    }
  }
  GANTRAIN_BOTH Number bend(Number t) const {
    switch (act) {
      case Activation::kTanh:
        return -2 * t;
      case Activation::kSigmoid:
        return 1 - 2 * t;
      case Activation::kElu:
      case Activation::kSelu:
        return t < 0 ? Number{1} : Number{0};
      default:
        return std::exp(-t);
    }
  }

 private:
  static constexpr auto kScale = static_cast<Number>(kSeluScale);
  static constexpr auto kBoth = static_cast<Number>(kSeluScale * kSeluAlpha);
};

inline bool two_lines(Activation act) {
  return act == Activation::kLinear || act == Activation::kRelu || act == Activation::kLrelu;
}

// What follows the activation.
template <class Number>
struct GainClamp {
  Number gain, inverse, clamp;
  bool clamps;

  explicit GainClamp(const BiasActTask& task)
      : gain(static_cast<Number>(task.gain)),
        inverse(static_cast<Number>(1 / task.gain)),
        clamp(static_cast<Number>(task.clamp)),
        clamps(!std::isinf(task.clamp)) {}

  GANTRAIN_BOTH Number operator()(Number t) const {
    const Number y = t * gain, most = y > clamp ? clamp : y;
    return most < -clamp ? -clamp : most;
  }
  // 0 where |y| reached the clamp. Equality is outside: a clamped y cannot be told from one there.
  GANTRAIN_BOTH Number inside(Number dx, Number y) const {
    return !clamps || std::fabs(y) < clamp ? dx : Number{0};
  }
};

// A work whose only terms are biases.
template <class T, int kPack, Order kOrder, int kSums>
struct BiasedWork : WorkOf<T, kPack, kOrder, kSums> {
  using Base = WorkOf<T, kPack, kOrder, kSums>;
  using Number = typename Base::Number;
  struct Terms {
    Number bias[Base::kWidth];

    // Of the pack's number k.
    GANTRAIN_BOTH Number at(int k) const { return bias[k % Base::kWidth]; }
  };

  const T* b;
  int64_t channels;

  explicit BiasedWork(const BiasActTask& task)
      : b(static_cast<const T*>(task.b)), channels(task.maps.channels) {}

  GANTRAIN_BOTH Terms terms(int64_t /*sample*/, int64_t channel) const {
    Terms terms;
    if (b == nullptr)
      fill(terms.bias, Number{0});
    else
      load_channels(b, channel, channels, terms.bias);
    return terms;
  }
};

}  // namespace gantrain::cuda_kernels
