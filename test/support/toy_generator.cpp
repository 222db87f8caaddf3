// SPDX-License-Identifier: Apache-2.0
#include "support/toy_generator.h"

#include "core/tensors.h"

namespace gantrain {

namespace {
constexpr int64_t kSide = 8;
constexpr double kMean = 0.25;  // of w
}  // namespace

at::Tensor ToyGenerator::images(const at::Tensor& z,
                                const at::Tensor& labels,
                                const SynthesisOptions& options) {
  return synthesize(map(z, labels, options), options);
}

at::Tensor ToyGenerator::map(const at::Tensor& z,
                             const at::Tensor& labels,
                             const SynthesisOptions& options) {
  TORCH_CHECK(z.dim() == 2 && z.size(1) == 4 && z.scalar_type() == at::kFloat);
  TORCH_CHECK(labels.defined() == (abilities_.classes > 0));
  at::Tensor w = z * 0.5 + kMean;
  const bool vectors = labels.defined() && labels.dim() == 2;
  if (labels.defined())
    w = w + (vectors ? labels.sum(1) : labels.to(at::kFloat)).unsqueeze(1) * 0.1;
  at::Tensor ws = w.unsqueeze(1).repeat({1, 3, 1});
  const int64_t cut = options.trunc_cutoff.value_or(3);
  at::Tensor first = ws.narrow(1, 0, cut);
  first.copy_((first - kMean) * options.trunc + kMean);
  return ws;
}

at::Tensor ToyGenerator::synthesize(const at::Tensor& ws, const SynthesisOptions& options) {
  TORCH_CHECK(ws.dim() == 3 && ws.size(1) == 3 && ws.size(2) == 4);
  // Channel l: a plane wave that leans on w of layer l.
  const at::Tensor ramp = torch::arange(kSide, at::kFloat) / kSide;
  const auto of = [&](int64_t i) { return ws.select(2, i).unsqueeze(2).unsqueeze(3); };
  at::Tensor x =
      (of(0) + of(1) * ramp.view({1, 1, kSide, 1}) + of(2) * ramp.view({1, 1, 1, kSide}) +
       of(3) * (ramp * ramp).view({1, 1, 1, kSide}))
          .tanh();
  if (options.noise == NoiseMode::kConst) x = x + 0.05 * ramp.view({1, 1, 1, kSide});
  if (options.noise == NoiseMode::kRandom) {
    const Stream stream(options.noise_seed, "toy noise");
    x = x + 0.05 * normal(stream, {0, 1, x.size(0)}, {1, kSide, kSide});
  }
  if (options.level == 0 && options.alpha == 1) return x;
  const int64_t level = options.level == 0 ? kSide : options.level;
  const at::Tensor fine = torch::adaptive_avg_pool2d(x, {level, level});
  const at::Tensor half = torch::adaptive_avg_pool2d(x, {level / 2, level / 2});
  const at::Tensor coarse = half.repeat_interleave(2, 2).repeat_interleave(2, 3);
  return options.alpha * fine + (1 - options.alpha) * coarse;
}

}  // namespace gantrain
