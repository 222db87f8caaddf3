// SPDX-License-Identifier: Apache-2.0
#include "gan/player.h"

#include "distributed/gradient_sync.h"

namespace gantrain {

void Player::called(const std::string& part, const at::Tensor& output) const {
  if (sync != nullptr) sync->forwarded(part, output);
}

BlockScope Player::as_block(const std::string& part) const {
  return BlockScope(part.empty() ? name : name + "." + part);
}

}  // namespace gantrain
