// SPDX-License-Identifier: Apache-2.0
#include "distributed/self_check.h"

#include <torch/torch.h>

#include "util/error.h"
#include "util/hash.h"

namespace gantrain {

namespace {

// A checksum is cut into pieces h of 16 bits; ranks send h and h^2. All ranks have the same h
// exactly if W sum(h^2) = (sum h)^2 (Cauchy and Schwarz), which int64 holds without rounding.
constexpr int64_t kPieces = 4;

at::Tensor checksums(const NamedTensors& tensors) {
  at::Tensor all = torch::empty({static_cast<int64_t>(tensors.size()), kPieces, 2}, at::kLong);
  auto out = all.accessor<int64_t, 3>();
  for (int64_t i = 0; i < all.size(0); ++i) {
    const at::Tensor t = tensors[static_cast<size_t>(i)].second.detach().cpu().contiguous();
    const uint64_t hash = hash64({static_cast<const char*>(t.data_ptr()), t.nbytes()});
    for (int64_t k = 0; k < kPieces; ++k) {
      const auto piece = static_cast<int64_t>(hash >> (16 * k) & 0xffff);
      out[i][k][0] = piece;
      out[i][k][1] = piece * piece;
    }
  }
  return all;
}

// All ranks have found out, so all come here: how far is each from rank 0?
[[noreturn]] void report(Group& group, const std::string& name, const at::Tensor& tensor) {
  at::Tensor first = tensor.detach().clone();
  group.broadcast_(first);
  const double mine = (tensor.detach() - first).abs().max().to(at::kDouble).item<double>();
  at::Tensor all =
      torch::zeros({group.world()}, at::TensorOptions(tensor.device()).dtype(at::kDouble));
  all[group.rank()] = mine;
  group.sum_(all);
  const at::Tensor host = all.cpu();
  const auto worst = host.argmax().item<int64_t>();
  const auto is_of = [&](const char* kind) { return name.find(kind) != std::string::npos; };
  // Weights come before their average: where the average is first, they are equal.
  const char* cause =
      is_of("_ema/")      ? "the average was not updated on every rank alike"
      : is_of("running_") ? "batch statistics were not averaged (dist.broadcast_buffers)"
      : is_of("recipe/")  ? "a recipe's own sum that it did not declare as shared"
                          : "a gradient was not reduced: a network called around its handle, or a "
                            "draw that depends on the rank";
  fail(Exit::kInternal,
       "ranks differ: {} of rank {} is {:.3g} from rank 0's; likely {}",
       name,
       worst,
       host[worst].item<double>(),
       cause);
}

}  // namespace

void check_equal(Group& group, const NamedTensors& tensors, bool with_buffers) {
  if (group.world() == 1) return;
  NamedTensors compared;
  for (const auto& item : tensors) {
    const bool buffer = item.first.find("running_") != std::string::npos;
    if (item.second.numel() > 0 && (with_buffers || !buffer)) compared.push_back(item);
  }
  if (compared.empty()) return;
  const at::Device device = compared.front().second.device();
  at::Tensor sums = checksums(compared).to(device);
  group.sum_(sums);
  const at::Tensor host = sums.cpu();
  const at::Tensor same = (host.select(2, 1) * group.world()).eq(host.select(2, 0).square()).all(1);
  for (int64_t i = 0; i < same.size(0); ++i) {
    if (same[i].item<bool>()) continue;
    const auto& [name, tensor] = compared[static_cast<size_t>(i)];
    report(group, name, tensor.detach().to(device));
  }
}

}  // namespace gantrain
