// SPDX-License-Identifier: Apache-2.0
#include "gan/full_size.h"

#include "core/torch.h"

namespace gantrain {

at::Tensor full_size(const Generator& generator, const at::Tensor& pictures) {
  const std::vector<int64_t> levels = generator.levels();
  const int64_t times = levels.empty() ? 1 : levels.back() / pictures.size(3);
  if (times <= 1) return pictures;
  return pictures.repeat_interleave(times, 2).repeat_interleave(times, 3);
}

}  // namespace gantrain
