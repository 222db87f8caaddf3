// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <string>

namespace gantrain {

// A network that sees features in pictures. Pictures are [N, C, H, W] on any device, uint8 or float
// in 0..255, of 1 to 4 channels: one is repeated, and alpha is laid over white.
class FeatureNetwork {
 public:
  virtual ~FeatureNetwork() = default;
  virtual const std::string& name() const = 0;    // of its file, without folders
  virtual const std::string& sha256() const = 0;  // of what decides its features
  // Returns [N, F], float32 on the CPU. Throws UserError(kInput) that names the file where the
  // network fails, or returns another shape or what is not finite.
  virtual at::Tensor features(const at::Tensor& pictures) = 0;
};

// EfficientNet-Lite0, for fd_lite0 and its kind: from a picture brought to 224 x 224 pixels
// (bilinear, with antialiasing where it shrinks), the means over all positions of its last
// convolution, 1280 numbers from 0 to 6.
class Lite0Features final : public FeatureNetwork {
 public:
  // Throws UserError(kInput) as read_lite0() does; a line of the log says which weights they are.
  Lite0Features(const std::filesystem::path& file, at::Device device);
  ~Lite0Features() override;
  const std::string& name() const override { return name_; }
  const std::string& sha256() const override { return sha256_; }  // of the weights
  at::Tensor features(const at::Tensor& pictures) override;

 private:
  struct Networks;
  std::string name_, sha256_;
  at::Device device_;
  std::unique_ptr<Networks> networks_;
};

// A network that looks at pictures: a TorchScript file that the user brings. Its forward() takes
// pictures [N, 3, H, W], float32, 0..255, and perhaps the keywords of the published StyleGAN2-ADA
// detectors: with `return_features` it returns features and without it class probabilities
// (`no_output_bias`: without their bias), with `return_lpips` vectors whose squared distance is
// LPIPS (`resize_images=False`: at the size given). A network with none of these keywords returns
// features. Other parameters of forward() keep their defaults.
class Detector final : public FeatureNetwork {
 public:
  // Loads it to the device. TorchScript is a program, so `wanted_sha256` is compared before
  // anything of the file is run; where it is "", a line of the log says so. Throws
  // UserError(kInput) that names the file where its hash is another one, this is no TorchScript or
  // forward() takes no pictures.
  Detector(const std::filesystem::path& file,
           at::Device device,
           const std::string& wanted_sha256 = "");
  ~Detector() override;

  const std::string& name() const override { return name_; }
  const std::string& sha256() const override { return sha256_; }  // of the file
  bool has_probabilities() const;
  bool has_lpips() const;

  // All return float32 on the CPU and throw as features() of any network.

  at::Tensor features(const at::Tensor& pictures) override;
  // [N, C]. Throws UserError(kInput) that names the metric which needs them where the network has
  // none. Rows that do not add up to 1, or hold a number below 0, are
  // refused: they are logits.
  at::Tensor probabilities(const at::Tensor& pictures);
  at::Tensor lpips(const at::Tensor& pictures);  // [N, F]; throws as probabilities() does

  // Returns lpips() where there is such a thing, else features(), on the network's device and with
  // the graph that autograd needs to differentiate it with respect to the pictures.
  at::Tensor differentiable(const at::Tensor& pictures);

 private:
  struct Impl;
  at::Tensor run(const at::Tensor& pictures, const std::string& keyword, const char* what);
  at::Tensor look(const at::Tensor& pictures, const std::string& keyword, const char* what);

  std::string file_;
  std::string name_;
  std::string sha256_;
  std::unique_ptr<Impl> impl_;
};

// Returns pictures [N, 3, H, W], float32 in 0..255: one channel is repeated, alpha is laid over
// white, of more than 4 channels the first three are taken.
at::Tensor to_rgb(const at::Tensor& pictures);

}  // namespace gantrain
