// SPDX-License-Identifier: Apache-2.0
#include "launch/where/environment.h"

#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Role = World::Role;

// What one task of `srun -N2 -n3` (2 tasks on node1, 1 on node2) sees in Slurm 22.05.
Env srun(int procid, int localid, int nodeid) {
  return {{"SLURM_JOB_ID", "42"},
          {"SLURM_STEP_ID", "1"},
          {"SLURM_PROCID", std::to_string(procid)},
          {"SLURM_LOCALID", std::to_string(localid)},
          {"SLURM_NODEID", std::to_string(nodeid)},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_NTASKS", "3"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
          {"SLURM_STEP_NODELIST", "node[1-2]"},
          {"SLURM_JOB_NODELIST", "node[1-4]"},
          {"SLURM_JOB_NUM_NODES", "4"},
          {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
}

Env one_task_per_node(int nodeid) {
  Env env = srun(nodeid, 0, nodeid);
  env["SLURM_STEP_NUM_TASKS"] = "2";
  env["SLURM_STEP_TASKS_PER_NODE"] = "1(x2)";
  return env;
}

Env single_task() {
  Env env = srun(0, 0, 0);
  env["SLURM_STEP_NUM_TASKS"] = "1";
  env["SLURM_STEP_NUM_NODES"] = "1";
  env["SLURM_STEP_TASKS_PER_NODE"] = "1";
  return env;
}

Env torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "h0"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

Env mpirun(int rank, int size, int local_rank, int local_size) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
          {"PMIX_NAMESPACE", "3712614401"}};
}

Exit refusal(const LaunchOptions& options, bool flags, const Env& env, int64_t gpus = 0) {
  try {
    detect_world(options, flags, env, gpus);
  } catch (const UserError& e) {
    UNSCOPED_INFO(e.what());
    return e.code();
  }
  return Exit::kDone;
}

}  // namespace

TEST_CASE("LocalStartHasOneRankPerVisibleGpuElseOne") {
  LaunchOptions o;
  CHECK(detect_world(o, false, {}, 0).ranks.world == 1);
  CHECK(detect_world(o, false, {}, 4).ranks.world == 4);
  o.device = DeviceKind::kCpu;
  CHECK(detect_world(o, false, {}, 4).ranks.world == 1);
  o.nproc = 3;
  const World world = detect_world(o, true, {}, 0);
  CHECK(world.role == Role::kLauncher);
  CHECK(world.source == "local");
  CHECK(world.ranks.local_world == 3);
  CHECK(world.ranks.rank == -1);
  CHECK(world.master.host == "127.0.0.1");
  CHECK(world.master.port == 0);
}

TEST_CASE("SeveralNodesByHandNeedAMaster") {
  LaunchOptions o;
  o.nproc = 2;
  o.nnodes = 3;
  o.node_rank = 2;
  CHECK(refusal(o, true, {}) == Exit::kUsage);
  o.master_addr = "h0";
  CHECK(refusal(o, true, {}) == Exit::kUsage);
  o.master_port = 29600;
  const World world = detect_world(o, true, {}, 0);
  CHECK(world.ranks.world == 6);
  CHECK(world.ranks.node_rank == 2);
  CHECK(world.master.host == "h0");
  CHECK(world.master.port == 29600);
  o.master_addr = "[fe80::1]";
  CHECK(detect_world(o, true, {}, 0).master.host == "fe80::1");
  LaunchOptions bare;
  bare.nnodes = 2;
  CHECK(detect_world(bare, true, {{"MASTER_ADDR", "h1"}, {"MASTER_PORT", "1234"}}, 0).master.port ==
        1234);
}

TEST_CASE("WrongCountsAreUsageErrors") {
  LaunchOptions o;
  o.nproc = 0;
  CHECK(refusal(o, true, {}) == Exit::kUsage);
  o = {};
  o.node_rank = 1;
  CHECK(refusal(o, true, {}) == Exit::kUsage);
  o = {};
  o.nnodes = 0;
  CHECK(refusal(o, true, {}) == Exit::kUsage);
  o = {};
  o.master_port = 70000;
  CHECK(refusal(o, true, {}) == Exit::kUsage);
}

TEST_CASE("TorchrunVariablesMakeAWorker") {
  const World world = detect_world({}, false, torchrun(), 4);
  CHECK(world.role == Role::kWorker);
  CHECK(world.source == "torchrun");
  CHECK(world.ranks.rank == 5);
  CHECK(world.ranks.local_rank == 1);
  CHECK(world.ranks.world == 8);
  CHECK(world.ranks.local_world == 4);
  CHECK(world.ranks.node_rank == 1);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.master.host == "h0");
  CHECK(world.master.port == 29500);
  CHECK(world.store_is_served);
}

TEST_CASE("TorchrunGoesBeforeSlurm") {
  Env env = srun(0, 0, 0);
  env.merge(torchrun());
  CHECK(detect_world({}, false, env, 0).source == "torchrun");
}

