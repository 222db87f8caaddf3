// SPDX-License-Identifier: Apache-2.0
#include "core/picture_bytes.h"

#include "core/torch.h"

namespace gantrain {

at::Tensor to_bytes(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte) return images.cpu();
  const at::Tensor scaled = images.detach().to(at::kFloat).mul(127.5).add_(128);
  return scaled.nan_to_num_(0).clamp_(0, 255).to(at::kByte).cpu();
}

}  // namespace gantrain
