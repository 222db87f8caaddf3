// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "ops/draws.h"

namespace gantrain {

// All random numbers of one call of augment(). Every use has a name, asked for once a call in the
// order in which the transforms are applied: a transform's parameter ("xflip"), then what decides
// where it is applied ("xflip/on", uniform). The order is app. B's; rotation is asked for twice
// ("rotate/before" and "rotate/after" the anisotropic scaling), noise has a field of its own after
// its decision ("noise/field"), cutout's decision comes before its centre.
class AugmentDraws {
 public:
  virtual ~AugmentDraws() = default;
  // Draw float32 [N, shape...] on the images' device: uniform in [0, 1), or N(0, 1).
  virtual at::Tensor uniform(const std::string& name, at::IntArrayRef shape) = 0;
  virtual at::Tensor normal(const std::string& name, at::IntArrayRef shape) = 0;
  // Returns the draws of the whole global batch, of which this object draws a share; null if it
  // draws all.
  virtual std::unique_ptr<AugmentDraws> whole_batch() const { return nullptr; }
};

// Counter-based: the draws "augment/NAME" of the key, by global sample. So a sample's numbers
// depend neither on the rank count nor on which other transforms are on. Calls in one iteration
// that must differ (real, generated pictures) take keys of different phases. Nothing waits for the
// device.
class StreamDraws final : public AugmentDraws {
 public:
  StreamDraws(const DrawKey& key, const Samples& samples) : key_(key), samples_(samples) {}

  at::Tensor uniform(const std::string& name, at::IntArrayRef shape) override;
  at::Tensor normal(const std::string& name, at::IntArrayRef shape) override;
  // Assumes equal strided shares: sample n of the global batch belongs to share n mod W.
  std::unique_ptr<AugmentDraws> whole_batch() const override;

 private:
  DrawKey key_;
  Samples samples_;
};

}  // namespace gantrain
