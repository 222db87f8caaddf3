// SPDX-License-Identifier: Apache-2.0
#include "explore/latent_space.h"

#include <cmath>

#include "core/numpy_random.h"
#include "core/torch.h"

namespace gantrain {

namespace {

constexpr int64_t kSamples = 10'000;
constexpr uint32_t kSampleSeed = 123;  // numpy's RandomState(123), as the reference's projector
constexpr int64_t kBatch = 1000;

at::Tensor sample_latents(int64_t z_dim) {
  const std::vector<double> draws = NumpyRandom(kSampleSeed).randn(kSamples * z_dim);
  return torch::tensor(draws, at::kDouble).to(at::kFloat).view({kSamples, z_dim});
}

}  // namespace

LatentSpace::LatentSpace(Generator& generator,
                         const SynthesisOptions& options,
                         ProjectionSpace space,
                         const std::vector<int64_t>& labels)
    : generator_(generator), options_(options), space_(space), labels_(labels) {
  samples_ = sample_latents(generator.z_dim());
  if (space != ProjectionSpace::kZ) {
    std::vector<at::Tensor> parts;
    for (int64_t first = 0; first < kSamples; first += kBatch) {
      const at::Tensor numbers = torch::arange(first, first + kBatch);
      const at::Tensor z = samples_.narrow(0, first, kBatch);
      parts.push_back(generator.map(z, labels_of(numbers), {}).narrow(1, 0, 1));
    }
    samples_ = torch::cat(parts);
  }
  const at::Tensor exact = samples_.to(at::kDouble);
  const at::Tensor mean = exact.mean(0, /*keepdim=*/true);
  deviation_ = std::sqrt((exact - mean).square().sum().item<double>() / kSamples);
}

at::Tensor LatentSpace::labels_of(const at::Tensor& numbers) const {
  if (labels_.empty()) return {};
  const at::Tensor all = torch::tensor(labels_, at::kLong).to(numbers.device());
  return all.index_select(0, numbers.remainder(all.size(0)));
}

at::Tensor LatentSpace::unfolded(const at::Tensor& rows) const {
  if (space_ != ProjectionSpace::kWPlus) return rows.clone();
  return rows.expand({rows.size(0), generator_.num_ws(), rows.size(2)}).contiguous();
}

at::Tensor LatentSpace::pictures(const at::Tensor& latents,
                                 const at::Tensor& labels,
                                 bool gradients) const {
  SynthesisOptions options = options_;
  options.gradients = gradients;
  if (space_ == ProjectionSpace::kZ) return generator_.images(latents, labels, options);
  return generator_.synthesize(for_files(latents), options);
}

at::Tensor LatentSpace::for_files(const at::Tensor& latents) const {
  if (space_ != ProjectionSpace::kW) return latents;
  return latents.expand({latents.size(0), generator_.num_ws(), latents.size(2)});
}

}  // namespace gantrain
