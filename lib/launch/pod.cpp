// SPDX-License-Identifier: Apache-2.0
#include "launch/pod.h"

#include "launch/foreign.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kMostNodes = int64_t{1} << 20;
constexpr int64_t kEndpointPort = 29400;  // torchrun's, where --rdzv-endpoint names none

bool has(const Env& env, const char* name) { return !variable(env, name).empty(); }

// "3", or a range with one end as "3:3": the run has as many nodes from start to end.
int64_t nodes_in(const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  const auto least = parse_int(ends.front());
  const auto most = parse_int(ends.back());
  if (!least || !most || ends.size() > 2)
    fail(Exit::kEnvironment, "PET_NNODES={} in the environment is not a number", text);
  if (*least != *most) {
    fail(Exit::kEnvironment,
         "PET_NNODES={}: gantrain's runs do not grow or shrink; give one number of nodes, without "
         "an elasticPolicy",
         text);
  }
  return *least;
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
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK"}) {
    if (has(env, name)) return std::nullopt;
  }
  const bool named = has(env, "PET_NNODES");
  if (!named && !(has(env, "RANK") && has(env, "WORLD_SIZE"))) return std::nullopt;
  Pod pod{.ranks = ranks_in(env), .master = master_in(env)};
  pod.nodes =
      named ? nodes_in(variable(env, "PET_NNODES")) : number_in(env, "WORLD_SIZE").value_or(1);
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
