// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gantrain {

// Returns whether the file is TorchScript: a zip archive with the constants of a program. Throws
// UserError(kInput) where it cannot be read.
bool is_torchscript(const std::filesystem::path& file);

// The line of a failure inside TorchScript that says what was wrong; the lines before it quote the
// network's source.
std::string reason_of_script(const std::string& whole);

// A feature network that a user brings as TorchScript, a program. Its forward() takes pictures [N,
// 3, H, W], float32 in [-1, 1]; other parameters keep their defaults. The four maps that are looked
// at are its taps: the names of sub-modules ("layer1", "features.3"), whose outputs they are, or
// the keys or places of what forward() returns; without names forward() returns four. Layers after
// the last tapped sub-module are not computed. Weights and buffers are buffers of this module, so
// that nothing trains them and every state holds them; whatever the module's mode, the network's is
// evaluation.
class ScriptFeatures final : public torch::nn::Module {
 public:
  static constexpr size_t kMaps = 4;

  struct Choice {
    std::filesystem::path file;
    std::vector<std::string> taps;  // four names; empty: all that forward() returns
    int64_t side = 224;             // of the pictures in pixels, a multiple of 32
    at::Device device = at::kCPU;
  };

  // Loads the network and looks at a picture of zeros. Throws UserError(kInput) that names the
  // file, and the tap if one is at fault, where this is no TorchScript, there is no such tap, a tap
  // is no map [N, C, h, w] of the side divided by 4, 8, 16 and 32, in this order, the network
  // fails, or no gradient reaches the picture.
  explicit ScriptFeatures(const Choice& choice);
  ~ScriptFeatures() override;

  // Pictures -> the four maps, with the graph that autograd needs to differentiate them by the
  // pictures. The first call throws UserError(kInput) where a state has brought the weights of
  // another file.
  std::array<at::Tensor, kMaps> maps(const at::Tensor& pictures);

  const std::array<int64_t, kMaps>& channels() const { return channels_; }
  // "net.pt (SHA-256 0123456789ab): maps layer1 [64, 56, 56], ..."
  std::string description() const;

 private:
  struct Program;
  void look_once();

  Choice choice_;
  std::string sha256_;
  std::unique_ptr<Program> program_;
  std::array<int64_t, kMaps> channels_ = {};
  at::Tensor file_hash_;  // a buffer: uint8 [32]
  bool is_checked_ = false;
};

}  // namespace gantrain
