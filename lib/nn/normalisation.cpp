// SPDX-License-Identifier: Apache-2.0
#include "nn/normalisation.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/random.h"
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

namespace {

constexpr double kShortest = 1e-12;
constexpr int kFirstSteps = 15;

Tensor unit_vector(const Tensor& x) { return x / x.norm().clamp_min(kShortest); }

int64_t product_of(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

// What forward passes have made of a running statistic so far.
Tensor present(const Tensor& buffer) {
  RunningStatistics* noted = noted_running_statistics();
  return noted == nullptr ? buffer : noted->next(buffer);
}

void move(Tensor& buffer, const Tensor& value) {
  RunningStatistics* noted = noted_running_statistics();
  if (noted == nullptr) {
    buffer.copy_(value);
  } else {
    noted->next(buffer) = value;
  }
}

}  // namespace

SpectralWeight::SpectralWeight(const Config& c) : output_axis_(c.output_axis) {
  const int64_t outputs = c.shape.at(static_cast<size_t>(c.output_axis));
  if (c.bias > 0) bias = register_parameter("bias", torch::zeros({c.bias}));
  weight_orig = register_parameter("weight_orig", torch::zeros(c.shape));
  weight_u = register_buffer("weight_u", torch::zeros({outputs}));
  weight_v = register_buffer("weight_v", torch::zeros({product_of(c.shape) / outputs}));
}

Tensor SpectralWeight::matrix() const {
  return (output_axis_ == 0 ? weight_orig : weight_orig.transpose(0, output_axis_)).flatten(1);
}

Tensor SpectralWeight::normalised() {
  const WithoutAutocast exact;
  const Tensor m = matrix();
  Tensor u = weight_u, v = weight_v;
  if (is_training()) {
    const torch::NoGradGuard no_grad;
    const Tensor fixed = m.detach();
    v = unit_vector(fixed.t().mv(present(weight_u)));
    u = unit_vector(fixed.mv(v));
    move(weight_u, u);
    move(weight_v, v);
  }
  return weight_orig / u.dot(m.mv(v));
}

void SpectralWeight::initialise(uint64_t seed, const std::string& name) {
  const torch::NoGradGuard no_grad;
  const auto fan_in = static_cast<double>(weight_orig.numel() / weight_orig.size(0));
  const double bound = 1 / std::sqrt(fan_in);
  weight_orig.copy_(uniform_like(weight_orig, bound, seed, name + "weight_orig"));
  if (bias.defined()) bias.copy_(uniform_like(bias, bound, seed, name + "bias"));
  weight_u.copy_(unit_vector(normal_like(weight_u, seed, name + "weight_u")));
  const Tensor m = matrix();
  for (int step = 0; step < kFirstSteps; ++step) {
    weight_v.copy_(unit_vector(m.t().mv(weight_u)));
    weight_u.copy_(unit_vector(m.mv(weight_v)));
  }
}

void initialise_spectral_weights(torch::nn::Module& network,
                                 const std::string& player,
                                 uint64_t seed) {
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (auto* layer = dynamic_cast<SpectralWeight*>(item.value().get()))
      layer->initialise(seed, "init/" + player + "/" + item.key() + ".");
  }
}

}  // namespace gantrain
