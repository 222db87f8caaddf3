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
  world.ranks.nodes = 2;
  world.ranks.world = 4;
  world.ranks.local_world = 2;
  world.master.host = "127.0.0.1";
  const ReservedPort port;
  world.master.port = port.number();
  const LoadTrainer load = [] {
    return RankMain([](const RankContext& c, const char*) -> int {
      ++shared_number(static_cast<size_t>(c.rank()));
      return c.rank() == c.ranks().node_rank * 2 + c.ranks().local_rank && c.ranks().nodes == 2 ? 0
                                                                                                : 9;
    });
  };
  Launcher first(load, world, {});
  world.ranks.node_rank = 1;
  Launcher second(load, world, {});
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  for (size_t i = 0; i < 4; ++i) CHECK(shared_number(i) == 1);
}

}  // namespace gantrain
