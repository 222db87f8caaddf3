// SPDX-License-Identifier: Apache-2.0
// The variables of torchrun, Slurm and MPI, one a line, behind three numbers of the command line.
#include "launch/where/environment.h"

#include "fuzz/fuzz_input.h"

namespace {

using namespace gantrain;

void check(const World& world) {
  const RankInfo& ranks = world.ranks;
  require(ranks.world >= 1 && ranks.local_world >= 1 && ranks.nodes >= 1, "a world without ranks");
  require(ranks.local_world <= ranks.world, "more ranks on a node than in the world");
  require(ranks.node_rank >= 0 && ranks.node_rank < ranks.nodes, "a node outside the world");
  require(world.master.port >= 0 && world.master.port <= 65535, "a port that does not exist");
  if (world.role == World::Role::kLauncher) return;
  require(ranks.rank >= 0 && ranks.rank < ranks.world, "a rank outside the world");
  require(ranks.local_rank >= 0 && ranks.local_rank < ranks.local_world, "a rank outside its node");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputReader input(text_of_input(data, size));
  const uint8_t flags = input.byte();
  LaunchOptions options;
  if ((flags & 1) != 0) options.nproc = flags >> 4;
  if ((flags & 8) != 0) options.time_margin = Duration{600};
  options.nnodes = 1 + (flags >> 2 & 1);
  const int64_t gpus = input.byte() % 9;
  Env env;
  while (!input.empty()) {
    InputReader line(input.until('\n'));
    const std::string name(line.until('='));
    env[name] = line.rest();
  }
  accepts("", [&] { check(detect_world(options, (flags & 2) != 0, env, gpus)); });
  accepts("", [&] {
    const AllocationStop stop = allocation_stop(options, env, /*now=*/1.8e9);
    require(!stop.after || *stop.after >= 0, "a stop in the past");
  });
  return 0;
}
