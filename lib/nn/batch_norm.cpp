// SPDX-License-Identifier: Apache-2.0
#include "nn/batch_norm.h"

#include <torch/torch.h>

#include "ops/precision.h"

namespace gantrain {

BatchNorm2d::BatchNorm2d(int64_t channels) {
  weight = register_parameter("weight", torch::ones({channels}));
  bias = register_parameter("bias", torch::zeros({channels}));
  running_mean = register_buffer("running_mean", torch::zeros({channels}));
  running_var = register_buffer("running_var", torch::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

namespace {
constexpr double kMomentum = 0.1;
constexpr double kEps = 1e-5;
}  // namespace

// Two sums over ranks instead of one of x and x^2, which would cancel where the mean is large.
at::Tensor BatchNorm2d::normalise_over_ranks(const at::Tensor& narrow) {
  const at::Tensor x = narrow.to(statistics_type(narrow.scalar_type()));
  const auto by_channel = [](const at::Tensor& t) { return t.reshape({1, -1, 1, 1}); };
  const auto count = static_cast<double>(x.numel() / x.size(1) * ranks);
  const at::Tensor mean = sum_over_ranks(x.sum({0, 2, 3})) / count;
  const at::Tensor centred = x - by_channel(mean);
  const at::Tensor variance = sum_over_ranks(centred.square().sum({0, 2, 3})) / count;
  if (tracking) {
    const torch::NoGradGuard no_grad;
    running_mean.lerp_(mean, kMomentum);
    running_var.lerp_(variance * (count / (count - 1)), kMomentum);
  }
  return (centred * by_channel(torch::rsqrt(variance + kEps) * weight) + by_channel(bias))
      .to(narrow.scalar_type());
}

at::Tensor BatchNorm2d::forward(const at::Tensor& x) {
  const bool by_batch = is_training();
  const bool moves = by_batch && tracking;
  if (moves) num_batches_tracked.add_(1);
  if (by_batch && sum_over_ranks) return normalise_over_ranks(x);
  // Statistics of half types are taken in float32 by LibTorch itself.
  const at::Tensor none;
  return at::batch_norm(x,
                        weight,
                        bias,
                        by_batch && !moves ? none : running_mean,
                        by_batch && !moves ? none : running_var,
                        by_batch,
                        kMomentum,
                        kEps,
                        at::globalContext().userEnabledCuDNN());
}

namespace {

void set_tracking(const torch::nn::Module& network, bool tracking) {
  for (const auto& module : network.modules(/*include_self=*/false)) {
    if (auto* norm = dynamic_cast<BatchNorm2d*>(module.get())) norm->tracking = tracking;
  }
}

}  // namespace

WithoutTracking::WithoutTracking(const torch::nn::Module& network) : network_(network) {
  set_tracking(network_, false);
}

WithoutTracking::~WithoutTracking() { set_tracking(network_, true); }

}  // namespace gantrain
