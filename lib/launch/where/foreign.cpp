// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include "launch/where/environment.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr size_t kMaxHosts = 65536;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  fail(Exit::kEnvironment, "cannot read the Slurm list \"{}\": {}", text, why);
}

int64_t digits(std::string_view text, std::string_view whole) {
  const bool plain = !text.empty() && text.size() <= 12 &&
                     std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!plain) refuse(whole, fmt::format("\"{}\" is not a number", text));
  return *parse_int(text);
}

// "1,08-10" -> "1" "08" "09" "10"
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view whole) {
  std::vector<std::string> all;
  for (const std::string& range : split(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string low = range.substr(0, dash);
    const int64_t first = digits(low, whole);
    const int64_t last = dash == std::string::npos ? first : digits(range.substr(dash + 1), whole);
    if (last < first) refuse(whole, fmt::format("range \"{}\" goes down", range));
    if (last - first >= static_cast<int64_t>(kMaxHosts - std::min(all.size(), kMaxHosts)))
      refuse(whole, "more than 65536 hosts");
    for (int64_t i = first; i <= last; ++i) all.push_back(fmt::format("{:0{}}", i, low.size()));
  }
  return all;
}

// Reads one item of the list. Its grammar is prefix {"[" ranges "]" prefix}; no prefix follows the
// last bracket.
void expand_item(std::string_view item, std::string_view whole, std::vector<std::string>& hosts) {
  std::vector<std::string> names{""};
  std::string_view rest = item;
  while (!rest.empty()) {
    const size_t open = rest.find('[');
    const std::string_view prefix = rest.substr(0, open);
    if (prefix.find(']') != std::string_view::npos) refuse(whole, "\"]\" without \"[\"");
    if (open == std::string_view::npos && rest.size() != item.size()) {
      refuse(whole, "text after the last bracket");
    }
    std::vector<std::string> endings{""};
    if (open != std::string_view::npos) {
      const size_t close = rest.find(']', open);
      if (close == std::string_view::npos) refuse(whole, "\"[\" without \"]\"");
      endings = expand_ranges(rest.substr(open + 1, close - open - 1), whole);
      rest = rest.substr(close + 1);
    } else {
      rest = {};
    }
    if (names.size() * endings.size() + hosts.size() > kMaxHosts) {
      refuse(whole, "more than 65536 hosts");
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& ending : endings) {
        longer.push_back(fmt::format("{}{}{}", name, prefix, ending));
      }
    }
    names = std::move(longer);
  }
  hosts.insert(hosts.end(), names.begin(), names.end());
}

}  // namespace

std::vector<std::string> parse_nodelist(std::string_view text) {
  std::vector<std::string> hosts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    const bool ends = i == text.size() || (!inside && (text[i] == ',' || text[i] == ' '));
    if (!ends) continue;
    if (i > begin) expand_item(text.substr(begin, i - begin), text, hosts);
    begin = i + 1;
  }
  if (hosts.empty()) refuse(text, "no host in it");
  return hosts;
}

std::vector<int64_t> parse_tasks_per_node(std::string_view text) {
  std::vector<int64_t> tasks;
  for (const std::string& item : split(text, ',')) {
    const size_t open = item.find("(x");
    const int64_t count = digits(item.substr(0, open), text);
    int64_t nodes = 1;
    if (open != std::string::npos) {
      if (!ends_with(item, ")")) refuse(text, "\"(x\" without \")\"");
      nodes = digits(item.substr(open + 2, item.size() - open - 3), text);
    }
    if (tasks.size() + static_cast<size_t>(nodes) > kMaxHosts)
      refuse(text, "more than 65536 nodes");
    tasks.insert(tasks.end(), static_cast<size_t>(nodes), count);
  }
  return tasks;
}

namespace {

// A port from 15000 to 31999. The kernel gives ports from 32768 on to others.
int64_t port_of(uint64_t key) { return 15000 + static_cast<int64_t>(key % 17000); }

// The first of the variables that is there and not empty.
std::string first_text(const Env& env, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const std::string value = variable(env, name); !value.empty()) return value;
  }
  return "";
}

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

World task_of(const char* source, const RankInfo& ranks) {
  return {.role = World::Role::kWorker, .source = source, .ranks = ranks, .master = {.host = ""}};
}

