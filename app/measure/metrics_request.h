// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/options.h"
#include "draw/requests.h"

// What `gantrain metrics` asks the trainer library for. No torch.

namespace gantrain {

// Exactly one of how.model, images and features is given.
struct MetricsRequest {
  ModelRequest how;                   // of a generator; "" without one
  std::vector<std::string> images;    // reals and fakes: folders, archives, ...
  std::vector<std::string> features;  // reals and fakes: .npy, [N, F]
  std::string probabilities;          // .npy, [N, C]: class probabilities of the fakes, or ""
  std::string metrics;                // names with commas between
  std::vector<std::string> names;     // these; empty: those that what is given allows
  std::string detector;               // TorchScript file, or ""
  std::string data;                   // reals of a generator; "": those of its run
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
  field("metrics", o.metrics, "names with commas between (see above)");
  field("data", o.data, "the reals (default: those that the run was trained on)");
  field("images",
        o.images,
        Said{.names = "--images", .count = 2},
        "REAL FAKE: two folders or archives of pictures");
  field("features",
        o.features,
        Said{.names = "--features", .count = 2},
        "REAL.npy FAKE.npy: [N, F] float32 or float64");
  field("probabilities",
        o.probabilities,
        said("--probs"),
        "with --features: class probabilities of the fakes, .npy");
  field("detector", o.detector, "TorchScript file of the network for features");
  field("fake_count",
        o.fake_count,
        said("--num-images"),
        between(1, 1e9, "1 or more"),
        "fakes (50000; 16384 for metrics without a detector; all of --images)");
  field(
      "real_count", o.real_count, said("--num-reals"), between(1, 1e9, "1 or more"), "reals (all)");
  field("seed",
        o.seed,
        between(0, 9e15, "a number from 0 on"),
        "of latents and of all that is drawn (0)");
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

}  // namespace gantrain
