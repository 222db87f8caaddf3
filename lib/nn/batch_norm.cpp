// SPDX-License-Identifier: Apache-2.0
#include "nn/batch_norm.h"

#include "core/forward_precision.h"
#include "core/torch.h"
#include "ops/autocast.h"

namespace gantrain {

BatchNorm2d::BatchNorm2d(int64_t channels, std::string block_name) : block(std::move(block_name)) {
  weight = register_parameter("weight", torch::ones({channels}));
  bias = register_parameter("bias", torch::zeros({channels}));
  running_mean = register_buffer("running_mean", torch::zeros({channels}));
  running_var = register_buffer("running_var", torch::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
}

std::vector<std::string> BatchNorm2d::running_statistics() const {
  return {"running_mean", "running_var"};
}

namespace {

constexpr double kMomentum = 0.1;
constexpr double kEps = 1e-5;

// The tensor that a forward pass in training mode changes in place of a buffer.
Tensor moving(const Tensor& buffer) {
  RunningStatistics* noted = noted_running_statistics();
  return noted == nullptr ? buffer : noted->next(buffer);
}

// Makes two sums over ranks, the second of squared deviations. One sum of x and x^2 would lose
// digits by cancellation where the mean is large.
Tensor normalise_over_ranks(const Tensor& narrow,
                            const BatchNormTensors& t,
                            const SharesBatchStatistics& layer) {
  const Tensor x = narrow.to(statistics_type(narrow.scalar_type()));
  const auto by_channel = [](const Tensor& c) { return c.reshape({1, -1, 1, 1}); };
  const auto count = static_cast<double>(x.numel() / x.size(1) * layer.ranks);
  const Tensor mean = layer.sum_over_ranks(x.sum({0, 2, 3})) / count;
  const Tensor centred = x - by_channel(mean);
  const Tensor variance = layer.sum_over_ranks(centred.square().sum({0, 2, 3})) / count;
  {
    const torch::NoGradGuard no_grad;
    moving(t.mean).lerp_(mean, kMomentum);
    moving(t.var).lerp_(variance * (count / (count - 1)), kMomentum);
  }
  const Tensor scale = torch::rsqrt(variance + kEps);
  const Tensor y = centred * by_channel(t.weight.defined() ? scale * t.weight : scale);
  return (t.bias.defined() ? y + by_channel(t.bias) : y).to(narrow.scalar_type());
}

}  // namespace

Tensor batch_normalised(const Tensor& x,
                        const BatchNormTensors& t,
                        bool by_batch,
                        const SharesBatchStatistics& layer) {
  if (by_batch && layer.sum_over_ranks) return normalise_over_ranks(x, t, layer);
  // Statistics of half types are taken in float32 by LibTorch itself.
  return at::batch_norm(x,
                        t.weight,
                        t.bias,
                        by_batch ? moving(t.mean) : t.mean,
                        by_batch ? moving(t.var) : t.var,
                        by_batch,
                        kMomentum,
                        kEps,
                        at::globalContext().userEnabledCuDNN());
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  {
    const BlockScope named(block);
    note_computed(statistics_type(x.scalar_type()), "statistics");
  }
  if (is_training()) moving(num_batches_tracked).add_(1);
  return batch_normalised(x, {running_mean, running_var, weight, bias}, is_training(), *this);
}

}  // namespace gantrain
