// SPDX-License-Identifier: Apache-2.0
#include "distributed/gradient_sync.h"

#include <algorithm>

#include "core/torch.h"
#include "distributed/compress.h"
#include "distributed/reducer_sync.h"

namespace gantrain {

namespace {

class NoSync final : public GradientSync {};

// After the backward pass, copies all gradients into one flat buffer and reduces it at once. This
// needs no hooks and no Reducer.
class FlatSync final : public GradientSync {
 public:
  FlatSync(const DistOptions& options,
           std::shared_ptr<Group> group,
           const std::vector<SyncPart>& parts)
      : group_(std::move(group)),
        compress_(options.compress),
        views_(options.gradient_as_bucket_view) {
    for (const SyncPart& part : parts) {
      for (const auto& [name, parameter] : part.parameters) parameters_.push_back(parameter);
    }
  }

  void finish() override {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> flat;
    std::vector<bool> took_part;
    for (at::Tensor& p : parameters_) {
      took_part.push_back(p.grad().defined());
      if (!took_part.back()) p.mutable_grad() = torch::zeros_like(p);
      flat.push_back(p.grad().reshape(-1));
    }
    // Kept, so that a recorded optimizer step finds the gradients at the same addresses.
    if (all_.defined()) {
      torch::cat_out(all_, flat);
    } else {
      all_ = torch::cat(flat);
    }
    // The gradients are divided before they are added up, as the Reducer does it, so that every
    // mode gives the same bits.
    at::Tensor sent = compressed_share(all_, compress_, group_->world());
    group_->sum_(sent);
    all_.copy_(sent);
    int64_t at = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& p = parameters_[i];
      const at::Tensor mean = all_.narrow(0, at, p.numel()).view(p.sizes());
      if (views_ || !took_part[i]) {
        p.mutable_grad() = mean;
      } else {
        p.mutable_grad().copy_(mean);
      }
      at += p.numel();
    }
  }

  int64_t buckets() const override { return 1; }
  std::string description() const override { return "one flat all-reduce"; }

 private:
  std::shared_ptr<Group> group_;
  Compress compress_;
  bool views_;
  std::vector<at::Tensor> parameters_;
  at::Tensor all_;  // the gradients, one after the other
};

void check_parameters(const std::string& player, const std::vector<SyncPart>& parts) {
  for (const SyncPart& part : parts) {
    for (const auto& [name, parameter] : part.parameters) {
      if (!parameter.requires_grad())
        throw std::logic_error("gradient sync of " + player + ": " + name + " needs no gradient");
    }
  }
}

}  // namespace

std::unique_ptr<GradientSync> GradientSync::create(const DistOptions& options,
                                                   std::shared_ptr<Group> group,
                                                   const std::string& player,
                                                   std::vector<SyncPart> parts,
                                                   SyncPromise promise) {
  check_parameters(player, parts);
  const bool nothing = std::all_of(
      parts.begin(), parts.end(), [](const SyncPart& part) { return part.parameters.empty(); });
  if (group->world() == 1 || nothing) return std::make_unique<NoSync>();
  switch (options.ddp_mode) {
    case DdpMode::kFlat:
      return std::make_unique<FlatSync>(options, std::move(group), parts);
    case DdpMode::kDynamic:
      return make_dynamic_sync(options, std::move(group), player, std::move(parts), promise);
    case DdpMode::kWrapper:
      return make_wrapper_sync(options, std::move(group), player, std::move(parts), promise);
  }
  throw std::logic_error("no such ddp mode");
}

}  // namespace gantrain
