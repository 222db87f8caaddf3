// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/torch.h"
#include "gan/generator.h"

namespace gantrain {

// What a toy generator can do.
struct ToyAbilities {
  int64_t num_ws = 3;
  int64_t classes = 0;
  bool noise = true;
  std::vector<int64_t> levels = {};
  bool vectors = false;  // labels may be vectors, whose sum counts
};

// A style-based generator of 8 x 8 pictures whose every input shows: z [N, 4] and the class make w
// (all layers alike, mean 0.25), layer l alone makes channel l. Without num_ws there is no w space,
// but the pictures are the same.
class ToyGenerator final : public Generator {
 public:
  explicit ToyGenerator(ToyAbilities abilities = {}) : abilities_(std::move(abilities)) {}

  std::shared_ptr<torch::nn::Module> network() override { return network_; }
  int64_t z_dim() const override { return 4; }
  int64_t classes() const override { return abilities_.classes; }
  bool takes_vectors() const override { return abilities_.vectors; }
  int64_t num_ws() const override { return abilities_.num_ws; }
  int64_t w_dim() const override { return abilities_.num_ws > 0 ? 4 : 0; }
  bool has_noise() const override { return abilities_.noise; }
  std::vector<int64_t> levels() const override { return abilities_.levels; }

  at::Tensor images(const at::Tensor& z,
                    const at::Tensor& labels,
                    const SynthesisOptions& options) override;
  at::Tensor map(const at::Tensor& z,
                 const at::Tensor& labels,
                 const SynthesisOptions& options) override;
  at::Tensor synthesize(const at::Tensor& ws, const SynthesisOptions& options) override;

 private:
  ToyAbilities abilities_;
  std::shared_ptr<torch::nn::Module> network_ = std::make_shared<torch::nn::Module>("toy");
};

}  // namespace gantrain
