// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>

#include "ops/gpu/number_types.h"

// Random transforms of the plane and of colours (Karras et al. 2020b, app. B), as formulas for any
// type of number: for the host's float64, for all samples' numbers at once, and for a GPU's thread.
// Matrices are row by row.
namespace gantrain {

enum class MatrixKind {
  // Of the plane, 3 x 3, from output to input pixels with the origin at the centre, y down.
  kFlip,
  kQuarterTurns,
  kWholeShift,
  kZoom,
  kTurn,
  kStretch,
  kShift,
  // Of RGB, 4 x 4, from the left.
  kBrightness,
  kContrast,
  kLumaFlip,
  kHue,
  kSaturation
};

struct MatrixStep {
  MatrixKind kind;
  double multiplier;        // of the strength p: how probable the step is
  double size = 1;          // of what is drawn: its deviation or its most
  double x = 1, y = 1;      // of shifts: the pictures' width and height
  bool one_of_two = false;  // the probability is such that either of two such steps has it
};

GANTRAIN_BOTH bool draws_normal(MatrixKind kind) {
  return kind == MatrixKind::kZoom || kind == MatrixKind::kStretch || kind == MatrixKind::kShift ||
         kind == MatrixKind::kBrightness || kind == MatrixKind::kContrast ||
         kind == MatrixKind::kSaturation;
}
// How many numbers are drawn for each sample: 1 or 2.
GANTRAIN_BOTH int drawn_numbers(MatrixKind kind) {
  return kind == MatrixKind::kWholeShift || kind == MatrixKind::kShift ? 2 : 1;
}

GANTRAIN_BOTH double clamped_to_unit(double a) {  // to [0, 1]
  return a < 0 ? 0 : a > 1 ? 1 : a;
}

template <class Number>
GANTRAIN_BOTH Number probability_of(const MatrixStep& step, const Number& p) {
  using std::sqrt;
  const Number once = step.multiplier * p;
  if (!step.one_of_two) return once;
  return 1 - sqrt(1 - clamped_to_unit(once));
}

template <class Number>
using PlaneMatrix = std::array<Number, 9>;
template <class Number>
using ColourMatrix = std::array<Number, 16>;

template <class Number>
GANTRAIN_BOTH PlaneMatrix<Number> translation(const Number& x, const Number& y) {
  return {1, 0, x, 0, 1, y, 0, 0, 1};
}
template <class Number>
GANTRAIN_BOTH PlaneMatrix<Number> scaling(const Number& x, const Number& y) {
  return {x, 0, 0, 0, y, 0, 0, 0, 1};
}
template <class Number>
GANTRAIN_BOTH PlaneMatrix<Number> rotation(const Number& cosine, const Number& sine) {
  return {cosine, -sine, 0, sine, cosine, 0, 0, 0, 1};
}

// cos and sin of turn * pi * size. A GPU's functions of multiples of pi need no reduction of large
// angles, which keeps numbers in local memory.
template <class Number>
GANTRAIN_BOTH Number cosine_of(const Number& turn, double size) {
#ifdef __CUDA_ARCH__
  return cospi(turn * size);
#else
  using std::cos;
  return cos(turn * 3.14159265358979323846 * size);
#endif
}
template <class Number>
GANTRAIN_BOTH Number sine_of(const Number& turn, double size) {
#ifdef __CUDA_ARCH__
  return sinpi(turn * size);
#else
  using std::sin;
  return sin(turn * 3.14159265358979323846 * size);
#endif
}

// The matrix of a step of the plane for what was drawn: the inverse of the transform.
template <class Number>
GANTRAIN_BOTH PlaneMatrix<Number> plane_matrix(const MatrixStep& step, const Number* drawn) {
  using std::abs, std::exp2, std::floor, std::nearbyint;
  switch (step.kind) {
    case MatrixKind::kFlip:
      return scaling<Number>(1 - 2 * floor(2 * drawn[0]), 1);
    case MatrixKind::kQuarterTurns: {  // 0 to 3; exact
      const Number count = floor(4 * drawn[0]);
      return rotation<Number>(abs(count - 2) - 1, 1 - abs(count - 1));
    }
    case MatrixKind::kWholeShift:  // half-way cases to even
      return translation<Number>(-nearbyint((2 * drawn[0] - 1) * step.size * step.x),
                                 -nearbyint((2 * drawn[1] - 1) * step.size * step.y));
    case MatrixKind::kZoom: {
      const Number factor = exp2(-drawn[0] * step.size);
      return scaling<Number>(factor, factor);
    }
    case MatrixKind::kTurn: {
      const Number turn = 2 * drawn[0] - 1;
      return rotation<Number>(cosine_of(turn, step.size), sine_of(turn, step.size));
    }
    case MatrixKind::kStretch:
      return scaling<Number>(exp2(-drawn[0] * step.size), exp2(drawn[0] * step.size));
    default:
      return translation<Number>(-drawn[0] * step.size * step.x, -drawn[1] * step.size * step.y);
  }
}

// l on the luma axis v = (1, 1, 1) / sqrt 3, c across it, s across both (v x .): every linear
// transform of colour in app. B is one of these.
template <class Number>
GANTRAIN_BOTH ColourMatrix<Number> about_luma(const Number& l, const Number& c, const Number& s) {
  constexpr double kRoot = 1.7320508075688772935;
  const Number cross = s / kRoot;
  const Number all = (l - c) / 3;
  return {all + c,
          all - cross,
          all + cross,
          0,
          all + cross,
          all + c,
          all - cross,
          0,
          all - cross,
          all + cross,
          all + c,
          0,
          0,
          0,
          0,
          1};
}

// The matrix of a step of colour for what was drawn.
template <class Number>
GANTRAIN_BOTH ColourMatrix<Number> colour_matrix(const MatrixStep& step, const Number* drawn) {
  using std::exp2, std::floor;
  switch (step.kind) {
    case MatrixKind::kBrightness: {
      const Number by = drawn[0] * step.size;
      return {1, 0, 0, by, 0, 1, 0, by, 0, 0, 1, by, 0, 0, 0, 1};
    }
    case MatrixKind::kContrast: {
      const Number scale = exp2(drawn[0] * step.size);
      return about_luma<Number>(scale, scale, 0);
    }
    case MatrixKind::kLumaFlip:
      return about_luma<Number>(1 - 2 * floor(2 * drawn[0]), 1, 0);
    case MatrixKind::kHue: {
      const Number turn = 2 * drawn[0] - 1;
      return about_luma<Number>(1, cosine_of(turn, step.size), sine_of(turn, step.size));
    }
    default:
      return about_luma<Number>(1, exp2(drawn[0] * step.size), 0);
  }
}

// For a matrix of the plane the pixels to mirror at each border of a picture, x0, x1, y0, y1, so
// that the output's corners and `beyond` pixels more see pictures and not what lies outside.
template <class Number>
GANTRAIN_BOTH std::array<Number, 4> margins_for(const PlaneMatrix<Number>& g,
                                                double width,
                                                double height,
                                                double beyond) {
  using std::abs;
  const double cx = (width - 1) / 2, cy = (height - 1) / 2;
  // How far the corners lie from where the centre comes to.
  const Number x = abs(g[0]) * cx + abs(g[1]) * cy;
  const Number y = abs(g[3]) * cx + abs(g[4]) * cy;
  return {x - g[2] - cx + beyond,
          x + g[2] - cx + beyond,
          y - g[5] - cy + beyond,
          y + g[5] - cy + beyond};
}

}  // namespace gantrain