void check_place(const World& t) {
  const RankInfo& place = t.ranks;
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

void check_nodes(const World& t) {
  const RankInfo& place = t.ranks;
  const bool fits = place.nodes >= 1 && place.nodes <= place.world && place.node_rank >= 0 &&
                    place.node_rank < place.nodes;
  if (!fits) {
    fail(Exit::kEnvironment,
         "the {} variables contradict each other: node {} of {}, with {} in all",
         t.source,
         place.node_rank,
         place.nodes,
         counted(place.world, "rank"));
  }
}

// The number of the step of srun; nothing if this process is in none. The batch script and an
// interactive shell have the step ids 0xfffffffb and 0xfffffffa, which do not count.
std::optional<int64_t> step_id(const Env& env) {
  const auto id = parse_int(first_text(env, {"SLURM_STEP_ID", "SLURM_STEPID"}));
  if (!id || *id < 0 || *id >= 0xfffffff0) return std::nullopt;
  return id;
}

// A port that is the same in every rank of one mpirun and probably another one in another mpirun.
int64_t mpi_port(const Env& env) {
  const std::string job = first_text(env,
                                     {"PMIX_NAMESPACE",
                                      "OMPI_MCA_orte_hnp_uri",
                                      "OMPI_MCA_ess_base_jobid",
                                      "PMI_PORT",
                                      "PMI_KVSNAME",
                                      "PBS_JOBID",
                                      "LSB_JOBID"});
  return job.empty() ? 29500 : port_of(hash64(job));
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

std::optional<World> torchrun_task(const Env& env) {
  const auto rank = number_in(env, "RANK");
  const auto size = number_in(env, "WORLD_SIZE");
  const auto local = number_in(env, "LOCAL_RANK");
  if (!rank || !size || !local) return std::nullopt;
  World t = task_of("torchrun", {.rank = *rank, .world = *size, .local_rank = *local});
  RankInfo& place = t.ranks;
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

std::optional<World> slurm_task(const Env& env) {
  const auto step = step_id(env);
  if (!step) return std::nullopt;
  World t = task_of("slurm", {});
  RankInfo& place = t.ranks;
  place.rank = required(env, {"SLURM_PROCID"}, "srun");
  place.world = required(env, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "srun");
  place.local_rank = required(env, {"SLURM_LOCALID"}, "srun");
  place.nodes = first_of(env, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}).value_or(1);
  place.node_rank = number_in(env, "SLURM_NODEID").value_or(0);
  const std::string per_node =
      first_text(env, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
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
    const std::string hosts = first_text(env, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
    t.master.host = parse_nodelist(hosts).front();
    t.master_fallback = variable(env, "SLURM_LAUNCH_NODE_IPADDR");
  }
  const int64_t job = first_of(env, {"SLURM_JOB_ID", "SLURM_JOBID"}).value_or(0);
  t.master.port = port_of(static_cast<uint64_t>(job) * 16 + static_cast<uint64_t>(*step));
  return t;
}

std::optional<World> mpi_task(const Env& env) {
  const auto rank = first_of(env, {"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  const auto size = first_of(env, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (!rank || !size) return std::nullopt;
  World t = task_of("mpi", {.rank = *rank, .world = *size});
  RankInfo& place = t.ranks;
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

namespace {

constexpr int64_t kMostNodes = int64_t{1} << 20;
constexpr int64_t kEndpointPort = 29400;  // torchrun's, where --rdzv-endpoint names none

bool has(const Env& env, const char* name) { return !variable(env, name).empty(); }

// "3", or as --nnodes has it a range, "1:3"; with one end, "3:3", it is that number.
void take_nodes(const std::string& text, Pod& pod) {
  const std::vector<std::string> ends = split(text, ':');
  const auto least = parse_int(ends.front());
  const auto most = parse_int(ends.back());
  if (!least || !most || ends.size() > 2)
    fail(Exit::kEnvironment, "PET_NNODES={} in the environment is not a number", text);
  if (*least < 1 || *least > *most) {
    fail(Exit::kEnvironment, "PET_NNODES={}: the range goes from 1 or more upwards", text);
  }
  pod.nodes = *most;
  if (*least < *most) pod.least_nodes = *least;
}

// "auto", "gpu" and "cpu" leave the number to the GPUs that are visible.
std::optional<int64_t> ranks_in(const Env& env) {
  const std::string text = lower(variable(env, "PET_NPROC_PER_NODE"));
  if (text.empty() || text == "auto" || text == "gpu" || text == "cpu") return std::nullopt;
  const auto ranks = parse_int(text);
  if (!ranks || *ranks < 1 || *ranks > kMostNodes) {
    fail(Exit::kEnvironment,
         "PET_NPROC_PER_NODE={} in the environment: a number from 1 on, auto, gpu or cpu",
         text);
  }
  return ranks;
}

Endpoint master_in(const Env& env) {
  Endpoint master{.host = variable(env, "PET_MASTER_ADDR")};
  master.port = number_in(env, "PET_MASTER_PORT").value_or(0);
  const std::string endpoint = variable(env, "PET_RDZV_ENDPOINT");
  if (master.host.empty() && !endpoint.empty()) {
    const size_t colon = endpoint.rfind(':');
    master.host = endpoint.substr(0, colon);
    master.port = kEndpointPort;
    if (colon != std::string::npos) {
      const auto port = parse_int(endpoint.substr(colon + 1));
      if (!port) fail(Exit::kEnvironment, "PET_RDZV_ENDPOINT={}: HOST:PORT is needed", endpoint);
      master.port = *port;
    }
  }
  if (master.host.empty()) master.host = variable(env, "MASTER_ADDR");
  if (master.port == 0) master.port = number_in(env, "MASTER_PORT").value_or(0);
  return master;
}

// The operator of some versions calls the first pod "localhost" in its own environment. That is no
// address for the others, which are told the pod's name.
void name_this_pod(Pod& pod, const Env& env) {
  const bool local = pod.master.host == "localhost" || pod.master.host == "127.0.0.1";
  if (!local || pod.node_rank != 0 || pod.nodes == 1 || !has(env, "KUBERNETES_SERVICE_HOST"))
    return;
  if (has(env, "HOSTNAME")) pod.master.host = variable(env, "HOSTNAME");
}

void check_pod(const Pod& pod, const std::string& size_name, const std::string& rank_name) {
  const bool fits =
      pod.nodes >= 1 && pod.nodes <= kMostNodes && pod.node_rank >= 0 && pod.node_rank < pod.nodes;
  if (fits) return;
  fail(Exit::kEnvironment,
       "{}={} and {}={} contradict each other: the first counts from 0 and is below the second",
       rank_name,
       pod.node_rank,
       size_name,
       pod.nodes);
}

}  // namespace

std::optional<Pod> pod_of(const Env& env) {
  if (!first_text(env, {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"}).empty())
    return std::nullopt;
  const bool named = has(env, "PET_NNODES");
  if (!named && !(has(env, "RANK") && has(env, "WORLD_SIZE"))) return std::nullopt;
  Pod pod{.ranks = ranks_in(env), .master = master_in(env)};
  if (named) {
    take_nodes(variable(env, "PET_NNODES"), pod);
  } else {
    pod.nodes = number_in(env, "WORLD_SIZE").value_or(1);
  }
  if (!named && pod.ranks) {  // WORLD_SIZE counts ranks where the operator knows how many there are
    if (pod.nodes % *pod.ranks != 0) {
      fail(Exit::kEnvironment,
           "WORLD_SIZE={} and PET_NPROC_PER_NODE={} contradict each other",
           pod.nodes,
           *pod.ranks);
    }
    pod.nodes /= *pod.ranks;
  }
  const char* rank_name = has(env, "PET_NODE_RANK") ? "PET_NODE_RANK" : "RANK";
  const auto rank = number_in(env, rank_name);
  if (!rank && pod.nodes > 1) {
    fail(Exit::kEnvironment,
         "PET_NNODES={} is set, but not which node this is: set PET_NODE_RANK, or RANK",
         pod.nodes);
  }
  pod.node_rank = rank.value_or(0);
  check_pod(pod, named ? "PET_NNODES" : "WORLD_SIZE", rank_name);
  name_this_pod(pod, env);
  return pod;
}

}  // namespace gantrain
