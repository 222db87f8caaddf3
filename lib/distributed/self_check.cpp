// SPDX-License-Identifier: Apache-2.0
#include "distributed/self_check.h"

#include "core/torch.h"
#include "distributed/group_backend.h"
#include "util/error.h"
#include "util/hash.h"

namespace gantrain {

namespace {

// A checksum is cut into pieces h of 16 bits; ranks send h and h^2. All ranks have the same h
// exactly if W sum(h^2) = (sum h)^2 (Cauchy and Schwarz), which int64 holds without rounding.
constexpr int64_t kPieces = 4;

at::Tensor checksums(const StateTensors& tensors) {
  at::Tensor all = torch::empty({static_cast<int64_t>(tensors.size()), kPieces, 2}, at::kLong);
  auto out = all.accessor<int64_t, 3>();
  for (int64_t i = 0; i < all.size(0); ++i) {
    const at::Tensor t = tensors[static_cast<size_t>(i)].tensor.detach().cpu().contiguous();
    const uint64_t hash = hash64({static_cast<const char*>(t.data_ptr()), t.nbytes()});
    for (int64_t k = 0; k < kPieces; ++k) {
      const auto piece = static_cast<int64_t>(hash >> (16 * k) & 0xffff);
      out[i][k][0] = piece;
      out[i][k][1] = piece * piece;
    }
  }
  return all;
}

// Weights are compared before their average: if the average is the first that differs, the weights
// are equal.
const char* likely_cause(const StateTensor& state) {
  if (state.name.find("_ema/") != std::string::npos)
    return "the average was not updated on every rank alike";
  if (state.kind == StateKind::kRunningStatistic)
    return "batch statistics were not averaged (dist.broadcast_buffers)";
  if (state.kind == StateKind::kRecipe)
    return "a recipe's own sum that it did not declare as shared";
  return "a gradient was not reduced: a network called around its handle, or a draw that depends "
         "on "
         "the rank";
}

// All ranks have found the same difference, so all of them come here and make the same calls. They
// find out which rank is farthest from rank 0.
[[noreturn]] void report(Group& group, const StateTensor& state, at::Device device) {
  const at::Tensor tensor = state.tensor.detach().to(device);
  at::Tensor first = tensor.clone();
  group.broadcast_(first);
  const double mine = (tensor - first).abs().max().to(at::kDouble).item<double>();
  at::Tensor all =
      torch::zeros({group.world()}, at::TensorOptions(tensor.device()).dtype(at::kDouble));
  all[group.rank()] = mine;
  group.sum_(all);
  const at::Tensor distances = all.cpu();
  const auto worst = distances.argmax().item<int64_t>();
  fail(Exit::kInternal,
       "ranks differ: {} of rank {} is {:.3g} from rank 0's; likely {}",
       state.name,
       worst,
       distances[worst].item<double>(),
       likely_cause(state));
}

}  // namespace

void check_equal(Group& group, const StateTensors& tensors, bool with_running_statistics) {
  if (group.world() == 1) return;
  StateTensors compared;
  for (const StateTensor& item : tensors) {
    const bool left_out = item.kind == StateKind::kRunningStatistic && !with_running_statistics;
    if (item.tensor.numel() > 0 && !left_out) compared.push_back(item);
  }
  if (compared.empty()) return;
  const at::Device device = device_of(group);
  at::Tensor sums = checksums(compared).to(device);
  group.sum_(sums);
  sums = sums.cpu();
  const at::Tensor same = (sums.select(2, 1) * group.world()).eq(sums.select(2, 0).square()).all(1);
  for (int64_t i = 0; i < same.size(0); ++i) {
    if (!same[i].item<bool>()) report(group, compared[static_cast<size_t>(i)], device);
  }
}

}  // namespace gantrain
