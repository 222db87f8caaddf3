// SPDX-License-Identifier: Apache-2.0
#include "distributed/compress.h"

#include "core/torch.h"

namespace gantrain {

at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks) {
  const at::Tensor share = gradient / static_cast<double>(ranks);
  switch (how) {
    case Compress::kNone:
      return share;
    case Compress::kFp16:
      return share.to(at::kHalf);
    case Compress::kBf16:
      return share.to(at::kBFloat16);
  }
  throw std::logic_error("no such compression");
}

}  // namespace gantrain
