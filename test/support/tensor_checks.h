// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/safetensors.h"
#include "core/torch.h"
#include "support/paths.h"

namespace gantrain {

inline TensorFile fixture(const std::string& name) {
  return load_safetensors(fixtures_folder() + "/" + name + ".safetensors");
}

// max|a - b| / max|reference|: "scaled error" of fixtures' tolerances.
inline double scaled_error(const at::Tensor& a, const at::Tensor& reference) {
  const at::Tensor r = reference.to(at::kDouble);
  TORCH_CHECK(
      a.sizes() == reference.sizes(), "shapes differ: ", a.sizes(), " and ", reference.sizes());
  const double scale = r.abs().max().item<double>();
  return (a.to(at::kDouble) - r).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

}  // namespace gantrain
