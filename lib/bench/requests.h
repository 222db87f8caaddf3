// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/common.h"
#include "bench/ddp/plan.h"
#include "config/config.h"
#include "launch/options.h"
#include "util/field.h"

// What the thin program asks the benchmarks to measure. What a command line can say stands in the
// requests' fields(). No torch.

namespace gantrain {

inline constexpr Check kBenchCounts = between(1, 10000);
inline constexpr Check kBenchThreads = between(1, 1024);
inline constexpr Said kBenchAgain{.last_wins = true};
inline constexpr const char* kBenchTurns = "measurements of each, in turns";
inline constexpr const char* kBenchJson = "one JSON line, last on standard output";

// A number of ranks that train a pair of networks. The configuration of each rank is without the
// keys of gradient synchronisation, which the benchmark sets.
struct BenchWorld {
  int64_t ranks = 2;
  Config config;
};

// A pair of networks to time.
struct BenchNet {
  std::string name;
  std::string about;
  std::vector<std::string> peer;  // arguments of the peer's script; empty: no peer
  std::vector<BenchWorld> worlds;
};

// `bench ddp`: time iterations in every way of synchronising gradients.
struct BenchDdpRequest {
  std::vector<BenchNet> nets;
  int64_t rounds = 3;  // measurements of each way
  int64_t steps = 4;   // timed iterations of a measurement
  int64_t pairs = 6;   // measurements of ours and the peer's; 0: no peer
  Peers peers;
  bool json = false;
  // --simulate: measure what one rank does, and say what more ranks would take. Of each net,
  // worlds[0] is one rank; the others are what the model is checked against.
  std::optional<PlanRequest> plan;
};

template <class Field>
void fields(BenchDdpRequest& o, Field&& field) {
  field("rounds", o.rounds, kBenchCounts, "measurements of each way, in turns");
  field("steps", o.steps, kBenchCounts, "timed iterations of a measurement");
  field("pairs",
        o.pairs,
        between(0, 10000),
        "pairs of measurements, gantrain's and PyTorch's; 0: no comparison");
  field("python",
        o.peers.python,
        kBenchAgain,
        "a Python that has torch 2.11, to compare with (GANTRAIN_PYTHON)");
  field("json", o.json, kBenchJson);
}

// A program under PyTorch that does the same as one of ours.
struct BenchPeer {
  std::string name;  // "PyTorch, channels-last"
  PeerCall call;     // without the arguments that the benchmark adds
};

// A pair of networks of which one training step is timed.
struct BenchStepNet {
  std::string name;
  std::string about;
  Config config;
  std::vector<BenchPeer> peers;
};

// `bench step`: time an iteration of training, its phases, and its convolutions and products alone.
struct BenchStepRequest {
  std::vector<BenchStepNet> nets;
  bool profile = false;   // print what the time goes to, by operator, and measure nothing else
  bool count = false;     // count what a GPU would be given, and measure nothing
  bool ref = false;       // time train.kernels=ref too
  bool no_floor = false;  // do not time the convolutions and products alone
  int64_t pairs = 3;      // measurements of each, in turns
  int64_t warm = 2;       // iterations before those that are timed
  int64_t steps = 2;      // timed iterations of a measurement
  int64_t threads = 1;
  Peers peers;             // without a python: none
  std::string any_script;  // one of the peers' scripts: where it is, the others are
  DeviceKind device = DeviceKind::kCpu;
  bool cuda = false;  // compute on the first visible GPU
  bool json = false;
};

template <class Field>
void fields(BenchStepRequest& o, Field&& field) {
  field("profile", o.profile, "only what the time goes to, by operator");
  field("count",
        o.count,
        "only what an iteration gives to a GPU: kernels, in CUDA graphs and outside of them, and "
        "the bytes that they read and write; nothing is computed, no GPU is needed");
  field("ref", o.ref, "time train.kernels=ref too");
  field("no_floor", o.no_floor, "do not time convolutions and products alone");
  field("pairs", o.pairs, kBenchCounts, kBenchTurns);
  field("warm", o.warm, kBenchCounts, "iterations before those that are timed");
  field("steps", o.steps, kBenchCounts, "timed iterations of a measurement");
  field("threads", o.threads, kBenchThreads, "threads that compute");
  field(
      "python",
      o.peers.python,
      kBenchAgain,
      "a Python that has torch 2.11, to compare with (GANTRAIN_PYTHON); \"\": nothing is compared");
  field("device", o.device, said_again("--device"), "cpu, cuda, or auto: a GPU where one is");
}

// `bench ops`: time the operators that move memory, on tensors [batch, channels, pixels, pixels].
struct BenchOpsRequest {
  int64_t rounds = 5;
  int64_t threads = 1;
  int64_t batch = 8;
  int64_t channels = 256;
  int64_t pixels = 64;
  DeviceKind device = DeviceKind::kCpu;
  bool cuda = false;                  // on the first visible GPU
  std::string dtype = "float32";      // of the tensors; float16 and bfloat16 only on a GPU
  std::string layout = "contiguous";  // or channels-last
  bool json = false;
};

template <class Field>
void fields(BenchOpsRequest& o, Field&& field) {
  field("rounds", o.rounds, kBenchCounts, kBenchTurns);
  field("threads", o.threads, kBenchThreads, "threads that compute");
  field("batch", o.batch, kBenchCounts, "pictures of a tensor (GPU: 32)");
  field("channels", o.channels, kBenchCounts, "its channels (GPU: 128)");
  field("pixels", o.pixels, between(4, 4096), "its height and width, even (GPU: 128)");
  field("device", o.device, said_again("--device"), "cpu, cuda, or auto: a GPU where one is");
  field("dtype", o.dtype, said_again("--dtype"), "float32; on a GPU float16 and bfloat16 too");
  field("layout", o.layout, said_again("--layout"), "contiguous or channels-last");
  field("json", o.json, kBenchJson);
}

// `bench data`: time the loader on pictures that are made for it.
struct BenchDataRequest {
  int64_t rounds = 5;
  int64_t pictures = 200;  // of each format
  int64_t size = 256;      // pixels a side, as stored
  int64_t resolution = 256;
  Peers peers;  // of a python that has Pillow; without one: none
  bool json = false;
};

template <class Field>
void fields(BenchDataRequest& o, Field&& field) {
  field("rounds", o.rounds, kBenchCounts, kBenchTurns);
  field("pictures", o.pictures, kBenchCounts, "pictures of each format");
  field("size", o.size, between(8, 4096), "pixels a side, as stored");
  field("resolution", o.resolution, between(8, 4096), "pixels a side, as loaded");
  field("python",
        o.peers.python,
        kBenchAgain,
        "a Python that has Pillow, to compare with (GANTRAIN_PYTHON); \"\": nothing is compared");
  field("json", o.json, kBenchJson);
}

// `bench save`: time the files that a run writes to go on with.
struct BenchSaveRequest {
  std::string preset;            // "": networks of the program's choice
  std::vector<std::string> set;  // "key=value"
  std::string about;
  std::optional<Config> config;  // what these led to
  int64_t rounds = 5;
  int64_t threads = 1;
  std::string folder = ".";  // on the disk to be measured
  bool json = false;
};

template <class Field>
void fields(BenchSaveRequest& o, Field&& field) {
  field("preset", o.preset, said_again("--preset"), "instead of StyleGAN2");
  field("set", o.set, "key=value, any key of gantrain help keys");
  field("rounds", o.rounds, kBenchCounts, kBenchTurns);
  field("threads", o.threads, kBenchThreads, "threads that compute");
  field("folder", o.folder, said_again("--folder"), "a folder on the disk to be measured");
  field("json", o.json, kBenchJson);
}

// `bench launch`: time the start of runs of several ranks. It is measured in the thin program.
struct BenchLaunchRequest {
  std::string ranks = "2,8";    // numbers with commas between
  std::vector<int64_t> counts;  // these
  int64_t rounds = 5;
  std::string program;                 // the path of this program
  std::vector<std::string> arguments;  // of a training of tiny networks
  std::function<void()> load;          // loads the trainer library
  Peers peers;                         // without a python: none
  bool json = false;
};

template <class Field>
void fields(BenchLaunchRequest& o, Field&& field) {
  field("ranks", o.ranks, said_again("--ranks"), "numbers of ranks");
  field("rounds", o.rounds, kBenchCounts, kBenchTurns);
  field("python",
        o.peers.python,
        kBenchAgain,
        "a Python that has torch 2.11, for torchrun (GANTRAIN_PYTHON); \"\": without it");
  field("json", o.json, kBenchJson);
}

struct RecipeRow;

// How the benchmarks find a recipe by its name: they know none themselves.
using FindRecipe = const RecipeRow& (*)(const std::string& name);

// The benchmarks, which measure and print. They return the exit status and throw UserError.
int bench_ddp(const BenchDdpRequest& request, FindRecipe find_recipe);
int bench_ddp_plan(const BenchDdpRequest& request, FindRecipe find_recipe);
int bench_step(const BenchStepRequest& request, FindRecipe find_recipe);
int bench_launch(const BenchLaunchRequest& request);
int bench_ops(const BenchOpsRequest& request);
int bench_data(const BenchDataRequest& request);
int bench_save(const BenchSaveRequest& request, FindRecipe find_recipe);

// How a run on a CPU uses its cores: ranks, and threads of each.
struct ProcessorUse {
  int64_t ranks = 1, threads = 1;
  bool operator==(const ProcessorUse&) const = default;
};

// Before a run: time its iterations in several ways of using the cores.
struct TimeUsesRequest {
  Config config;  // complete but for what the recipe chooses by the number of ranks
  std::vector<ProcessorUse> uses;
  // Where an iteration in the first way takes more or less than this, the others are not timed.
  double most_seconds = 1, least_seconds = 0;
};
// Prints a JSON array to standard output: the seconds of an iteration in each way, 0 where it was
// not timed. Returns 0.
int time_uses(const TimeUsesRequest& request, FindRecipe find_recipe);

}  // namespace gantrain
