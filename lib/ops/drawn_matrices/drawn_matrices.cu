// SPDX-License-Identifier: Apache-2.0
// A thread draws and multiplies a sample's matrices; one block does all samples, so that it finds
// the largest margins as well. By operators these are some hundred launches, each of a few numbers
// a sample; here the 16 draws of a sample are some microseconds.
#include "core/philox.h"
#include "ops/drawn_matrices/drawn_matrices_gpu.h"
#include "ops/draws/draws_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

template <int n>
using SquareMatrix = std::array<double, static_cast<size_t>(n) * n>;

template <int n>
GANTRAIN_BOTH SquareMatrix<n> product_of(const SquareMatrix<n>& a, const SquareMatrix<n>& b) {
  SquareMatrix<n> m{};
#pragma unroll
  for (int i = 0; i < n; ++i)
#pragma unroll
    for (int j = 0; j < n; ++j)
#pragma unroll
      for (int k = 0; k < n; ++k) m[i * n + j] += a[i * n + k] * b[k * n + j];
  return m;
}

// n is 3 for the plane, 4 for colour.
template <int n>
struct DrawnMatricesBody {
  static constexpr int kThreads = 256;
  struct Shared {
    double margins[4][kThreads];
  };
  struct Local {};

  DrawnMatricesArguments how;

  GANTRAIN_BOTH int steps() const { return n == 3 ? 2 : 1; }

  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 1) {
      if (place.thread < 4) write_margin(place.thread, shared.margins[place.thread]);
      return;
    }
    std::array<double, 4> most{};
#pragma unroll 1
    for (int64_t i = place.thread; i < how.samples; i += kThreads) {
      const SquareMatrix<n> matrix = drawn(how.first_sample + i * how.sample_stride);
      double* out = how.matrices + i * n * n;
#pragma unroll
      for (int k = 0; k < n * n; ++k) out[k] = matrix[k];
      grow(most, matrix);
    }
    // A picture must not depend on how many ranks share the work.
    const int64_t batch = how.sample_stride == 1 || n == 4 ? 0 : how.samples * how.sample_stride;
#pragma unroll 1
    for (int64_t i = place.thread; i < batch; i += kThreads) grow(most, drawn(i));
#pragma unroll
    for (int k = 0; k < 4; ++k) shared.margins[k][place.thread] = most[k];
  }

 private:
  GANTRAIN_BOTH PhiloxBlock block(uint64_t purpose, int64_t sample) const {
    const uint64_t key = stream_key(
        purpose, static_cast<uint64_t>(how.key[0]), static_cast<uint64_t>(how.key[1]), how.phase);
    return philox_block(key, static_cast<uint64_t>(sample), 0);
  }

  // The product of a sample's matrices.
  GANTRAIN_BOTH SquareMatrix<n> drawn(int64_t sample) const {
    SquareMatrix<n> product{};
#pragma unroll
    for (int k = 0; k < n; ++k) product[k * n + k] = 1;
#pragma unroll 1
    for (int i = 0; i < how.count; ++i) {
      const auto& [step, numbers, decisions] = how.steps[i];
      const double decision = unit_float(block(decisions, sample)[0]);
      if (!(decision < probability_of(step, *how.p))) continue;
      const PhiloxBlock bits = block(numbers, sample);
      float all[4] = {unit_float(bits[0]), unit_float(bits[1]), 0, 0};
      if (draws_normal(step.kind)) normals(bits, all);
      const double pair[2] = {all[0], all[1]};
      if constexpr (n == 3)
        product = product_of<n>(product, plane_matrix(step, pair));
      else
        product = product_of<n>(colour_matrix(step, pair), product);
    }
    return product;
  }

  GANTRAIN_BOTH void grow(std::array<double, 4>& most, const SquareMatrix<n>& matrix) const {
    if constexpr (n == 3) {
      const std::array<double, 4> margins = margins_for(matrix, how.width, how.height, how.beyond);
#pragma unroll
      for (size_t k = 0; k < 4; ++k) most[k] = most[k] < margins[k] ? margins[k] : most[k];
    }
  }

  GANTRAIN_BOTH void write_margin(int k, const double* each) const {
    double most = 0;
#pragma unroll 1
    for (int i = 0; i < kThreads; ++i) most = most < each[i] ? each[i] : most;
    const double limit = (k < 2 ? how.width : how.height) - 1;
    how.margins[k] = std::ceil(most < limit ? most : limit);
  }
};

}  // namespace

void drawn_matrices(const DrawnMatricesArguments& how, Stream stream) {
  if (how.colour)
    launch(DrawnMatricesBody<4>{how}, 1, stream);
  else
    launch(DrawnMatricesBody<3>{how}, 1, stream);
}

}  // namespace gantrain::cuda_kernels
