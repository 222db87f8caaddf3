// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gan/phase.h"
#include "train/step/players.h"

namespace gantrain {

// Tells at each tick whether players still learn. It looks at a few weights of each parameter, so
// that it costs nothing beside a tick, and waits for no device.
class Motion {
 public:
  // Remembers the weights as they are.
  explicit Motion(const std::vector<PlayerState>& players);

  // Returns for each player, as tensors [] on the device, how far its weights have moved since the
  // last call as a share of their size ("Weights/G/moved"), and the size of its gradients
  // ("Gradients/G/size") where its optimizer tells.
  Statistics since_last(const std::vector<PlayerState>& players);

 private:
  std::map<std::string, at::Tensor> before_;  // by player: [n]
};

}  // namespace gantrain
