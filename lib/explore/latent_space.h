// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "explore/requests.h"
#include "gan/generator.h"

namespace gantrain {

// Latents of one kind of a generator, and the pictures they make. A row of latents is [1, w_dim] in
// w, [num_ws, w_dim] in w+ and [z_dim] in z.
class LatentSpace {
 public:
  // `labels`: the classes that samples come from in turn; empty for unconditional models. `space`
  // is not kAuto, and the generator has it.
  LatentSpace(Generator& generator,
              const SynthesisOptions& options,
              ProjectionSpace space,
              const std::vector<int64_t>& labels);

  // 10,000 seeds' latents, [10000, ...] of one row each (w+ has w's), and the root of their mean
  // squared distance from their mean (Karras et al. 2020a, app. D).
  const at::Tensor& samples() const { return samples_; }
  double deviation() const { return deviation_; }
  // Returns the class of a sample as int64 [M] of `numbers` [M]; undefined without classes.
  at::Tensor labels_of(const at::Tensor& numbers) const;

  // Returns `rows` [M, ...] of samples' form as latents to be optimised: w+ has one row a layer.
  at::Tensor unfolded(const at::Tensor& rows) const;
  // Returns pictures [M, C, H, W], about in [-1, 1], of latents [M, ...]; `labels` only count in z.
  at::Tensor pictures(const at::Tensor& latents, const at::Tensor& labels, bool gradients) const;
  // Returns latents as files have them: [M, num_ws, w_dim] in w and w+, [M, z_dim] in z.
  at::Tensor for_files(const at::Tensor& latents) const;

  ProjectionSpace space() const { return space_; }

 private:
  Generator& generator_;
  SynthesisOptions options_;
  ProjectionSpace space_;
  std::vector<int64_t> labels_;
  at::Tensor samples_;
  double deviation_ = 0;
};

}  // namespace gantrain
