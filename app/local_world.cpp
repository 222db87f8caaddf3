// SPDX-License-Identifier: Apache-2.0
#include "local_world.h"

#include "launch/local_ranks.h"
#include "quiet.h"

namespace gantrain {

std::vector<std::string> run_local_world(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_ranks(world, seconds, [&](const LocalRank& local) {
    Rendezvous r;
    r.rank = local.rank;
    r.world = local.world;
    r.master_port = local.port;
    r.listen_fd = local.listen_fd;
    quieten_libtorch();
    return body(r);
  });
}

}  // namespace gantrain
