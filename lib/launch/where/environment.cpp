// SPDX-License-Identifier: Apache-2.0
#include "launch/where/environment.h"

#include <unistd.h>

#include <algorithm>

#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// The command by which users know the program that started this process.
std::string_view starter(const World& t) {
  if (t.source == "slurm") return "srun";
  return t.source == "mpi" ? "mpirun" : "torchrun";
}

void check_counts(const LaunchOptions& o) {
  if (o.nproc && *o.nproc < 1) fail(Exit::kUsage, "--nproc {}: at least 1, or auto", *o.nproc);
  if (o.nnodes < 1) fail(Exit::kUsage, "--nnodes {}: at least 1", o.nnodes);
  if (o.master_port < 0 || o.master_port > 65535) {
    fail(Exit::kUsage, "--master-port {}: 1 to 65535, or 0 to have one chosen", o.master_port);
  }
}

int64_t ranks_per_node(const LaunchOptions& o, int64_t visible_gpus) {
  if (o.nproc) return *o.nproc;
  return o.device == DeviceKind::kCpu ? 1 : std::max<int64_t>(visible_gpus, 1);
}

// Takes the place of rank 0 from the flags, or else from MASTER_ADDR and MASTER_PORT, or else
// leaves it as it is.
void take_master(World& world, const LaunchOptions& o, const Env& env) {
  const std::string addr = variable(env, "MASTER_ADDR");
  if (!addr.empty()) world.master.host = addr;
  if (!o.master_addr.empty()) world.master.host = o.master_addr;
  world.master.port = number_in(env, "MASTER_PORT").value_or(world.master.port);
  if (o.master_port != 0) world.master.port = o.master_port;
  if (world.master.port < 0 || world.master.port > 65535) {
    fail(Exit::kEnvironment, "MASTER_PORT={}: 1 to 65535 are ports", world.master.port);
  }
}

// A launcher of a node among nodes with so many ranks each. MASTER_* left over in a shell mean
// nothing to a single machine.
World launcher(int64_t nodes, int64_t node_rank, int64_t ranks_of_node, const LaunchOptions& o) {
  World world;
  RankInfo& ranks = world.ranks;
  ranks.nodes = nodes;
  ranks.node_rank = node_rank;
  ranks.local_world = ranks_of_node;
  ranks.world = nodes * ranks_of_node;
  if (nodes == 1) world.master.port = o.master_port;
  if (nodes == 1 && !o.master_addr.empty()) world.master.host = o.master_addr;
  return world;
}

World launcher_by_flags(const LaunchOptions& o, const Env& env, int64_t visible_gpus) {
  World world = launcher(o.nnodes, o.node_rank, ranks_per_node(o, visible_gpus), o);
  if (o.node_rank < 0 || o.node_rank >= o.nnodes) {
    fail(Exit::kUsage,
         "--node-rank {} with --nnodes {}: nodes are numbered from 0 to {}",
         o.node_rank,
         o.nnodes,
         o.nnodes - 1);
  }
  if (o.nnodes == 1) return world;
  world.master.host.clear();
  take_master(world, o, env);
  if (world.master.host.empty() || world.master.port == 0) {
    fail(Exit::kUsage,
         "--nnodes {} needs --master-addr HOST (the machine of node 0) and --master-port PORT, the "
         "same on all nodes",
         o.nnodes);
  }
  return world;
}

// Decides where the ranks meet that another launcher started, or whose launchers it started.
World with_master(World world, const LaunchOptions& o, const Env& env) {
  const std::string told = world.master.host;
  take_master(world, o, env);
  if (world.master.host != told) world.master_fallback.clear();
  if (world.master.host.empty() || world.master.port == 0) {
    fail(Exit::kUsage,
         "{} started {} without saying where rank 0 is: give --master-addr HOST "
         "(the machine of rank 0) and --master-port PORT, or set MASTER_ADDR and MASTER_PORT",
         starter(world),
         sizes_text(world.ranks.world, world.ranks.nodes));
  }
  return world;
}

// Where another launcher started one task per node, each of them starts the ranks of its node.
World launcher_of_node(const World& t, int64_t nproc, const LaunchOptions& o, const Env& env) {
  World world = with_master(t, o, env);
  world.role = World::Role::kLauncher;
  world.ranks = launcher(t.ranks.nodes, t.ranks.node_rank, nproc, o).ranks;
  return world;
}

