// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/tensors.h"

namespace gantrain::stylegan2 {

// All random numbers of one call of augment(). Every use has a name, asked for once a call in the
// order in which the transforms are applied: a transform's parameter ("xflip"), then what decides
// where it is applied ("xflip/on", uniform). The order is app. B's; rotation is asked for twice
// ("rotate/before" and "rotate/after" the anisotropic scaling), noise has a field of its own after
// its decision ("noise/field"), cutout's decision comes before its centre.
class Draws {
 public:
  virtual ~Draws() = default;
  // [N, shape...] float32 on the CPU: in [0, 1), or N(0, 1).
  virtual at::Tensor uniform(const std::string& name, at::IntArrayRef shape) = 0;
  virtual at::Tensor normal(const std::string& name, at::IntArrayRef shape) = 0;
  // The draws of the whole global batch of which these are a share; null if they are all of it.
  virtual std::unique_ptr<Draws> whole_batch() const { return nullptr; }
};

// Counter-based: the stream "augment/NAME" of the iteration and phase, keyed by global sample. So a
// sample's numbers depend neither on the rank count nor on which other transforms are on. Calls in
// one iteration that must differ (real, generated pictures) take different phases.
class StreamDraws final : public Draws {
 public:
  struct Key {
    uint64_t seed = 0;
    int64_t iteration = 0;
    int64_t phase = 0;
  };
  StreamDraws(const Key& key, const Samples& samples) : key_(key), samples_(samples) {}

  at::Tensor uniform(const std::string& name, at::IntArrayRef shape) override;
  at::Tensor normal(const std::string& name, at::IntArrayRef shape) override;
  // That of a strided split into equal shares (decisions on batches: sample n goes to n mod W).
  std::unique_ptr<Draws> whole_batch() const override;

 private:
  Stream stream(const std::string& name) const;

  Key key_;
  Samples samples_;
};

// One transform in one call.
enum class Distribution { kUniform, kNormal };
struct Transform {
  std::string name;
  Distribution distribution = Distribution::kUniform;
  size_t numbers = 1;      // a sample
  double probability = 0;  // with which it is applied to a sample
};

// What was drawn for it: `on[n]`, and sample n's numbers from `number[n * numbers]` on.
struct Drawn {
  std::vector<double> number;
  std::vector<bool> on;
};
Drawn draw(const Transform& transform, Draws& draws);

// Numbers on the CPU, double -> the device and type of `like`. The host waits for nothing: to a GPU
// they go through page-locked memory.
at::Tensor sent_to(const at::Tensor& numbers, const at::Tensor& like);

}  // namespace gantrain::stylegan2
