// SPDX-License-Identifier: Apache-2.0
#include "ops/flat_pieces.h"

#include <algorithm>

#include "core/parallel.h"

namespace gantrain {

namespace {
constexpr int64_t kPiece = 1 << 14;  // numbers: 64 KiB of each array
constexpr int64_t kGrain = 1 << 15;  // numbers that are worth a thread
}  // namespace

FlatPieces::FlatPieces(const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t numbers = tensors[i].numel();
    for (int64_t at = 0; at < numbers; at += kPiece) {
      const int64_t count = std::min(kPiece, numbers - at);
      pieces_.push_back({i, at, count, numbers_});
      numbers_ += count;
    }
  }
}

void FlatPieces::for_each(const std::function<void(const FlatPiece&, size_t)>& work) const {
  parallel_for(0, numbers_, kGrain, [&](int64_t begin, int64_t end) {
    auto piece = std::lower_bound(
        pieces_.begin(), pieces_.end(), begin, [](const FlatPiece& p, int64_t number) {
          return p.before < number;
        });
    for (; piece != pieces_.end() && piece->before < end; ++piece)
      work(*piece, static_cast<size_t>(piece - pieces_.begin()));
  });
}

bool are_flat(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_non_overlapping_and_dense();
  });
}

bool have_equal_layout(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool both_in_order = a[i].is_contiguous() && b[i].is_contiguous();
    if (a[i].sizes() != b[i].sizes() || (!both_in_order && a[i].strides() != b[i].strides()))
      return false;
  }
  return true;
}

}  // namespace gantrain
