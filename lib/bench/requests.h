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

// `bench modes`: count the modes of stacked pictures that generators know.
struct BenchModesRequest {
  std::string data = "synth:shapes";  // pictures with classes
  std::string presets = "dcgan,wgan-gp,r3gan-tiny,stylegan2-tiny";
  std::vector<std::string> models;  // instead of these presets
  std::vector<std::string> set;     // "key=value", of every training
  double kimg = 400;
  int64_t stacked = 128'000;  // pictures to train on: Lin et al. 2018
  int64_t samples = 26'000;   // likewise
  int64_t epochs = 3;         // of the classifier
  int64_t seed = 0;
  std::string folder = "runs/modes";
  int64_t threads = 1;
  DeviceKind device = DeviceKind::kAuto;
  bool cuda = false;  // what that led to
  bool json = false;
};

template <class Field>
void fields(BenchModesRequest& o, Field&& field) {
  field("data",
        o.data,
        said_again("--data"),
        "pictures with classes: MNIST's or Fashion-MNIST's files, or any others (synth:shapes)");
  field(
      "presets",
      o.presets,
      said_again("--presets"),
      "what is trained, with commas between (" + o.presets + "); none: data and classifier alone");
  field("models",
        o.models,
        Said{.names = "--models", .value = "MODEL ..."},
        "runs or models of such pictures to count instead: nothing is trained");
  field("set", o.set, "key=value, of every training");
  field("kimg", o.kimg, between(0.001, 1e9), "length of each training (400)");
  field("stacked", o.stacked, between(1, 10'000'000), "pictures that are trained on (128000)");
  field(
      "samples", o.samples, between(1, 10'000'000), "generated pictures that are counted (26000)");
  field("epochs", o.epochs, between(1, 1000), "passes over the data that train the classifier (3)");
  field("seed", o.seed, between(0, 9e15, "a number from 0 on"), "seed of all that is random (0)");
  field("folder", o.folder, said("-o,--output"), "folder for data, classifier, runs, modes.json");
  field("threads", o.threads, kBenchThreads, "threads that compute");
  field("device", o.device, "auto, cpu or cuda");
  field("json", o.json, kBenchJson);
}

// modes.json: what was counted in a folder of `bench modes`.
struct CountedModel {
  std::string name;  // a preset, or what was given as a model
  std::string model;
  int64_t images = 0;  // seen in training, as the file's name tells; -1: it does not
  int64_t modes = 0;
  double kl = 0;  // nats
};
template <class Field>
void fields(CountedModel& o, Field&& field) {
  field("name", o.name);
  field("model", o.model);
  field("images", o.images);
  field("modes", o.modes);
  field("kl", o.kl);
}
struct CountedModes {
  std::string data;
  int64_t seed = 0, stacked = 0, samples = 0, epochs = 0;
  int64_t classes = 0;
  double accuracy = 0;  // of the classifier, on pictures that it was not trained on
  CountedModel reals;   // as many stacked real pictures
  std::vector<CountedModel> models;

  // The modes that there are: a class for each of three channels.
  int64_t all() const { return classes * classes * classes; }
  // About the divergence that so many samples of the even distribution itself have, in nats.
  double kl_of_even_samples() const {
    return static_cast<double>(all() - 1) / (2 * static_cast<double>(samples));
  }
};
template <class Field>
void fields(CountedModes& o, Field&& field) {
  field("data", o.data);
  field("seed", o.seed);
  field("stacked", o.stacked);
  field("samples", o.samples);
  field("epochs", o.epochs);
  field("classes", o.classes);
  field("accuracy", o.accuracy);
  field("reals", o.reals);
  field("models", o.models);
}
inline constexpr const char* kModesFile = "modes.json";
inline constexpr const char* kStackedFile = "data/stacked.npy";
inline constexpr int64_t kModesPixels = 32;

// `bench launch`: time the start of runs of several ranks. It is measured in the thin program.
struct BenchLaunchRequest {
  std::string ranks = "2,8";    // numbers with commas between
  std::vector<int64_t> counts;  // these
  int64_t rounds = 5;
  bool programs = false;               // a program of the user's instead of a training
  int64_t failures = 20;               // of such a program, whose first cause is to be named
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
  field("programs",
        o.programs,
        "only gantrain launch: start, memory, orphans and first causes of a program that does "
        "nothing else");
  field("failures", o.failures, kBenchCounts, "with --programs: failures of a rank, in turns");
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
// Makes data and classifier where they are not there yet, counts the models, and writes modes.json;
// it neither trains a model nor prints.
int bench_modes(const BenchModesRequest& request);

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
