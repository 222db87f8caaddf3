// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// Minibatch standard deviation (Karras et al. 2018a, sec. 3) of x [g * groups, parts, length],
// where group m consists of the samples m, m + groups, m + 2 groups, ...; a part is a share of a
// sample's channels with all their pixels. The result has `parts` planes of `pixels` more in each
// sample.
struct MinibatchStd {
  int64_t g, groups, parts;
  int64_t length, pixels;
  float eps;  // added to the variance
};

// Both functions compute the cells [begin, end); cell i is part i % parts of group i / parts.
struct MinibatchStdKernels {
  // out [g * groups, parts * (length + pixels)]: x, then each part's mean deviation in a plane.
  void (*forward)(const MinibatchStd& how, const float* x, float* out, int64_t begin, int64_t end);
  // dx, like x, from dout, like out.
  void (*gradient)(const MinibatchStd& how,
                   const float* dout,
                   const float* x,
                   float* dx,
                   int64_t begin,
                   int64_t end);
};

}  // namespace gantrain
