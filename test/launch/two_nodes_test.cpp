// SPDX-License-Identifier: Apache-2.0
// Two launchers on one machine, as two nodes of one world.
#include <catch2/catch.hpp>

#include "launch/supervise.h"
#include "launch_helper.h"
#include "reserved_port.h"

namespace gantrain {

TEST_CASE("TwoLaunchersMakeOneWorld") {
  clear_shared_numbers();
  World world;
  world.nnodes = 2;
  world.world_size = 4;
  world.local_world_size = 2;
  world.master_addr = "127.0.0.1";
  const ReservedPort port;
  world.master_port = port.number();
  const LoadTrainer load = [] {
    return RankMain([](const RankContext& c, const char*) -> int {
      ++shared_number(static_cast<size_t>(c.rank));
      return c.rank == c.node_rank * 2 + c.local_rank && c.nnodes == 2 ? 0 : 9;
    });
  };
  Launcher first(load, world, {});
  world.node_rank = 1;
  Launcher second(load, world, {});
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  for (size_t i = 0; i < 4; ++i) CHECK(shared_number(i) == 1);
}

}  // namespace gantrain
