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
  std::vector<std::string> names;     // of metrics; empty: those that what is given allows
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
  fields(o.how, field);
  field("images", o.images);
  field("features", o.features);
  field("probabilities", o.probabilities);
  field("names", o.names);
  field("detector", o.detector);
  field("data", o.data);
  field("resolution", o.resolution);
  field("fit", o.fit);
  field("filter", o.filter);
  field("mirror", o.mirror);
  field("fake_count", o.fake_count);
  field("real_count", o.real_count);
  field("seed", o.seed);
  field("ranks", o.ranks);
  field("threads", o.threads);
  field("per_class", o.per_class);
  field("all_models", o.all_models);
  field("cache", o.cache);
  field("json", o.json);
}

}  // namespace gantrain
