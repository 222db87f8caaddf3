// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "util/field.h"

namespace gantrain {

enum class BackendKind { kAuto, kNccl, kGloo };
enum class DdpMode { kWrapper, kDynamic, kFlat };
enum class DdpScope { kNet, kWhole };
enum class FindUnused { kAuto, kOn, kOff };
enum class BufferSync { kMean, kRank0, kOff };
enum class Preflight { kAuto, kOn, kOff, kOnly };
enum class Compress { kNone, kFp16, kBf16 };

constexpr std::array<std::string_view, 3> names(BackendKind) { return {"auto", "nccl", "gloo"}; }
constexpr std::array<std::string_view, 3> names(DdpMode) { return {"wrapper", "dynamic", "flat"}; }
constexpr std::array<std::string_view, 2> names(DdpScope) { return {"net", "whole"}; }
constexpr std::array<std::string_view, 3> names(FindUnused) { return {"auto", "on", "off"}; }
constexpr std::array<std::string_view, 3> names(BufferSync) { return {"mean", "rank0", "off"}; }
constexpr std::array<std::string_view, 4> names(Preflight) { return {"auto", "on", "off", "only"}; }
constexpr std::array<std::string_view, 3> names(Compress) { return {"none", "fp16", "bf16"}; }

struct DistOptions {
  static constexpr const char* kSection = "dist.";
  BackendKind backend = BackendKind::kAuto;
  DdpMode ddp_mode = DdpMode::kDynamic;
  DdpScope ddp_scope = DdpScope::kNet;
  FindUnused find_unused = FindUnused::kAuto;
  BufferSync broadcast_buffers = BufferSync::kMean;
  double bucket_mb = 25;  // DistributedDataParallel's defaults
  double first_bucket_mb = 1;
  bool gradient_as_bucket_view = true;
  bool static_graph = false;
  Compress compress = Compress::kNone;
  bool sync_bn = false;
  Duration timeout{600};
  Preflight preflight = Preflight::kAuto;
  int64_t check_every = 4;
};

template <class Field>
void fields(DistOptions& o, Field&& field) {
  field("backend", o.backend, "process group: nccl on GPUs, gloo on CPUs");
  field(
      "ddp_mode",
      o.ddp_mode,
      "how gradients become their mean over ranks: wrapper and dynamic send them in buckets while "
      "the backward pass goes on (wrapper as DistributedDataParallel does), flat all at once "
      "after it");
  field("ddp_scope",
        o.ddp_scope,
        "with ddp_mode=dynamic: each network's gradients are sent in its own turn, or those of the "
        "whole GAN every time (2 to 3 times the traffic)");
  field("find_unused",
        o.find_unused,
        "whether each backward pass is searched for parameters that get no gradient, which takes "
        "time; "
        "auto: only in recipes that may have such parameters. It also lets a network grow without "
        "new gradient buckets");
  field("broadcast_buffers",
        o.broadcast_buffers,
        "BatchNorm's running statistics after each iteration: their mean over ranks, those of rank "
        "0, or each rank's own");
  field("bucket_mb", o.bucket_mb, between(0.001, 4096), "size of a gradient bucket in MiB");
  field("first_bucket_mb",
        o.first_bucket_mb,
        between(0.001, 4096),
        "size of the bucket that is ready first in MiB");
  field("gradient_as_bucket_view",
        o.gradient_as_bucket_view,
        "gradients live in the buckets, saving one copy");
  field("static_graph",
        o.static_graph,
        "says that the backward pass is the same in every iteration, which saves time; where it is "
        "not, "
        "the run ends. Refused for recipes in which it differs");
  field("compress", o.compress, "gradients go over the wire in half precision");
  field(
      "sync_bn",
      o.sync_bn,
      "batch norm over the batches of all ranks together: two more all-reduces for each layer and "
      "pass");
  field(
      "check_every",
      o.check_every,
      at_least(0),
      "ticks between two checks that all ranks hold the same weights; 0: only at the start; unless "
      "set, they take less than 1 % of the time");
  field("timeout",
        o.timeout,
        between(1, 1e7),
        "longest wait for a peer in a collective or at the rendezvous");
  field("preflight",
        o.preflight,
        "before the first iteration each rank computes, copies and sends a little; a rank, link or "
        "node under 70 % of the median is named, with on: refused; auto: with several GPUs or "
        "nodes; only: as on, and trains nothing (gantrain doctor --nproc 8)");
}

// Decides what kAuto means: nccl on GPUs, gloo on CPUs. `nccl_built`: this build has the CUDA
// library. Throws UserError(kEnvironment) if nccl is asked for and cannot be used.
BackendKind choose_backend(BackendKind asked, bool on_gpu, bool nccl_built);

// True if this build can use c10d::Reducer, which wrapper and dynamic mode need.
bool has_reducer();

// Throws UserError(kUsage) if options exclude each other or if this build cannot do them.
void check_options(const DistOptions& options, int64_t ranks, bool reducer_built = has_reducer());

// By how many seconds a collective outlasts the launcher's watch at least, where nobody said else.
inline constexpr double kTimeoutMargin = 60;

// The seconds after which a collective gives up: the user's value, else the default, or the
// launcher's watch and a margin if that is longer, since the launcher sees all ranks and can say
// which one is behind. `watch` is launch.hang_timeout in seconds; 0: there is no watch.
double collective_timeout(std::optional<double> given, double default_timeout, double watch);

// The seconds after which the launcher takes a silent rank as hanging, where collectives give up
// after `timeout` seconds: `watch`, or, if nobody gave it and it would come too late, four fifths
// of the timeout. 0: there is no watch.
double hang_watch(double watch, bool watch_given, double timeout);

// Says what is wrong with a shared memory of so many bytes for NCCL, which exchanges through it
// between this node's GPUs where they cannot read each other's memory; "" if nothing is.
std::string shared_memory_text(int64_t bytes, int64_t local_world, bool peers_reach);

}  // namespace gantrain
