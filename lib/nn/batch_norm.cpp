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
}  // namespace

// Makes two sums over ranks, the second of squared deviations. One sum of x and x^2 would lose
// digits by cancellation where the mean is large.
Tensor BatchNorm2d::normalise_over_ranks(const Tensor& narrow) {
  const Tensor x = narrow.to(statistics_type(narrow.scalar_type()));
  const auto by_channel = [](const Tensor& t) { return t.reshape({1, -1, 1, 1}); };
  const auto count = static_cast<double>(x.numel() / x.size(1) * ranks);
  const Tensor mean = sum_over_ranks(x.sum({0, 2, 3})) / count;
  const Tensor centred = x - by_channel(mean);
  const Tensor variance = sum_over_ranks(centred.square().sum({0, 2, 3})) / count;
  {
    const torch::NoGradGuard no_grad;
    const Statistics now = moving();
    now.mean.lerp_(mean, kMomentum);
    now.var.lerp_(variance * (count / (count - 1)), kMomentum);
  }
  return (centred * by_channel(torch::rsqrt(variance + kEps) * weight) + by_channel(bias))
      .to(narrow.scalar_type());
}

BatchNorm2d::Statistics BatchNorm2d::moving() {
  RunningStatistics* noted = noted_running_statistics();
  const auto moved = [noted](const Tensor& buffer) {
    return noted == nullptr ? buffer : noted->next(buffer);
  };
  moved(num_batches_tracked).add_(1);
  return {moved(running_mean), moved(running_var)};
}

void BatchNorm2d::note_statistics(at::ScalarType of_input) const {
  const BlockScope named(block);
  note_computed(statistics_type(of_input), "statistics");
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  note_statistics(x.scalar_type());
  const bool by_batch = is_training();
  if (by_batch && sum_over_ranks) return normalise_over_ranks(x);
  const Statistics statistics = by_batch ? moving() : Statistics{running_mean, running_var};
  // Statistics of half types are taken in float32 by LibTorch itself.
  return at::batch_norm(x,
                        weight,
                        bias,
                        statistics.mean,
                        statistics.var,
                        by_batch,
                        kMomentum,
                        kEps,
                        at::globalContext().userEnabledCuDNN());
}

}  // namespace gantrain
