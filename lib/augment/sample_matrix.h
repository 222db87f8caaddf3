// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>

namespace gantrain {

// Homogeneous transforms, row by row: of the plane (n = 3), of RGB (n = 4). Number is double, for
// one sample, or SampleNumber, for all samples at once.
template <class Number, size_t n>
using SampleMatrix = std::array<Number, n * n>;

template <size_t n>
SampleMatrix<double, n> identity_matrix() {
  SampleMatrix<double, n> m{};
  for (size_t i = 0; i < n; ++i) m[i * n + i] = 1;
  return m;
}

template <size_t n, class Number>
std::array<Number, n * n> matrix_product(const std::array<Number, n * n>& a,
                                         const std::array<Number, n * n>& b) {
  std::array<Number, n * n> m{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) m[i * n + j] = m[i * n + j] + a[i * n + k] * b[k * n + j];
    }
  }
  return m;
}

// a, b [N, n * n] -> [N, n * n], the product of each sample's matrices, with sums in the order of
// the product above. On any device; nothing is read.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b, int64_t n);
template <size_t n>
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  return matrix_product(a, b, static_cast<int64_t>(n));
}

}  // namespace gantrain
