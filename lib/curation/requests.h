// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data/options.h"
#include "data/pictures/dataset.h"

// What `gantrain data inspect` and `data pack` are asked for: the thin program makes it of the
// command line, whose options are the members with a help text (command/options.h), and hands it to
// the trainer library. No torch.

namespace gantrain {

inline constexpr const char* kDataPathHelp =
    "folder, zip, tar, LMDB, or files of CIFAR or MNIST, as --data takes them";
inline constexpr const char* kDataLabelsHelp =
    "CSV or JSON with the class of each picture, or its numbers; none: no labels";
inline constexpr const char* kDataUnlabelledHelp =
    "pictures without a label, as data.unlabelled has it: auto, keep or refuse";

// `data inspect`: look at every picture of a data set, and say what to start with.
struct InspectRequest {
  std::string path;             // as data.path
  std::string labels = "auto";  // as data.labels
  Unlabelled unlabelled = Unlabelled::kAuto;
  Join join = Join::kAuto;  // as data.join
  std::string sheet;        // PNG to write with some of the pictures, or ""
  std::string bad;          // text file to write with the bad files, or ""
  bool all = false;         // list every duplicate, not only some
  bool json = false;        // one JSON line instead of the text
  bool gpu = false;         // the machine has a GPU: advise a preset for one
};

template <class Field>
void fields(InspectRequest& o, Field&& field) {
  field("path", o.path, said("PATH,--data"), kDataPathHelp);
  field("labels", o.labels, kDataLabelsHelp);
  field("unlabelled", o.unlabelled, kDataUnlabelledHelp);
  field("join", o.join, "files that make one picture, as data.join has it: auto, folders or off");
  field("sheet", o.sheet, "PNG to write with up to 100 of the pictures");
  field("bad", o.bad, "text file to write with the bad files, one a line");
  field("all", o.all, "list all copies, not only the first");
  field("json", o.json, "one JSON line");
  field("gpu", o.gpu);
}

// `data pack`: write a data set of prepared pictures.
struct PackRequest {
  std::string path;             // as data.path
  std::string labels = "auto";  // as data.labels
  Unlabelled unlabelled = Unlabelled::kAuto;
  std::string output;  // NAME.zip, or a folder
  Size resolution;
  Fit fit = Fit::kCrop;
  Filter filter = Filter::kLanczos;
  std::optional<int64_t> channels;  // auto: 1 if all pictures are grey, else 3; a stack's own
  Depth depth = Depth::k8;
  Join join = Join::kAuto;
  std::optional<int64_t> max_images;  // only the first so many
  int64_t level = 0;                  // of zlib's compression in the PNGs
  OnBad on_bad = OnBad::kSkip;
  bool force = false;  // replace the output
  bool json = false;   // one JSON line at the end
};

template <class Field>
void fields(PackRequest& o, Field&& field) {
  field("path", o.path, said("PATH,--data"), kDataPathHelp);
  field("output", o.output, said("-o,--output"), "NAME.zip, or a folder");
  field("resolution", o.resolution, "pixels: 256, or width x height: 256x128");
  field("fit", o.fit, "how a picture gets that shape: crop, pad or stretch");
  field("filter", o.filter, "lanczos, bicubic, bilinear or box");
  field("channels",
        o.channels,
        between(1, kMaxChannels, "1 to 16, or auto"),
        "1 grey, 3 RGB, 4 RGBA; 2 and 4 to 16 of stacks, which become .npy; auto: a stack's own, "
        "else 1 if all are grey");
  field("depth", o.depth, "bits of a value: 8, 16, or auto: 16 where a picture has them");
  field("join", o.join, "files that make one picture, as data.join has it: auto, folders or off");
  field("labels", o.labels, kDataLabelsHelp);
  field("unlabelled", o.unlabelled, kDataUnlabelledHelp);
  field(
      "max_images", o.max_images, between(1, 1e9, "1 or more"), "only so many, the first by name");
  field("level",
        o.level,
        said("--png-level"),
        between(0, 9),
        "0: as large as the pixels, packed and read fastest, as other tools write it; to "
        "9: smallest");
  field("on_bad",
        o.on_bad,
        "skip: leave bad pictures out and list them; or fail, and keep what is packed");
  field("force", o.force, "replace the output where it exists");
  field("json", o.json, "one JSON line, last on standard output");
}

// How work on all pictures of a data set talks with what surrounds it.
struct WorkCallbacks {
  StopCheck stop = {};
  // Called after each picture, good or bad.
  std::function<void(int64_t done, int64_t all)> progress = [](int64_t, int64_t) {};
};

}  // namespace gantrain
