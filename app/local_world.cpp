// SPDX-License-Identifier: Apache-2.0
#include "local_world.h"

#include "launch/local_ranks.h"
#include "quiet.h"

namespace gantrain {

std::vector<std::string> run_local_world(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_ranks(world, seconds, [&](const Rendezvous& meeting) {
    quieten_libtorch();
    return body(meeting);
  });
}

}  // namespace gantrain
