// SPDX-License-Identifier: Apache-2.0
#include "launch/foreign.h"

#include <algorithm>
#include <initializer_list>

#include "launch/nodelist.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A port from 15000 to 31999. The kernel gives ports from 32768 on to others.
int64_t port_of(uint64_t key) { return 15000 + static_cast<int64_t>(key % 17000); }

std::optional<int64_t> first_of(const Env& env, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = number_in(env, name)) return value;
  }
  return std::nullopt;
}

int64_t required(const Env& env, std::initializer_list<const char*> names, const char* who) {
  if (const auto value = first_of(env, names)) return *value;
  fail(Exit::kEnvironment, "{} started this process without {}", who, *names.begin());
}

constexpr int64_t kMostRanks = int64_t{1} << 30;

void check_place(const Tasks& t) {
  const RankInfo& place = t.place;
  const bool fits = place.world >= 1 && place.world <= kMostRanks && place.rank >= 0 &&
                    place.rank < place.world && place.local_world >= 1 && place.local_rank >= 0 &&
                    place.local_rank < place.local_world && place.local_world <= place.world &&
                    place.local_rank <= place.rank;
  if (!fits && t.source == "torchrun") {
    fail(Exit::kEnvironment,
         "RANK={}, WORLD_SIZE={}, LOCAL_RANK={} and LOCAL_WORLD_SIZE={} contradict each other: "
         "ranks count from 0 and are below the sizes",
         place.rank,
         place.world,
         place.local_rank,
         place.local_world);
  }
  if (!fits) {
    fail(Exit::kEnvironment,
         "the {} variables contradict each other: rank {} of {}, local rank {} of {}",
         t.source,
         place.rank,
         place.world,
         place.local_rank,
         place.local_world);
  }
}

void check_nodes(const Tasks& t) {
  const RankInfo& place = t.place;
  const bool fits = place.nodes >= 1 && place.nodes <= place.world && place.node_rank >= 0 &&
                    place.node_rank < place.nodes;
  if (!fits) {
    fail(Exit::kEnvironment,
         "the {} variables contradict each other: node {} of {}, with {} ranks in all",
         t.source,
         place.node_rank,
         place.nodes,
         place.world);
  }
}

// The number of the step of srun; nothing if this process is in none. The batch script and an
// interactive shell have the step ids 0xfffffffb and 0xfffffffa, which do not count.
std::optional<int64_t> step_id(const Env& env) {
  const std::string text = variable(env, "SLURM_STEP_ID").empty() ? variable(env, "SLURM_STEPID")
                                                                  : variable(env, "SLURM_STEP_ID");
  const auto id = parse_int(text);
  if (!id || *id < 0 || *id >= 0xfffffff0) return std::nullopt;
  return id;
}

// A port that is the same in every rank of one mpirun and probably another one in another mpirun.
int64_t mpi_port(const Env& env) {
  for (const char* name : {"PMIX_NAMESPACE",
                           "OMPI_MCA_orte_hnp_uri",
                           "OMPI_MCA_ess_base_jobid",
                           "PMI_PORT",
                           "PMI_KVSNAME",
                           "PBS_JOBID",
                           "LSB_JOBID"}) {
    const std::string value = variable(env, name);
    if (!value.empty()) return port_of(hash64(value));
  }
  return 29500;
}

}  // namespace

std::string variable(const Env& env, const std::string& name) {
  const auto found = env.find(name);
  return found == env.end() ? "" : found->second;
}

std::optional<int64_t> number_in(const Env& env, const std::string& name) {
  const std::string text = variable(env, name);
  if (text.empty()) return std::nullopt;
  const auto value = parse_int(text);
  if (!value) fail(Exit::kEnvironment, "{}={} in the environment is not a number", name, text);
  return value;
}

std::optional<Tasks> torchrun_tasks(const Env& env) {
  const auto rank = number_in(env, "RANK");
  const auto size = number_in(env, "WORLD_SIZE");
  const auto local = number_in(env, "LOCAL_RANK");
  if (!rank || !size || !local) return std::nullopt;
  Tasks t{.source = "torchrun", .place = {.rank = *rank, .world = *size, .local_rank = *local}};
  RankInfo& place = t.place;
  place.local_world = number_in(env, "LOCAL_WORLD_SIZE").value_or(*size);
  check_place(t);
  place.nodes = number_in(env, "GROUP_WORLD_SIZE")
                    .value_or((place.world + place.local_world - 1) / place.local_world);
  place.node_rank =
      first_of(env, {"GROUP_RANK", "NODE_RANK"}).value_or(place.rank / place.local_world);
  check_nodes(t);
  t.store_is_served = lower(variable(env, "TORCHELASTIC_USE_AGENT_STORE")) == "true";
  return t;
}

std::optional<Tasks> slurm_tasks(const Env& env) {
  const auto step = step_id(env);
  if (!step) return std::nullopt;
  Tasks t{.source = "slurm"};
  RankInfo& place = t.place;
  place.rank = required(env, {"SLURM_PROCID"}, "srun");
  place.world = required(env, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "srun");
  place.local_rank = required(env, {"SLURM_LOCALID"}, "srun");
  place.nodes = first_of(env, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}).value_or(1);
  place.node_rank = number_in(env, "SLURM_NODEID").value_or(0);
  std::string per_node = variable(env, "SLURM_STEP_TASKS_PER_NODE");
  if (per_node.empty()) per_node = variable(env, "SLURM_TASKS_PER_NODE");
  place.local_world = place.world;
  if (!per_node.empty()) {
    const std::vector<int64_t> tasks = parse_tasks_per_node(per_node);
    if (place.node_rank < 0 || place.node_rank >= static_cast<int64_t>(tasks.size())) {
      fail(Exit::kEnvironment,
           "SLURM_NODEID={} is not a node of SLURM_STEP_TASKS_PER_NODE={}",
           place.node_rank,
           per_node);
    }
    place.local_world = tasks[static_cast<size_t>(place.node_rank)];
  }
  check_place(t);
  check_nodes(t);
  // On one node the loopback address will do. The host names of containers and of test clusters
  // often do not resolve.
  t.master.host = "127.0.0.1";
  if (place.nodes > 1) {
    std::string hosts = variable(env, "SLURM_STEP_NODELIST");
    if (hosts.empty()) hosts = variable(env, "SLURM_JOB_NODELIST");
    t.master.host = parse_nodelist(hosts).front();
    t.master_fallback = variable(env, "SLURM_LAUNCH_NODE_IPADDR");
  }
  const int64_t job = first_of(env, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or(0);
  t.master.port = port_of(static_cast<uint64_t>(job) * 16 + static_cast<uint64_t>(*step));
  return t;
}

std::optional<Tasks> mpi_tasks(const Env& env) {
  const auto rank = first_of(env, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  const auto size = first_of(env, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (!rank || !size) return std::nullopt;
  Tasks t{.source = "mpi", .place = {.rank = *rank, .world = *size}};
  RankInfo& place = t.place;
  place.local_rank =
      first_of(env, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"})
          .value_or(*rank);
  place.local_world =
      first_of(env, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"})
          .value_or(*size);
  check_place(t);
  place.nodes = (place.world + place.local_world - 1) / place.local_world;
  place.node_rank = place.rank / place.local_world;
  if (place.nodes == 1) t.master.host = "127.0.0.1";
  t.master.port = mpi_port(env);
  return t;
}

}  // namespace gantrain
