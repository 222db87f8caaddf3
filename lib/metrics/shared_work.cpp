// SPDX-License-Identifier: Apache-2.0
#include "metrics/shared_work.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/torch.h"
#include "distributed/group.h"

namespace gantrain {

namespace {
constexpr int64_t kValuesAtOnce = 1 << 23;  // through the group
}

int64_t SharedWork::rank() const { return group == nullptr ? 0 : group->rank(); }
int64_t SharedWork::world() const { return group == nullptr ? 1 : group->world(); }

std::vector<int64_t> Piece::numbers() const {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

void share(const SharedWork& work,
           const Pieces& pieces,
           const std::function<void(const Piece&)>& run) {
  const int64_t world = work.world(), rank = work.rank();
  const int64_t in_round = world * pieces.of_each;
  for (int64_t first = 0; first < pieces.items; first += in_round) {
    work.between({.doing = pieces.doing, .done = first, .of = pieces.items});
    const int64_t own = first + rank * pieces.of_each;
    if (own < pieces.items)
      run({.first = own, .count = std::min(pieces.of_each, pieces.items - own)});
  }
}

void sum_over_ranks_(const SharedWork& work, at::Tensor& tensor) {
  if (work.world() == 1 || tensor.numel() == 0) return;
  const at::Tensor flat = tensor.view(-1);
  for (int64_t first = 0; first < flat.size(0); first += kValuesAtOnce) {
    const at::Tensor some = flat.narrow(0, first, std::min(kValuesAtOnce, flat.size(0) - first));
    at::Tensor sum = some.to(work.device).clone();
    work.group->sum_(sum);
    some.copy_(sum);
  }
}

std::string text_of_rank_0(const SharedWork& work, const std::string& text) {
  if (work.world() == 1) return text;
  at::Tensor size = at::tensor({static_cast<int64_t>(text.size())}).to(work.device);
  work.group->broadcast_(size);
  const auto bytes = size.item<int64_t>();
  if (bytes == 0) return "";
  at::Tensor content = at::zeros({bytes}, at::kByte);
  if (work.rank() == 0) std::memcpy(content.data_ptr(), text.data(), text.size());
  content = content.to(work.device);
  work.group->broadcast_(content);
  content = content.cpu();
  return {static_cast<const char*>(content.data_ptr()), static_cast<size_t>(bytes)};
}

}  // namespace gantrain