TEST_CASE("RestartsThatOnlyTheOtherLauncherCouldDoAreToldByRank0") {
  World world;
  world.source = "slurm";
  CHECK(no_restarts_text(world, 3).empty());  // a launcher starts its ranks again
  world.role = World::Role::kWorker;
  world.ranks.rank = 1;
  CHECK(no_restarts_text(world, 3).empty());
  world.ranks.rank = 0;
  CHECK(no_restarts_text(world, 0).empty());
  CHECK_THAT(no_restarts_text(world, 3),
             Catch::StartsWith("--max-restarts 3 does nothing here: srun"));
}

TEST_CASE("NprocInsideAWorkerIsRefused") {
  LaunchOptions o;
  o.nproc = 2;
  CHECK(refusal(o, true, torchrun()) == Exit::kUsage);
  CHECK(refusal(o, false, torchrun()) == Exit::kDone);  // from a configuration file: not meant
}

TEST_CASE("HalfAWorkersEnvironmentIsRefused") {
  Env env = torchrun();
  env.erase("MASTER_PORT");
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    env = torchrun();
    env.erase(name);
    CHECK(refusal({}, false, env) == Exit::kEnvironment);
    CHECK(refusal({}, false, {{name, "1"}}) == Exit::kEnvironment);
    LaunchOptions local;
    local.nproc = 2;
    CHECK(refusal(local, true, {{name, "1"}}) == Exit::kDone);
  }
  env = torchrun();
  env["RANK"] = "many";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env = torchrun();
  env["RANK"] = "8";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
}

TEST_CASE("SrunTasksAreWorkers") {
  const World world = detect_world({}, false, srun(2, 0, 1), 0);
  CHECK(world.role == Role::kWorker);
  CHECK(world.source == "slurm");
  CHECK(world.ranks.rank == 2);
  CHECK(world.ranks.local_rank == 0);
  CHECK(world.ranks.world == 3);
  CHECK(world.ranks.local_world == 1);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.ranks.node_rank == 1);
  CHECK(world.master.host == "node1");
  CHECK(world.master_fallback == "10.0.0.7");
  CHECK(world.master.port == 15000 + (42 * 16 + 1) % 17000);
  CHECK(detect_world({}, false, srun(0, 0, 0), 0).master.port == world.master.port);
  CHECK(detect_world({}, false, srun(1, 1, 0), 0).ranks.local_world == 2);
}

TEST_CASE("MasterVariablesAndFlagsWinUnderSlurm") {
  Env env = srun(0, 0, 0);
  env["MASTER_ADDR"] = "10.1.1.1";
  env["MASTER_PORT"] = "4000";
  World world = detect_world({}, false, env, 0);
  CHECK(world.master.host == "10.1.1.1");
  CHECK(world.master_fallback.empty());
  CHECK(world.master.port == 4000);
  LaunchOptions o;
  o.master_addr = "other";
  o.master_port = 5000;
  world = detect_world(o, true, env, 0);
  CHECK(world.master.host == "other");
  CHECK(world.master.port == 5000);
}

TEST_CASE("OneSlurmTaskPerNodeLaunchesTheNodesRanks") {
  World world = detect_world({}, false, one_task_per_node(1), 4);
  CHECK(world.role == Role::kLauncher);
  CHECK(world.source == "slurm");
  CHECK(world.ranks.world == 8);
  CHECK(world.ranks.local_world == 4);
  CHECK(world.ranks.node_rank == 1);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.master.host == "node1");
  LaunchOptions o;
  o.nproc = 2;
  world = detect_world(o, true, one_task_per_node(0), 0);
  CHECK(world.role == Role::kLauncher);
  CHECK(world.ranks.world == 4);
  CHECK(detect_world({}, false, one_task_per_node(1), 1).role == Role::kWorker);
}

TEST_CASE("ASingleSlurmTaskIsALocalLauncher") {
  LaunchOptions o;
  o.nproc = 2;
  World world = detect_world(o, true, single_task(), 0);
  CHECK(world.role == Role::kLauncher);
  CHECK(world.ranks.world == 2);
  CHECK(world.master.host == "127.0.0.1");
  world = detect_world({}, false, single_task(), 0);
  CHECK(world.ranks.world == 1);
}

TEST_CASE("NprocThatContradictsSrunIsRefused") {
  LaunchOptions o;
  o.nproc = 4;
  CHECK(refusal(o, true, srun(0, 0, 0)) == Exit::kUsage);
  o.nproc = 2;
  CHECK(refusal(o, true, srun(0, 0, 0)) == Exit::kDone);
  o = {};
  o.nnodes = 3;
  CHECK(refusal(o, true, srun(0, 0, 0)) == Exit::kUsage);
}

