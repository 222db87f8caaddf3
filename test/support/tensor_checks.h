// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/tensor_files.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "support/paths.h"

namespace gantrain {

inline TensorFile fixture(const std::string& name) {
  return load_safetensors(fixtures_folder() + "/" + name + ".safetensors");
}

// Tensors of a network by name.
inline std::map<std::string, at::Tensor> tensors_of(const torch::nn::Module& net) {
  const NamedTensors all = state_of(net);
  return {all.begin(), all.end()};
}

inline int64_t count(const std::vector<at::Tensor>& tensors) {
  int64_t n = 0;
  for (const at::Tensor& t : tensors) n += t.numel();
  return n;
}
inline int64_t count(const torch::nn::Module& net) { return count(net.parameters()); }

// max|a - b| / max|reference|: "scaled error" of fixtures' tolerances.
inline double scaled_error(const at::Tensor& a, const at::Tensor& reference) {
  const at::Tensor r = reference.to(at::kDouble);
  TORCH_CHECK(
      a.sizes() == reference.sizes(), "shapes differ: ", a.sizes(), " and ", reference.sizes());
  const double scale = r.abs().max().item<double>();
  return (a.to(at::kDouble) - r).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

}  // namespace gantrain
