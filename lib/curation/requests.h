// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/options.h"

// What `gantrain data inspect` and `data pack` are asked for: made of the command line by the thin
// program, sent to the trainer library as a message (config/message.h). No torch.

namespace gantrain {

// `data inspect`: look at every picture of a data set, and say what to start with.
struct InspectRequest {
  std::string path;             // as data.path
  std::string labels = "auto";  // as data.labels
  std::string sheet;            // PNG to write with some of the pictures, or ""
  std::string bad;              // text file to write with the bad files, or ""
  bool all = false;             // list every duplicate, not only some
  bool json = false;            // one JSON line instead of the text
  bool gpu = false;             // the machine has a GPU: advise a preset for one
};

template <class Field>
void fields(InspectRequest& o, Field&& field) {
  field("path", o.path);
  field("labels", o.labels);
  field("sheet", o.sheet);
  field("bad", o.bad);
  field("all", o.all);
  field("json", o.json);
  field("gpu", o.gpu);
}

// `data pack`: write a data set of prepared pictures.
struct PackRequest {
  std::string path;             // as data.path
  std::string labels = "auto";  // as data.labels
  std::string output;           // NAME.zip, or a folder
  Size resolution;
  Fit fit = Fit::kCrop;
  Filter filter = Filter::kLanczos;
  std::optional<int64_t> channels;    // auto: 1 if all pictures are grey, else 3
  std::optional<int64_t> max_images;  // only the first so many
  int64_t level = 0;                  // of zlib's compression in the PNGs
  OnBad on_bad = OnBad::kSkip;
  bool force = false;  // replace the output
  bool json = false;   // one JSON line at the end
};

template <class Field>
void fields(PackRequest& o, Field&& field) {
  field("path", o.path);
  field("labels", o.labels);
  field("output", o.output);
  field("width", o.resolution.width);
  field("height", o.resolution.height);
  field("fit", o.fit);
  field("filter", o.filter);
  field("channels", o.channels);
  field("max_images", o.max_images);
  field("level", o.level);
  field("on_bad", o.on_bad);
  field("force", o.force);
  field("json", o.json);
}

}  // namespace gantrain
