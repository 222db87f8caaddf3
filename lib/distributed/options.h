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
enum class Compress { kNone, kFp16, kBf16 };

constexpr std::array<std::string_view, 3> names(BackendKind) { return {"auto", "nccl", "gloo"}; }
constexpr std::array<std::string_view, 3> names(DdpMode) { return {"wrapper", "dynamic", "flat"}; }
constexpr std::array<std::string_view, 2> names(DdpScope) { return {"net", "whole"}; }
constexpr std::array<std::string_view, 3> names(FindUnused) { return {"auto", "on", "off"}; }
constexpr std::array<std::string_view, 3> names(BufferSync) { return {"mean", "rank0", "off"}; }
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
  int64_t check_every = 4;
};

template <class Field>
void fields(DistOptions& o, Field&& field) {
  field("backend", o.backend, "process group: nccl on GPUs, gloo on CPUs");
  field("ddp_mode",
        o.ddp_mode,
        "gradient synchronisation: armed by forwards, by the loss, or one flat all-reduce");
  field("ddp_scope",
        o.ddp_scope,
        "dynamic mode: one reducer a network, or one for the whole GAN (2-3 times the traffic)");
  field(
      "find_unused",
      o.find_unused,
      "search the graph for parameters without gradient; auto: off where the recipe promises that "
      "there are none; on keeps its reducers when a network grows, else they are built anew");
  field("broadcast_buffers",
        o.broadcast_buffers,
        "BatchNorm statistics each iteration: mean over ranks, rank 0's, or own");
  field("bucket_mb", o.bucket_mb, between(0.001, 4096), "size of a gradient bucket in MiB");
  field("first_bucket_mb",
        o.first_bucket_mb,
        between(0.001, 4096),
        "size of the bucket that is ready first in MiB");
  field("gradient_as_bucket_view",
        o.gradient_as_bucket_view,
        "gradients live in the buckets, saving one copy");
  field(
      "static_graph",
      o.static_graph,
      "every iteration has the first one's graph, and one that has not is an error; refused where "
      "a recipe's phases differ");
  field("compress", o.compress, "gradients go over the wire in half precision");
  field("sync_bn",
        o.sync_bn,
        "batch norm by the statistics of all ranks' batches together: two more all-reduces a layer "
        "and pass");
  field("check_every",
        o.check_every,
        at_least(0),
        "ticks between two checks that all ranks hold the same weights; 0: at the start alone");
  field("timeout",
        o.timeout,
        between(1, 1e7),
        "longest wait for a peer in a collective or at the rendezvous");
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

}  // namespace gantrain
