// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/resize.h"
#include "util/field.h"
#include "util/size.h"

namespace gantrain {

enum class OnBad { kFail, kSkip };
enum class Fit { kCrop, kPad, kStretch };
enum class Cond { kAuto, kOn, kOff };
enum class Verify { kAuto, kAll, kNone };
enum class ScaledJpeg { kAuto, kOff };
// What is done about pictures without a label: auto keeps them where the list says so (null, an
// empty field) and where labels are vectors.
enum class Unlabelled { kAuto, kKeep, kRefuse };
enum class Depth { k8, k16, kAuto };
enum class Join { kAuto, kFolders, kOff };
enum class SizeFrom { kData, kPreset, kSmaller };

constexpr std::array<std::string_view, 2> names(OnBad) { return {"fail", "skip"}; }
constexpr std::array<std::string_view, 3> names(Fit) { return {"crop", "pad", "stretch"}; }
constexpr std::array<std::string_view, 3> names(Cond) { return {"auto", "on", "off"}; }
constexpr std::array<std::string_view, 3> names(Verify) { return {"auto", "all", "none"}; }
constexpr std::array<std::string_view, 3> names(SizeFrom) { return {"data", "preset", "smaller"}; }
constexpr std::array<std::string_view, 3> names(Unlabelled) { return {"auto", "keep", "refuse"}; }
constexpr std::array<std::string_view, 3> names(Depth) { return {"8", "16", "auto"}; }
constexpr std::array<std::string_view, 3> names(Join) { return {"auto", "folders", "off"}; }
constexpr std::array<std::string_view, 2> names(ScaledJpeg) { return {"auto", "off"}; }

// Where the real pictures come from and how they are brought to the size of the networks.
struct DataOptions {
  static constexpr const char* kSection = "data.";
  std::string path = "synth:shapes";
  Size resolution = {64, 64};
  SizeFrom size_from = SizeFrom::kData;
  std::optional<int64_t> channels;  // auto: 1 if all pictures are grey, else 3; a stack's own
  Depth depth = Depth::k8;          // auto: 16 where a picture that is looked at has so many bits
  Join join = Join::kAuto;
  bool mirror = false;
  Cond cond = Cond::kAuto;
  std::string labels = "auto";  // what the data itself holds, or a CSV or JSON file
  Unlabelled unlabelled = Unlabelled::kAuto;
  std::optional<int64_t> workers;  // auto: by choose_workers()
  OnBad on_bad = OnBad::kFail;
  Verify verify = Verify::kAuto;
  Fit fit = Fit::kCrop;
  Filter filter = Filter::kLanczos;
  ScaledJpeg scaled_jpeg = ScaledJpeg::kAuto;
  int64_t synth_size = 65536;
  // Of a run that goes on: what a list of labels names behind so many classes is no class as long
  // as it has no picture. 0: a list says how many there are. Not said by the user.
  int64_t most_classes = 0;
  int64_t cache_mb = 2048;
};

template <class Field>
void fields(DataOptions& o, Field&& field) {
  field("path",
        o.path,
        "synth:shapes, or PNG, JPEG and WebP pictures (or .npy and TIFF alone) in a folder, zip, "
        "tar (shards-{000..010}.tar "
        "too, plain or compressed) or LMDB, or CIFAR's or MNIST's files");
  field("resolution",
        o.resolution,
        between(4, 4096),
        "size that pictures are brought to: 64, or width x height");
  field("size_from",
        o.size_from,
        "what decides the size where no --resolution is given: the data's pictures, the preset, or "
        "the smaller one of both");
  field("channels",
        o.channels,
        between(1, kMaxChannels),
        "1 grey, 2 grey+alpha, 3 RGB, 4 RGBA; 2 and 4 to 16 of stacks (.npy, TIFF, several files); "
        "auto: a stack's own, else 1 if all pictures that data.verify looks at are grey, else 3");
  field(
      "depth",
      o.depth,
      "bits of a value that training sees and pictures are written with: 8, 16, or auto: 16 where "
      "a picture has them");
  field("join",
        o.join,
        "files that make one picture: auto: NAME.c0.png, NAME.c1.png, ... where all are named so; "
        "folders: c0/NAME.png, c1/NAME.png, ...; or off");
  field("mirror", o.mirror, "flip each picture left to right half of the time");
  field("cond", o.cond, "use labels: auto where the data has them and the preset is conditional");
  field("labels",
        o.labels,
        "a CSV or JSON file with the class of each picture, or its numbers; none: no labels; auto: "
        "what the data holds (dataset.json, labels.csv, .cls files, sub-folders)");
  field("unlabelled",
        o.unlabelled,
        "pictures without a label: keep trains on them, with zeros for classes and means for "
        "values; auto: keep those that the list says have none");
  field("workers",
        o.workers,
        between(0, 256),
        "loading threads a rank; 0: none, load when asked; auto: cores that computing leaves, 1 to "
        "8");
  field("on_bad", o.on_bad, "a picture that cannot be read: stop, or leave it out and say so");
  field("verify", o.verify, "decode pictures before training: all, none, or at most 2000 of them");
  field("fit", o.fit, "how a picture gets that shape: centre crop, white bars, or stretched");
  field("filter", o.filter, "resampling filter (antialiased)");
  field(
      "scaled_jpeg",
      o.scaled_jpeg,
      "auto: big JPEGs are decoded at 1/2, 1/4 or 1/8, at least twice as large as needed; or off");
  field("synth_size", o.synth_size, at_least(1), "number of pictures of synth:shapes");
  field("cache_mb",
        o.cache_mb,
        at_least(0),
        "memory for decoded pictures in MB a rank; the ranks of a node share it");
}

// Returns a short name for run folders: "shapes64", "photos256x128".
std::string short_name(const DataOptions& options);

// What decides how many loading threads a rank needs.
struct LoadingMachine {
  int64_t cores = 1;      // that the ranks of this node may use together
  int64_t ranks = 1;      // on this node
  int64_t computing = 1;  // threads that keep a rank's cores busy without loading
};

// Returns a rank's loading threads: options.workers, or for auto its share of the cores less those
// that compute, from 1 to 8; at most 2 for synth:shapes. The batches do not depend on it.
int64_t choose_workers(const DataOptions& options, const LoadingMachine& machine);

// Says the automatic choice in one line, for the start of a run; "" if options.workers is given.
std::string workers_text(const DataOptions& options, const LoadingMachine& machine);

// Threads that a rank computes with where a GPU does the work: forwards, and backwards.
inline constexpr int64_t kThreadsBesideGpu = 2;

struct SizeCount {
  Size size;
  int64_t pictures = 0;
};

template <class Field>
void fields(SizeCount& o, Field&& field) {
  field("size", o.size);
  field("pictures", o.pictures);
}

// The sizes of a data set's pictures as their files have them, as far as these were looked at.
struct PictureSizes {
  std::vector<SizeCount> counts;  // the commonest first; none: nothing is known
  int64_t pictures = 0;           // of the whole data set

  int64_t looked_at() const;
  // The commonest size where at least half of the pictures have it.
  std::optional<Size> commonest() const;
  // The commonest size, or else a square of the median of the shorter sides.
  Size typical() const;
};

template <class Field>
void fields(PictureSizes& o, Field&& field) {
  field("counts", o.counts);
  field("pictures", o.pictures);
}

// Sorts what was counted by width and height.
PictureSizes sorted_sizes(const std::map<std::pair<int64_t, int64_t>, int64_t>& counts,
                          int64_t pictures);

// Says them: "64x64"; "37 sizes from 20x30 to 400x300, 64x64 in 120 of 200 pictures"; and of how
// many it is known.
std::string sizes_text(const PictureSizes& sizes);

// How many times wider and higher a picture becomes by options.fit; below 1 it is reduced.
double enlargement(const Size& picture, const DataOptions& options);

// A warning where half of the pictures or more are enlarged to twice their size or more; else "".
std::string enlargement_warning(const PictureSizes& sizes, const DataOptions& options);

}  // namespace gantrain
