// SPDX-License-Identifier: Apache-2.0
#include "dist/gradient_sync.h"

#include <torch/torch.h>

#include "dist/reducer_sync.h"

namespace gantrain {

namespace {

class NoSync final : public GradientSync {};

// One all-reduce of all gradients in one flat buffer after backward: needs no hooks and no Reducer.
class FlatSync final : public GradientSync {
 public:
  FlatSync(std::shared_ptr<Group> group, const std::vector<SyncPart>& parts)
      : group_(std::move(group)) {
    for (const SyncPart& part : parts) {
      for (const auto& [name, parameter] : part.parameters) parameters_.push_back(parameter);
    }
  }

  void finish() override {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> flat;
    for (at::Tensor& p : parameters_) {
      if (!p.grad().defined()) p.mutable_grad() = torch::zeros_like(p);
      flat.push_back(p.grad().reshape(-1));
    }
    at::Tensor all = torch::cat(flat);
    // Divided before the sum, as the Reducer does it: the same bits in every mode.
    all.div_(static_cast<double>(group_->world()));
    group_->sum_(all);
    int64_t at = 0;
    for (at::Tensor& p : parameters_) {
      p.mutable_grad() = all.narrow(0, at, p.numel()).view(p.sizes());
      at += p.numel();
    }
  }

  int64_t buckets() const override { return 1; }

 private:
  std::shared_ptr<Group> group_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace

std::unique_ptr<GradientSync> GradientSync::create(const DistOptions& options,
                                                   std::shared_ptr<Group> group,
                                                   const std::string& player,
                                                   std::vector<SyncPart> parts) {
  for (const SyncPart& part : parts) {
    for (const auto& [name, parameter] : part.parameters) {
      if (!parameter.requires_grad()) {
        throw std::logic_error("gradient sync of " + player + ": " + name + " needs no gradient");
      }
    }
  }
  if (group->world() == 1) return std::make_unique<NoSync>();
  switch (options.ddp_mode) {
    case DdpMode::kFlat:
      return std::make_unique<FlatSync>(std::move(group), parts);
    case DdpMode::kDynamic:
      return make_dynamic_sync(options, std::move(group), player, std::move(parts));
    case DdpMode::kWrapper:
      return make_wrapper_sync(options, std::move(group), player, std::move(parts));
  }
  throw std::logic_error("no such ddp mode");
}

}  // namespace gantrain