World among_tasks(const World& t,
                  const LaunchOptions& o,
                  bool flags_given,
                  const Env& env,
                  int64_t visible_gpus) {
  if (t.ranks.world == 1) {  // an interactive shell or a single task: supervised like any local run
    World world = launcher_by_flags(o, env, visible_gpus);
    if (world.ranks.nodes == 1) world.source = t.source;
    return world;
  }
  if (o.nnodes > 1 && flags_given && o.nnodes != t.ranks.nodes) {
    fail(Exit::kUsage,
         "--nnodes {}, but {} started tasks on {}: leave --nnodes out",
         o.nnodes,
         starter(t),
         counted(t.ranks.nodes, "node"));
  }
  const int64_t nproc = ranks_per_node(o, visible_gpus);
  if (t.ranks.world == t.ranks.nodes && nproc > 1) return launcher_of_node(t, nproc, o, env);
  if (o.nproc && flags_given && *o.nproc != t.ranks.local_world) {
    fail(Exit::kUsage,
         "--nproc {}, but {} started {} on this node, and each task is a rank: leave --nproc "
         "out, or start one task per node",
         *o.nproc,
         starter(t),
         counted(t.ranks.local_world, "task"));
  }
  return with_master(t, o, env);
}

World under_torchrun(const World& t, const LaunchOptions& o, bool flags_given, const Env& env) {
  if (flags_given && (o.nproc || o.nnodes > 1)) {
    fail(Exit::kUsage,
         "RANK={} and WORLD_SIZE={} are set, so a launcher (torchrun?) has started this process as "
         "a rank already: leave --nproc and --nnodes out, or unset RANK WORLD_SIZE LOCAL_RANK",
         t.ranks.rank,
         t.ranks.world);
  }
  const bool has_addr = !o.master_addr.empty() || !variable(env, "MASTER_ADDR").empty();
  const bool has_port = o.master_port != 0 || !variable(env, "MASTER_PORT").empty();
  if (!has_addr || !has_port) {
    fail(Exit::kEnvironment,
         "RANK, WORLD_SIZE and LOCAL_RANK are set, but not {}: set it to where rank 0 listens",
         has_addr ? "MASTER_PORT" : "MASTER_ADDR");
  }
  return with_master(t, o, env);
}

// A pod of a PyTorchJob or TrainJob is a node, whose ranks this process starts.
World in_pod(const Pod& pod, const LaunchOptions& o, const Env& env, int64_t visible_gpus) {
  const int64_t nproc = o.nproc || !pod.ranks ? ranks_per_node(o, visible_gpus) : *pod.ranks;
  World world = launcher(pod.nodes, pod.node_rank, nproc, o);
  world.source = "kubernetes";
  world.least_nodes = pod.least_nodes;
  if (pod.nodes == 1) return world;
  world.master = pod.master;
  if (!o.master_addr.empty()) world.master.host = o.master_addr;
  if (o.master_port != 0) world.master.port = o.master_port;
  if (world.master.host.empty() || world.master.port < 1 || world.master.port > 65535) {
    fail(Exit::kEnvironment,
         "this is node {} of {} by RANK and WORLD_SIZE or PET_NNODES, but {}: set it to where node "
         "0 listens",
         pod.node_rank,
         pod.nodes,
         world.master.host.empty()
             ? "MASTER_ADDR is not set"
             : fmt::format("MASTER_PORT is {}", world.master.port == 0 ? "not set" : "no port"));
  }
  // Where the first pod's name does not resolve within itself, it is still this machine.
  if (pod.node_rank == 0) world.master_fallback = variable(env, "MASTER_ADDR");
  return world;
}

// Refuses an environment that is almost a worker's, or that of a batch script without srun. There,
// each of several processes would train alone, as if it were the only one.
void refuse_half_a_world(const Env& env) {
  std::vector<std::string> present, absent;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    (variable(env, name).empty() ? absent : present).emplace_back(name);
    number_in(env, name);
  }
  if (!present.empty()) {
    fail(Exit::kEnvironment,
         "{} {} set, but not {}: set all of them and MASTER_ADDR and MASTER_PORT to be a rank of "
         "another launcher's world, unset them, or give --nproc to start a world here",
         join(present, " and "),
         present.size() == 1 ? "is" : "are",
         join(absent, " and "));
  }
  const auto nodes = number_in(
      env, variable(env, "SLURM_JOB_NUM_NODES").empty() ? "SLURM_NNODES" : "SLURM_JOB_NUM_NODES");
  if (!variable(env, "SLURM_JOB_ID").empty() && nodes.value_or(1) > 1) {
    fail(Exit::kUsage,
         "this Slurm job has {} nodes, but srun did not start this process: use \"srun {} "
         "...\", or give --nproc to train on this node alone",
         *nodes,
         program());
  }
}

