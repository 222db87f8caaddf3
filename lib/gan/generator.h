// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "gan/schedule.h"

namespace torch::nn {
class Module;
}

namespace gantrain {

using TensorMap = std::map<std::string, at::Tensor>;

// A trained generator, used for sample grids, metrics and `gantrain generate`. It computes in
// evaluation mode, in float32, and without gradients unless the options ask for them. Inputs may
// lie on any device; results lie on the network's device.
class Generator {
 public:
  virtual ~Generator() = default;
  // The network, whose parameters and buffers are the content of a model file.
  virtual std::shared_ptr<torch::nn::Module> network() = 0;
  virtual int64_t z_dim() const = 0;
  virtual int64_t classes() const { return 0; }  // or numbers of a label that is a vector
  // Whether a label may be a vector of classes() numbers.
  virtual bool takes_vectors() const { return false; }
  // Makes pictures [N, C, R, R], about in [-1, 1], of z [N, z_dim] and labels, int64 [N], vectors
  // [N, classes()] or undefined.
  virtual at::Tensor images(const at::Tensor& z,
                            const at::Tensor& labels,
                            const SynthesisOptions& options = {}) = 0;

  // Style-based generators: map() returns the layers' latents w [N, num_ws, w_dim], truncated as
  // the options say, and synthesize() returns the pictures of such latents. Where num_ws() is 0 the
  // generator has no w, and neither function may be called.
  virtual int64_t num_ws() const { return 0; }
  virtual int64_t w_dim() const { return 0; }
  virtual at::Tensor map(const at::Tensor& z,
                         const at::Tensor& labels,
                         const SynthesisOptions& options);
  virtual at::Tensor synthesize(const at::Tensor& ws, const SynthesisOptions& options);
  // The parameters [out, w_dim] that turn each layer's w into styles, by name, for the layers that
  // a stage of `level` pixels uses (0: the whole network). A layer whose w goes to two modules, a
  // convolution and a toRGB, has that of the convolution. Empty without a w space.
  virtual std::vector<std::string> style_weights(int64_t level) const;
  virtual bool has_noise() const { return false; }  // whether it has noise inputs
  // Pixels of a progressive network's stages, smallest first; empty for other networks.
  virtual std::vector<int64_t> levels() const { return {}; }

  // Copies the tensors of a model file into the network. Throws UserError(kInput) that names
  // `source` and the tensor that does not fit. A recipe may accept a file without some buffers
  // where it can make them by other means.
  virtual void load(const TensorMap& tensors, const std::string& source);

 protected:
  // Throws UserError(kUsage) where a conditional network gets no labels, or such as it cannot take.
  void check_labels(const at::Tensor& labels) const;
};

// A Generator that has one network, whose constructor takes its sizes.
template <class Net>
class NetworkGenerator : public Generator {
 public:
  explicit NetworkGenerator(const decltype(Net::shape)& shape)
      : net_(std::make_shared<Net>(shape)) {
    net_->eval();
  }
  std::shared_ptr<torch::nn::Module> network() override { return net_; }

 protected:
  std::shared_ptr<Net> net_;
};

// Enlarges pictures [N, C, H, W] of an early stage to the generator's full size, each pixel to a
// square. Other pictures stay as they are.
at::Tensor full_size(const Generator& generator, const at::Tensor& pictures);

// A style-based generator whose pictures can be moved by moving what its synthesis starts from
// (Karras et al. 2021, sec. 3.1). A Generator may also be one of these.
struct MovableInput {
  virtual ~MovableInput() = default;
  // Whether the input can be rotated and scaled too, and not only translated.
  virtual bool rotates() const = 0;
  // Returns the pictures of layers' latents ws [N, num_ws, w_dim] with a moved input. `inverse`,
  // [3, 3] or [N, 3, 3], maps positions in the picture that is made to positions in the picture
  // that would be made without it; in homogeneous coordinates, unit: the picture's width, origin in
  // its middle, x to the right, y down.
  virtual at::Tensor synthesize_moved(const at::Tensor& ws,
                                      const at::Tensor& inverse,
                                      const SynthesisOptions& options) = 0;
};

}  // namespace gantrain
