// SPDX-License-Identifier: Apache-2.0
#include "launch/where/environment.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

// What the training operator gives the pods of a PyTorchJob.
Env pytorch_job(int rank, int pods) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(pods)},
          {"MASTER_ADDR", "job-master-0"},
          {"MASTER_PORT", "23456"}};
}

// What Kubeflow Trainer gives the pods of a TrainJob.
Env train_job() {
  return {{"PET_NNODES", "3"},
          {"PET_NODE_RANK", "2"},
          {"PET_NPROC_PER_NODE", "2"},
          {"PET_MASTER_ADDR", "job-node-0-0.job"},
          {"PET_MASTER_PORT", "29400"}};
}

std::string refusal(const Env& env, const LaunchOptions& options = {}, bool flags = false) {
  try {
    detect_world(options, flags, env, 0);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kEnvironment);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("APodOfAPyTorchJobIsANode") {
  const World world = detect_world({}, false, pytorch_job(1, 3), 4);
  CHECK(world.role == World::Role::kLauncher);
  CHECK(world.source == "kubernetes");
  CHECK(world.ranks.nodes == 3);
  CHECK(world.ranks.node_rank == 1);
  CHECK(world.ranks.local_world == 4);
  CHECK(world.ranks.world == 12);
  CHECK(world.master.host == "job-master-0");
  CHECK(world.master.port == 23456);
  CHECK(detect_world({}, false, pytorch_job(1, 3), 0).ranks.world == 3);
}

TEST_CASE("NprocSaysHowManyRanksAPodStarts") {
  LaunchOptions options;
  options.nproc = 2;
  CHECK(detect_world(options, true, pytorch_job(1, 3), 4).ranks.world == 6);
  CHECK(detect_world(options, true, train_job(), 4).ranks.world == 6);
}

TEST_CASE("WorldSizeCountsRanksWhereTheOperatorKnowsThem") {
  Env env = pytorch_job(1, 8);
  env["PET_NPROC_PER_NODE"] = "4";
  const World world = detect_world({}, false, env, 0);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.ranks.local_world == 4);
  CHECK(world.ranks.world == 8);
  env["WORLD_SIZE"] = "7";
  CHECK_THAT(refusal(env), Catch::Contains("WORLD_SIZE=7 and PET_NPROC_PER_NODE=4"));
}

TEST_CASE("APodOfATrainJobIsANode") {
  Env env = train_job();
  World world = detect_world({}, false, env, 0);
  CHECK(world.ranks.nodes == 3);
  CHECK(world.ranks.node_rank == 2);
  CHECK(world.ranks.world == 6);
  CHECK(world.master.host == "job-node-0-0.job");
  CHECK(world.master.port == 29400);
  env["PET_NPROC_PER_NODE"] = "auto";
  CHECK(detect_world({}, false, env, 8).ranks.world == 24);
  env.erase("PET_MASTER_ADDR");
  env.erase("PET_MASTER_PORT");
  env["PET_RDZV_ENDPOINT"] = "h0:1234";
  world = detect_world({}, false, env, 1);
  CHECK(world.master.host == "h0");
  CHECK(world.master.port == 1234);
  env["PET_RDZV_ENDPOINT"] = "[::1]:1234";
  CHECK(detect_world({}, false, env, 1).master.host == "::1");
  env["PET_RDZV_ENDPOINT"] = "h0";
  CHECK(detect_world({}, false, env, 1).master.port == 29400);
}

TEST_CASE("ARangeOfPodsIsThatOfNnodes") {
  Env env = train_job();
  CHECK_FALSE(detect_world({}, false, env, 1).least_nodes);
  env["PET_NNODES"] = "1:3";
  const World world = detect_world({}, false, env, 1);
  CHECK(world.ranks.nodes == 3);
  CHECK(world.ranks.node_rank == 2);
  CHECK(world.least_nodes == 1);
  env["PET_NNODES"] = "3:3";
  CHECK_FALSE(detect_world({}, false, env, 1).least_nodes);
}

TEST_CASE("ASinglePodNeedsNoMaster") {
  const World world = detect_world({}, false, pytorch_job(0, 1), 2);
  CHECK(world.ranks.nodes == 1);
  CHECK(world.ranks.world == 2);
  CHECK(world.master.host == "127.0.0.1");
  CHECK(refusal({{"PET_NNODES", "1"}}).empty());
}

TEST_CASE("APodThatLacksAVariableIsRefusedByItsName") {
  Env env = pytorch_job(1, 2);
  env.erase("MASTER_ADDR");
  CHECK_THAT(refusal(env), Catch::Contains("MASTER_ADDR is not set"));
  env = pytorch_job(1, 2);
  env.erase("MASTER_PORT");
  CHECK_THAT(refusal(env), Catch::Contains("MASTER_PORT is not set"));
  env = train_job();
  env.erase("PET_NODE_RANK");
  CHECK_THAT(refusal(env), Catch::Contains("set PET_NODE_RANK"));
}

TEST_CASE("PodsWhoseNumbersContradictEachOtherAreRefused") {
  CHECK_THAT(refusal(pytorch_job(2, 2)), Catch::Contains("RANK=2 and WORLD_SIZE=2"));
  CHECK_THAT(refusal(pytorch_job(0, 0)), Catch::Contains("WORLD_SIZE=0"));
  Env env = train_job();
  env["PET_NODE_RANK"] = "3";
  CHECK_THAT(refusal(env), Catch::Contains("PET_NODE_RANK=3 and PET_NNODES=3"));
  env = train_job();
  for (const char* range : {"4:3", "0:3", "1:2:3"}) {
    env["PET_NNODES"] = range;
    CHECK_THAT(refusal(env), Catch::Contains(std::string("PET_NNODES=") + range));
  }
  env["PET_NNODES"] = "some";
  CHECK_THAT(refusal(env), Catch::Contains("PET_NNODES=some"));
  env = train_job();
  env["PET_NPROC_PER_NODE"] = "0";
  CHECK_THAT(refusal(env), Catch::Contains("PET_NPROC_PER_NODE=0"));
  env = pytorch_job(1, 2);
  env["MASTER_PORT"] = "70000";
  CHECK_THAT(refusal(env), Catch::Contains("MASTER_PORT is no port"));
}

TEST_CASE("TheFirstPodIsKnownToOthersByItsName") {
  Env env = pytorch_job(0, 2);
  env["MASTER_ADDR"] = "localhost";
  CHECK(detect_world({}, false, env, 0).master.host == "localhost");
  env["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  env["HOSTNAME"] = "job-master-0";
  CHECK(detect_world({}, false, env, 0).master.host == "job-master-0");
  CHECK(detect_world({}, false, env, 0).master_fallback == "localhost");
}

TEST_CASE("NodesGivenByFlagsGoBeforeThePods") {
  LaunchOptions options;
  options.nnodes = 2;
  options.node_rank = 1;
  options.master_addr = "h0";
  options.master_port = 1000;
  const World world = detect_world(options, true, pytorch_job(0, 3), 0);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.master.host == "h0");
}

}  // namespace gantrain
