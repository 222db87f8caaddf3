// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gan/synthesis_options.h"

namespace torch::nn {
class Module;
}

namespace gantrain {

// A trained generator: sample grids, metrics, `gantrain generate`. Everything is in evaluation mode
// and without gradients; tensors are float32, on any device; what comes out is on the network's.
class Generator {
 public:
  virtual ~Generator() = default;
  // Its state is the content of the model file.
  virtual std::shared_ptr<torch::nn::Module> network() = 0;
  virtual int64_t z_dim() const = 0;
  virtual int64_t classes() const { return 0; }
  // z [N, z_dim], labels int64 [N] or undefined -> [N, C, R, R], about [-1, 1].
  virtual at::Tensor images(const at::Tensor& z,
                            const at::Tensor& labels,
                            const SynthesisOptions& options = {}) = 0;

  // Style-based generators: the layers' latents w [N, num_ws, w_dim], truncated as the
  // options say, and pictures of them. num_ws() = 0: there is no such space, and the two must not
  // be called.
  virtual int64_t num_ws() const { return 0; }
  virtual int64_t w_dim() const { return 0; }
  virtual at::Tensor map(const at::Tensor& z,
                         const at::Tensor& labels,
                         const SynthesisOptions& options);
  virtual at::Tensor synthesize(const at::Tensor& ws, const SynthesisOptions& options);
  virtual bool has_noise() const { return false; }  // whether it has noise inputs
  // Sizes in pixels of a progressive network's stages, smallest first; empty: it has none.
  virtual std::vector<int64_t> levels() const { return {}; }

  // Copies a model file's tensors into the network. Throws UserError(kInput) naming `source` and
  // the tensor that does not fit; a recipe may do without buffers that can be had otherwise.
  virtual void load(const std::map<std::string, at::Tensor>& tensors, const std::string& source);
};

}  // namespace gantrain
