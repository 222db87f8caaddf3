// SPDX-License-Identifier: Apache-2.0
#include "data/worker.h"

#include <utility>

#include "util/block_signals.h"

namespace gantrain {

std::thread start_worker(std::function<void()> body) {
  const BlockSignals blocked;
  return std::thread(std::move(body));
}

}  // namespace gantrain
