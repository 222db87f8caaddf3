// SPDX-License-Identifier: Apache-2.0
#include "ops/all_finite.h"

#include <atomic>

#include "cpu_kernels/kernels.h"
#include "ops/flat_pieces.h"

namespace gantrain {

std::optional<bool> all_finite(const std::vector<at::Tensor>& tensors) {
  if (!are_flat(tensors)) return std::nullopt;
  std::vector<const float*> data;
  for (const at::Tensor& tensor : tensors) data.push_back(tensor.const_data_ptr<float>());
  std::atomic<bool> finite = true;
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(tensors).for_each([&](const FlatPiece& piece, size_t /*index*/) {
    if (!finite.load(std::memory_order_relaxed)) return;
    if (!kernels.all_finite(data[piece.tensor] + piece.offset, piece.count))
      finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

}  // namespace gantrain