// Refuses to train as the only rank in a batch script that has asked for several tasks: only srun
// starts them. Where the GPUs of the node make as many ranks as there are tasks, all is as meant.
void refuse_tasks_without_srun(const LaunchOptions& o, const Env& env, int64_t visible_gpus) {
  const int64_t tasks = number_in(env, "SLURM_NTASKS").value_or(1);
  const int64_t ranks = ranks_per_node(o, visible_gpus);
  if (variable(env, "SLURM_JOB_ID").empty() || tasks <= 1 || ranks == tasks) return;
  fail(
      Exit::kEnvironment,
      "this Slurm job has {} tasks, but srun did not start this process, which would train with {} "
      "alone: use \"srun {} ...\", or give --nproc to say how many ranks to start here",
      tasks,
      counted(ranks, "rank"),
      program());
}

constexpr double kUsualMargin = 300;
constexpr double kShareOfShort = 0.1;
constexpr int64_t kLastEnd = 253'402'300'799;  // the year 9999: an end that never comes

}  // namespace

Env current_environment() {
  Env env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

namespace {

// The task of srun or mpirun that this process is. Within a step of srun, such as an interactive
// shell, it is mpirun that came last: srun sets neither of these two, and PMI_RANK itself. Of a
// single task mpirun says nothing that the step would not say better.
std::optional<World> task_of_launcher(const Env& env) {
  const bool by_mpirun =
      !variable(env, "OMPI_COMM_WORLD_RANK").empty() || !variable(env, "MPI_LOCALRANKID").empty();
  auto task = by_mpirun ? mpi_task(env) : std::nullopt;
  if (task && task->ranks.world > 1) return task;
  task = slurm_task(env);
  return task ? task : mpi_task(env);
}

World detect(const LaunchOptions& options, bool flags_given, const Env& env, int64_t visible_gpus) {
  check_counts(options);
  if (const auto t = torchrun_task(env)) return under_torchrun(*t, options, flags_given, env);
  if (const auto task = task_of_launcher(env))
    return among_tasks(*task, options, flags_given, env, visible_gpus);
  const bool nodes_given = flags_given && (options.nnodes > 1 || options.node_rank > 0);
  if (const auto pod = nodes_given ? std::nullopt : pod_of(env))
    return in_pod(*pod, options, env, visible_gpus);
  if (!flags_given) {
    refuse_half_a_world(env);
    refuse_tasks_without_srun(options, env, visible_gpus);
  }
  return launcher_by_flags(options, env, visible_gpus);
}

}  // namespace

std::string no_restarts_text(const World& world, int64_t restarts) {
  if (restarts == 0 || world.role != World::Role::kWorker || world.ranks.rank != 0) return "";
  return fmt::format(
      "--max-restarts {} does nothing here: {} has started the ranks, and gantrain cannot start "
      "them again",
      restarts,
      starter(world));
}

std::string without_brackets(const std::string& host) {
  const bool has = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

World detect_world(const LaunchOptions& options,
                   bool flags_given,
                   const Env& env,
                   int64_t visible_gpus) {
  World world = detect(options, flags_given, env, visible_gpus);
  world.master.host = without_brackets(world.master.host);
  return world;
}

int64_t first_rank(const World& world) { return world.ranks.node_rank * world.ranks.local_world; }

AllocationStop allocation_stop(const LaunchOptions& options, const Env& env, double now) {
  const bool given = options.time_margin.has_value();
  if (given && options.time_margin->seconds == 0) return {};
  const auto end = number_in(env, "SLURM_JOB_END_TIME");
  if (!end) {
    if (!given) return {};
    return {std::nullopt,
            "margin  --time-margin: no SLURM_JOB_END_TIME says when the allocation ends, so only "
            "signals and --stop-after stop this run"};
  }
  if (*end < 0)
    fail(Exit::kEnvironment, "SLURM_JOB_END_TIME={} in the environment is before 1970", *end);
  if (*end > kLastEnd) return {};
  const double left = static_cast<double>(*end) - now;
  if (!given && left <= 0) {
    return {
        std::nullopt,
        fmt::format("margin  none: SLURM_JOB_END_TIME={} has passed; is the clock right?", *end)};
  }
  const double margin =
      given ? options.time_margin->seconds : std::min(kUsualMargin, kShareOfShort * left);
  if (left <= margin) {
    return {0,
            fmt::format("margin  the allocation ends at {}, which is less than --time-margin {} "
                        "away: the run stops after one iteration",
                        timestamp(static_cast<double>(*end)),
                        short_duration(margin))};
  }
  return {left - margin,
          fmt::format("margin  the allocation ends at {}: the run saves and stops {} before",
                      timestamp(static_cast<double>(*end)),
                      short_duration(margin))};
}

}  // namespace gantrain
