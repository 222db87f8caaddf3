// SPDX-License-Identifier: Apache-2.0
#include "distributed/options.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain {

BackendKind choose_backend(BackendKind asked, bool on_gpu, bool nccl_built) {
  if (asked == BackendKind::kAuto) {
    return on_gpu && nccl_built ? BackendKind::kNccl : BackendKind::kGloo;
  }
  if (asked == BackendKind::kNccl && !on_gpu) {
    fail(Exit::kEnvironment,
         "--backend nccl needs GPUs, this run is on CPUs; use --backend gloo or auto");
  }
  if (asked == BackendKind::kNccl && !nccl_built) {
    fail(Exit::kEnvironment,
         "--backend nccl: this build has no CUDA library; build with GANTRAIN_CUDA=ON");
  }
  return asked;
}

bool has_reducer() {
#ifdef GANTRAIN_REDUCER
  return true;
#else
  return false;
#endif
}

void check_options(const DistOptions& o, int64_t ranks, bool reducer_built) {
  const bool flat = o.ddp_mode == DdpMode::kFlat;
  if (o.ddp_scope == DdpScope::kWhole && o.ddp_mode != DdpMode::kDynamic)
    fail(Exit::kUsage, "--ddp-scope whole goes with --ddp-mode dynamic alone");
  if (o.static_graph && flat)
    fail(Exit::kUsage,
         "dist.static_graph = on: --ddp-mode flat has no graph to keep; leave it off");
  if (o.static_graph && o.ddp_scope == DdpScope::kWhole) {
    fail(Exit::kUsage,
         "dist.static_graph = on: with --ddp-scope whole each network's phase has another graph; "
         "leave it off");
  }
  if (ranks > 1 && !flat && !reducer_built) {
    fail(Exit::kUsage,
         "--ddp-mode {}: this build's LibTorch has another c10d::Reducer than 2.11's; use "
         "--ddp-mode "
         "flat, or build with LibTorch 2.11",
         names(o.ddp_mode)[static_cast<size_t>(o.ddp_mode)]);
  }
}

double collective_timeout(std::optional<double> given, double default_timeout, double watch) {
  if (given) return *given;
  return watch > 0 ? std::max(default_timeout, watch + kTimeoutMargin) : default_timeout;
}

double hang_watch(double watch, bool watch_given, double timeout) {
  constexpr double kShareOfTimeout = 0.8;
  const bool late = watch > 0 && watch >= timeout;
  return late && !watch_given ? kShareOfTimeout * timeout : watch;
}

std::string shared_memory_text(int64_t bytes, int64_t local_world, bool peers_reach) {
  constexpr int64_t kEnough = int64_t{1} << 28;  // some 32 MB for each pair of neighbours
  if (bytes >= kEnough || local_world < 2 || peers_reach) return "";
  return fmt::format(
      "/dev/shm has {} MB, and this node's GPUs cannot read each other's memory: NCCL exchanges "
      "through /dev/shm then and may fail; docker run --shm-size=1g, or an emptyDir of medium "
      "Memory on Kubernetes",
      bytes >> 20);
}

}  // namespace gantrain