TEST_CASE("ABatchScriptIsNotAStep") {
  // sbatch's shell has PROCID=0 and NTASKS=N too; only STEP_ID tells.
  Env env{{"SLURM_JOB_ID", "42"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_JOB_NUM_NODES", "1"}};
  CHECK(detect_world({}, false, env, 4).ranks.world == 4);
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env["SLURM_NTASKS"] = "1";
  CHECK(detect_world({}, false, env, 0).ranks.world == 1);
  env["SLURM_STEP_ID"] = "4294967290";  // salloc with use_interactive_step
  CHECK(detect_world({}, false, env, 0).source == "local");
  env["SLURM_JOB_NUM_NODES"] = "2";
  CHECK(refusal({}, false, env) == Exit::kUsage);
  LaunchOptions o;
  o.nproc = 2;
  CHECK(detect_world(o, true, env, 0).ranks.world == 2);
}

TEST_CASE("OpenMpiTasksAreWorkers") {
  const World world = detect_world({}, false, mpirun(1, 2, 1, 2), 0);
  CHECK(world.role == Role::kWorker);
  CHECK(world.source == "mpi");
  CHECK(world.ranks.rank == 1);
  CHECK(world.ranks.local_rank == 1);
  CHECK(world.master.host == "127.0.0.1");
  CHECK(world.master.port >= 15000);
  CHECK(world.master.port < 32000);
  CHECK(world.master.port == detect_world({}, false, mpirun(0, 2, 0, 2), 0).master.port);
  CHECK(detect_world({}, false, mpirun(0, 1, 0, 1), 0).ranks.world == 1);
}

TEST_CASE("MpirunWithinAStepOfSrunStartsTheRanks") {
  Env shell = single_task();  // srun --pty bash
  shell["PMI_RANK"] = "0";    // --mpi=pmi2
  shell["PMI_SIZE"] = "1";
  CHECK(detect_world({}, false, shell, 0).source == "slurm");
  Env env = mpirun(2, 4, 2, 4);
  env.merge(Env(shell));
  World world = detect_world({}, false, env, 0);
  CHECK(world.role == Role::kWorker);
  CHECK(world.source == "mpi");
  CHECK(world.ranks.rank == 2);
  CHECK(world.ranks.world == 4);
  CHECK(world.master.host == "127.0.0.1");
  env = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  env.merge(Env(shell));  // Hydra
  CHECK(detect_world({}, false, env, 0).source == "mpi");
  // Open MPI's daemons of the other two nodes of three are a step of srun of their own.
  env = mpirun(8, 24, 0, 8);
  env["MASTER_ADDR"] = "h0";
  env.merge(one_task_per_node(0));
  world = detect_world({}, false, env, 0);
  CHECK(world.ranks.rank == 8);
  CHECK(world.ranks.world == 24);
  CHECK(world.ranks.node_rank == 1);
  // An mpirun of one task, in which srun was called.
  env = mpirun(0, 1, 0, 1);
  env.merge(srun(2, 0, 1));
  CHECK(detect_world({}, false, env, 0).source == "slurm");
  CHECK(detect_world({}, false, env, 0).ranks.rank == 2);
}

TEST_CASE("HydraTasksAreWorkers") {
  const Env env{{"PMI_RANK", "2"},
                {"PMI_SIZE", "4"},
                {"MPI_LOCALRANKID", "0"},
                {"MPI_LOCALNRANKS", "2"},
                {"MASTER_ADDR", "h0"},
                {"MASTER_PORT", "1234"}};
  const World world = detect_world({}, false, env, 0);
  CHECK(world.role == Role::kWorker);
  CHECK(world.ranks.rank == 2);
  CHECK(world.ranks.local_rank == 0);
  CHECK(world.ranks.nodes == 2);
  CHECK(world.ranks.node_rank == 1);
}

TEST_CASE("MpiOnSeveralNodesAsksForTheMaster") {
  CHECK(refusal({}, false, mpirun(2, 4, 0, 2)) == Exit::kUsage);
  Env env = mpirun(2, 4, 0, 2);
  env["MASTER_ADDR"] = "h0";
  CHECK(detect_world({}, false, env, 0).master.host == "h0");
}

TEST_CASE("ANodeOutsideTheWorldIsRefused") {
  Env env = torchrun();
  env["GROUP_RANK"] = "2";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env["GROUP_RANK"] = "-1";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env = srun(2, 0, 1);
  env["SLURM_STEP_NUM_NODES"] = "1";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
}

TEST_CASE("NumbersBeyondAllWorldsAreRefused") {
  Env env = torchrun();
  env["WORLD_SIZE"] = "9223372036854775807";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env = torchrun();
  env["MASTER_PORT"] = "65536";
  CHECK(refusal({}, false, env) == Exit::kEnvironment);
  env = srun(0, 0, 0);
  env["SLURM_JOB_ID"] = "9223372036854775807";
  CHECK(refusal({}, false, env) == Exit::kDone);
}

}  // namespace gantrain
