// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace gantrain::stylegan2 {

// Homogeneous transforms of one sample, on the host: of the plane (n = 3), of RGB (n = 4).
template <size_t n>
using Matrix = std::array<std::array<double, n>, n>;

template <size_t n>
Matrix<n> identity() {
  Matrix<n> m{};
  for (size_t i = 0; i < n; ++i) m[i][i] = 1;
  return m;
}

template <size_t n>
Matrix<n> operator*(const Matrix<n>& a, const Matrix<n>& b) {
  Matrix<n> m{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) m[i][j] += a[i][k] * b[k][j];
    }
  }
  return m;
}

}  // namespace gantrain::stylegan2
