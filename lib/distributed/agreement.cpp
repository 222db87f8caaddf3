// SPDX-License-Identifier: Apache-2.0
#include "distributed/agreement.h"

#include <algorithm>

#include "core/torch.h"
#include "util/error.h"
#include "util/hash.h"

namespace gantrain {

namespace {

constexpr int64_t kMostBytes = 1023;

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

void throw_first_objection(const std::string& objection, Group& group, c10::Device device) {
  const at::Tensor mine = torch::zeros({group.world(), 1}, at::kLong);
  mine[group.rank()][0] = objection.empty() ? 0 : 1;
  at::Tensor objects = mine.to(device);
  group.sum_(objects);
  const at::Tensor first = objects.cpu().flatten().nonzero();
  if (first.numel() == 0) return;
  // One rank's text, as a sum over all ranks to which the others add nothing.
  at::Tensor text = torch::zeros({kMostBytes}, at::kInt);
  if (group.rank() == first[0][0].item<int64_t>()) {
    const auto count = std::min<int64_t>(kMostBytes, static_cast<int64_t>(objection.size()));
    for (int64_t i = 0; i < count; ++i)
      text.data_ptr<int32_t>()[i] = static_cast<uint8_t>(objection[static_cast<size_t>(i)]);
  }
  text = text.to(device);
  group.sum_(text);
  text = text.cpu();
  std::string told;
  for (int64_t i = 0; i < kMostBytes && text.data_ptr<int32_t>()[i] != 0; ++i)
    told += static_cast<char>(text.data_ptr<int32_t>()[i]);
  throw UserError(Exit::kEnvironment, told);
}

std::string shared_text(const std::string& mine, Group& group, c10::Device device) {
  at::Tensor length = torch::full({1}, static_cast<int64_t>(mine.size()), at::kLong).to(device);
  group.broadcast_(length);
  const auto size = length.item<int64_t>();
  at::Tensor text = torch::zeros({size}, at::kByte);
  if (group.rank() == 0) std::copy(mine.begin(), mine.end(), text.data_ptr<uint8_t>());
  if (size == 0) return "";
  text = text.to(device);
  group.broadcast_(text);
  text = text.cpu();
  const uint8_t* bytes = text.data_ptr<uint8_t>();
  return {bytes, bytes + size};
}

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
