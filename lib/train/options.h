// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "ops/kernels.h"
#include "util/field.h"

namespace gantrain {

enum class LrScale { kNone, kLinear, kSqrt };
enum class Dtype { kFloat32, kFloat64 };
enum class OnNonfinite { kSkip, kStop };
enum class Graphs { kAuto, kOn, kOff };
constexpr std::array<std::string_view, 3> names(Graphs) { return {"auto", "on", "off"}; }
constexpr std::array<std::string_view, 2> names(OnNonfinite) { return {"skip", "stop"}; }
constexpr std::array<std::string_view, 3> names(LrScale) { return {"none", "linear", "sqrt"}; }
constexpr std::array<std::string_view, 2> names(Dtype) { return {"float32", "float64"}; }

// What happens when a gradient is not finite.
struct NonfiniteOptions {
  OnNonfinite action = OnNonfinite::kSkip;
  int64_t limit = 50;
};

template <class Field>
void fields(NonfiniteOptions& o, Field&& field) {
  field("on_nonfinite",
        o.action,
        "a gradient that is not finite: leave the step out, or end the run (a dynamic loss scale "
        "always leaves it out)");
  field("nonfinite_limit",
        o.limit,
        at_least(1),
        "the run ends once so many steps of one network in a row were left out");
}

struct TrainOptions {
  static constexpr const char* kSection = "train.";
  Kimg kimg{1'000'000};
  int64_t batch = 64;
  std::optional<int64_t> micro_batch;
  std::optional<int64_t> accumulate;
  LrScale lr_scale = LrScale::kNone;
  int64_t seed = 0;
  Kimg tick{4'000};
  bool deterministic = false;
  Dtype dtype = Dtype::kFloat32;
  KernelSet kernels = KernelSet::kAuto;
  Graphs graphs = Graphs::kAuto;
  bool perturb_ranks = false;
  bool sync_debug = false;
  bool uneven = false;
  NonfiniteOptions nonfinite;
  int64_t together = 1;  // not a key: RecipeFacts::group, for the cut of uneven shares
};

template <class Field>
void fields(TrainOptions& o, Field&& field) {
  field("kimg",
        o.kimg,
        between(0, 1e9),
        "length: thousands of real images shown to the discriminator");
  field("batch", o.batch, between(1, 1e6), "global batch of one optimizer step");
  field("micro_batch",
        o.micro_batch,
        at_least(1),
        "images that a rank computes with at a time; auto: batch / ranks / accumulate, on a GPU at "
        "most what fits into its memory");
  field("accumulate",
        o.accumulate,
        at_least(1),
        "micro-batches whose gradients are added up for one optimizer step; auto: batch / ranks / "
        "micro_batch");
  field("lr_scale",
        o.lr_scale,
        "what another batch than the preset's does to the learning rates: nothing, scale them with "
        "it, or with its square root");
  field("seed", o.seed, between(0, 9e15), "seed of everything that is random");
  field("tick",
        o.tick,
        between(0.001, 1e6),
        "kimg between two rows of stats.jsonl; unless set, rows are at least 5 s apart");
  field("deterministic", o.deterministic, "only kernels that give the same bits at every call");
  field("dtype", o.dtype, "type of weights and arithmetic; float64 for exact comparisons");
  field("kernels",
        o.kernels,
        "operators: the fastest there are, or compositions of LibTorch's own (ref)");
  field(
      "graphs",
      o.graphs,
      "CUDA graphs of whole phases: auto uses them on a GPU, for each phase that can be captured; "
      "on fails where one cannot be");
  field("perturb_ranks",
        o.perturb_ranks,
        "for tests: other initial weights on each rank, before the first broadcast");
  field("sync_debug",
        o.sync_debug,
        "for tests on a GPU: an iteration in which the host waits for the GPU ends the run, with "
        "the phase; ticks, saves and the first iteration of a session or stage may wait");
  field("uneven",
        o.uneven,
        "a batch that the ranks do not divide is cut into unequal shares, weighted by their "
        "images; on in a run that is elastic (--nproc MIN:MAX)");
  fields(o.nonfinite, field);
}

struct OptimOptions {
  static constexpr const char* kSection = "optim.";
  double clip_norm = 0;
  double clip_value = 0;
};

template <class Field>
void fields(OptimOptions& o, Field&& field) {
  field("clip_norm",
        o.clip_norm,
        between(0, 1e30),
        "longer gradients of a network are scaled down to this norm; 0: none are");
  field("clip_value",
        o.clip_value,
        between(0, 1e30),
        "after that, larger numbers in a gradient are cut to this one; 0: none are");
}

// In which type snapshots of averages are kept: that of the weights, or bfloat16.
enum class SnapshotType { kFull, kBf16 };
constexpr std::array<std::string_view, 2> names(SnapshotType) { return {"full", "bf16"}; }

struct EmaOptions {
  static constexpr const char* kSection = "ema.";
  ScheduledKimg half_life = Kimg{10'000};  // Karras et al. 2018a, app. A, as a half-life
  double rampup = 0.05;
  bool posthoc = false;  // Karras et al. 2024, sec. 3
  std::optional<Kimg> snapshot_every;
  SnapshotType snapshot_type = SnapshotType::kFull;
};

template <class Field>
void fields(EmaOptions& o, Field&& field) {
  field("half_life",
        o.half_life,
        between(0, 1e6),
        "kimg after which earlier weights count half in the generator's average");
  field("rampup",
        o.rampup,
        between(0, 1e6),
        "early in a run the half-life is at most this share of the images seen; 0: no such limit");
  field("posthoc",
        o.posthoc,
        "keep two more averages of the generator, and snapshots of them in RUN/averages, of which "
        "gantrain average makes an average of any length after training");
  field("snapshot_every",
        o.snapshot_every,
        "with ema.posthoc: kimg between two snapshots; auto: a 64th of the run");
  field("snapshot_type",
        o.snapshot_type,
        "with ema.posthoc: type of the snapshots; bf16 halves the size of all but the first and "
        "rounds to 8 bits what their weights differ by from it");
}

struct SaveOptions {
  static constexpr const char* kSection = "save.";
  Kimg every{200'000};
  int64_t keep_last = 3;
  Kimg keep_every{0};
  std::string keep_best;
};

template <class Field>
void fields(SaveOptions& o, Field&& field) {
  field("every",
        o.every,
        between(0.001, 1e9),
        "kimg between two states; unless set, saving takes less than 1 % of the time");
  field("keep_last", o.keep_last, at_least(1), "newest states kept");
  field("keep_every",
        o.keep_every,
        between(0, 1e9),
        "kimg between states that are kept for ever; 0: none");
  field("keep_best",
        o.keep_best,
        "a metric: the model that is best by it is kept as model-best.safetensors; empty: none");
}

struct SampleOptions {
  static constexpr const char* kSection = "samples.";
  Kimg every{40'000};
  int64_t columns = 8;
  int64_t rows = 8;
  std::string channels = "auto";
};

template <class Field>
void fields(SampleOptions& o, Field&& field) {
  field("every",
        o.every,
        between(0.001, 1e9),
        "kimg between two sample grids; unless set, they take less than 1 % of the time");
  field("columns", o.columns, between(1, 64), "pictures in a row of the grid");
  field("rows",
        o.rows,
        between(1, 64),
        "rows of the grid; unless set, one for each of up to 16 classes");
  field("channels",
        o.channels,
        "channels that grids and the page show, one as grey, two or three as red, green and blue: "
        "0,3,5; auto: all of up to 4, else the first three");
}

enum class StopOn { kOff, kCollapse };
constexpr std::array<std::string_view, 2> names(StopOn) { return {"off", "collapse"}; }

// When generated pictures count as collapsed to one or a few: train/run/run_metrics.h says how it
// is measured how distinct they are, and what healthy training has.
struct CollapseOptions {
  StopOn stop_on = StopOn::kOff;
  double below = 0.1;
  int64_t times = 3;
  Kimg after{20'000};
};

template <class Field>
void fields(CollapseOptions& o, Field&& field) {
  field("stop_on",
        o.stop_on,
        "collapse: a run whose pictures have collapsed saves and ends with exit code 5; off: it is "
        "only warned of");
  field("collapse_below",
        o.below,
        between(0, 1),
        "pictures have collapsed where they are less distinct from each other than this share of "
        "what the data's are; 0: it is not measured");
  field("collapse_times",
        o.times,
        at_least(1),
        "measurements in a row that must find a collapse before the run is warned");
  field("collapse_after",
        o.after,
        between(0, 1e9),
        "no collapse is looked for in the first so many kimg, in which all pictures are alike");
}

struct MetricsOptions {
  static constexpr const char* kSection = "metrics.";
  std::string names = "swd,msssim";
  std::optional<Kimg> every;
  bool at_start = true;
  bool at_end = true;
  int64_t images = 1024;
  std::string detector;
  std::string detector_sha256;
  std::string features;
  CollapseOptions collapse;
};

template <class Field>
void fields(MetricsOptions& o, Field&& field) {
  field("names",
        o.names,
        "names of metrics, comma between, or none; gantrain metrics --help lists them");
  field("every",
        o.every,
        "kimg between two measurements; auto: up to 20 in a run, at most one each 200 kimg, as "
        "long as they take under 3 % of the time");
  field("at_start", o.at_start, "measure the untrained networks too");
  field("at_end", o.at_end, "measure the final networks too");
  field("images", o.images, between(2, 1e6), "pictures of each kind that are compared");
  field("detector",
        o.detector,
        "TorchScript file of a feature network, for fid, kid and other metrics of features; a "
        "program, so trust where it comes from");
  field("detector_sha256", o.detector_sha256, "the detector's SHA-256; another file is not run");
  field("features",
        o.features,
        "weights of EfficientNet-Lite0, for fd_lite0 and its kind and for the recipe projected, "
        "which takes a TorchScript network too; gantrain features says where to get them");
  fields(o.collapse, field);
}

struct RunOptions {
  static constexpr const char* kSection = "run.";
  std::string out = "runs";
  std::string run_dir;
  std::string resume = "auto";
  std::string init_from;
  std::string force;
  Duration stop_after{0};
  std::string track;
  Duration track_wait{30};
};

template <class Field>
void fields(RunOptions& o, Field&& field) {
  field("out", o.out, "folder in which a numbered run folder is made");
  field("run_dir", o.run_dir, "exact run folder: the same command there resumes");
  field("resume", o.resume, "auto (newest state of run_dir), none, or a state or run folder");
  field("init_from",
        o.init_from,
        "model or run folder whose weights a fresh run starts at: transfer learning");
  field("force",
        o.force,
        "what may differ from the resumed state: keys with commas between, data, or all");
  field("stop_after", o.stop_after, "save and stop after this time with exit 75; 0: never");
  field("track",
        o.track,
        "trackers that get the run's curves, too: mlflow=URL, trackio=URL, comma between; see "
        "gantrain help track");
  field("track_wait",
        o.track_wait,
        "at the end of a run, how long a tracker that lacks rows is waited for; after a stop at "
        "most 5s");
}

// Throws UserError(kUsage) where a run is to begin both at the state that --resume names and at the
// weights of --init-from.
void check_beginning(const RunOptions& options);

// Throws UserError(kUsage) for train.graphs=on and train.sync_debug=on without GPUs.
void check_graphs(const TrainOptions& options, bool on_gpu);

// Returns the metrics that a run measures: each of metrics.names by itself, and save.keep_best.
// Throws UserError(kUsage) that names one that is no metric.
std::vector<std::string> metric_names(const MetricsOptions& metrics, const SaveOptions& save);

// Throws UserError(kUsage) for metrics that lack what they need, such as a detector, or for a
// cadence that is none, and UserError(kInput) where the detector's file cannot be read. `data_path`
// is data.path.
void check_metric_options(const MetricsOptions& metrics,
                          const SaveOptions& save,
                          const std::string& data_path);

// What becomes of the models that a run writes at its saves. The keys are in the section save.
struct ModelOptions {
  static constexpr const char* kSection = "save.";
  std::string keep = "all";
  bool raw = false;
};

template <class Field>
void fields(ModelOptions& o, Field&& field) {
  field("keep_models",
        o.keep,
        "model files that are kept: all; N, the newest ones; or best, the newest one and "
        "model-best.safetensors (see keep_best). Those of keep_every always stay");
  field("raw",
        o.raw,
        "models hold the raw networks (G.*, D.*) beside the generator's average; states always do");
}

// Returns how many of the newest models are kept; nothing: all. Throws UserError(kUsage) for what
// is no such number, and for "best" where no metric says which one is.
std::optional<int64_t> models_kept(const ModelOptions& models, const SaveOptions& save);

// Whether a key is one of these, or lies in one of these sections ("run.").
bool is_among(const std::string& key, std::initializer_list<std::string_view> keys_and_sections);

// Whether `force`, what --force was given (names with commas between, or "all"), names `what`: a
// key, or "data".
bool is_forced(const std::string& force, const std::string& what);

}  // namespace gantrain
