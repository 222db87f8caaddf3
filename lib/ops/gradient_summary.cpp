// SPDX-License-Identifier: Apache-2.0
#include "ops/gradient_summary.h"

#include <atomic>
#include <cmath>
#include <numeric>

#include "cpu_kernels/kernels.h"
#include "ops/flat_pieces.h"

namespace gantrain {

namespace {

GradientSummary with_norm_of(const std::vector<const float*>& data, const FlatPieces& pieces) {
  std::vector<double> sums(pieces.size());
  const UpdateKernels& kernels = cpu_kernels().update;
  pieces.for_each([&](const FlatPiece& piece, size_t index) {
    sums[index] = kernels.square_sum(data[piece.tensor] + piece.offset, piece.count);
  });
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  return {std::isfinite(sum), std::sqrt(sum)};
}

GradientSummary verdict_of(const std::vector<const float*>& data, const FlatPieces& pieces) {
  std::atomic<bool> finite = true;
  const UpdateKernels& kernels = cpu_kernels().update;
  pieces.for_each([&](const FlatPiece& piece, size_t /*index*/) {
    if (!finite.load(std::memory_order_relaxed)) return;
    if (!kernels.all_finite(data[piece.tensor] + piece.offset, piece.count))
      finite.store(false, std::memory_order_relaxed);
  });
  return {finite.load(), std::nullopt};
}

}  // namespace

std::optional<GradientSummary> summarise(const std::vector<at::Tensor>& gradients, bool with_norm) {
  if (!are_flat(gradients)) return std::nullopt;
  std::vector<const float*> data;
  for (const at::Tensor& g : gradients) data.push_back(g.const_data_ptr<float>());
  const FlatPieces pieces(gradients);
  return with_norm ? with_norm_of(data, pieces) : verdict_of(data, pieces);
}

}  // namespace gantrain
