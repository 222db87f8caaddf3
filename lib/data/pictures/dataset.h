// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/options.h"
#include "image/image.h"

namespace gantrain {

// Memory of one thread that loads pictures, used again from picture to picture.
struct LoadBuffers {
  std::string file;  // a file's content
  Image decoded;     // its picture
  Image prepared;    // the picture as the data set hands it out
};

class Source;
struct LabelVectors;

// Which file of a source a picture comes from. The source belongs to the data set.
struct PictureFile {
  const Source* source = nullptr;
  size_t file = 0;
};

// Real pictures by index. Immutable after opening; every member may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;            // number of pictures, at least 1
  virtual int64_t channels() const = 0;        // of every loaded picture, 1 to 16
  virtual int64_t depth() const { return 8; }  // its bits: 8 or 16
  // Whether the channels are a stack's (Image::stack).
  virtual bool stack() const { return channels() > kMostColors; }
  virtual int64_t classes() const = 0;             // 0 without labels
  virtual int64_t label(int64_t index) const = 0;  // 0..classes-1; 0 without labels
  // Returns a class's name: its folder's, or its number where the data gives it none.
  virtual std::string class_name(int64_t label) const { return std::to_string(label); }
  // Returns the labels where they are vectors (classes() is 0 then); else none.
  virtual const LabelVectors& vectors() const;

  // Returns the file of a picture; nothing where pictures are computed.
  virtual std::optional<PictureFile> picture_file(int64_t) const { return std::nullopt; }

  // The names of pictures that were left out because they cannot be read (data.on_bad=skip).
  virtual std::vector<std::string> left_out() const { return {}; }
  // Whether others are given for pictures that cannot be read any more (data.on_bad=skip).
  virtual bool has_stand_ins() const { return false; }

  // Returns picture `index`, options.resolution and channels() of it. Throws UserError(kInput) that
  // names a file that has become unreadable; with on_bad=skip it returns the next readable picture
  // of the same label instead, or of the nearest vector.
  virtual Image load(int64_t index) const = 0;

  // Does the same without a copy: the result is valid until the next call with these buffers.
  virtual ImageView view(int64_t index, LoadBuffers& buffers) const;

  // Returns one line for the start of a run: source, number of pictures, classes, channels.
  virtual std::string description() const = 0;
  // Returns what else must be known of the data before it is trained on, one line each.
  virtual std::vector<std::string> warnings() const { return {}; }
};

// Polled during long work: where it returns true, that ends with UserError(kStopped).
using StopCheck = std::function<bool()>;

// Opens synth:NAME, or what open_source() takes. `sharers` is the number of processes, this one or
// its forks, that share the memory for decoded pictures. The order, labels, channels and left-out
// pictures depend on the files and options alone, so all ranks agree. It does not call LibTorch,
// and its threads have ended when it returns: it may run before a fork. Throws UserError(kInput)
// that names the path or the bad picture.
std::shared_ptr<const Dataset> open_dataset(const DataOptions& options,
                                            const StopCheck& stop = {},
                                            int64_t sharers = 1);

// Looks at the headers of up to a few hundred pictures, evenly spread over what open_dataset()
// would open; bad ones are passed over. Nothing is known of computed pictures. Throws as that does.
PictureSizes look_at_sizes(const DataOptions& options);

// Whether prepare() would keep the pixels of a picture as they are.
bool is_prepared(const Image& image, int64_t channels, const DataOptions& options);

// Makes a picture fit for the networks: of options.resolution by options.fit and options.filter,
// with that many channels, which those of a stack must have. A picture of this size keeps its
// pixels, and every one its depth.
Image prepare(const Image& image, int64_t channels, const DataOptions& options);

// What pictures of a data set have in common.
struct PictureValues {
  int64_t channels = 0;
  int64_t depth = 8;
};

// Decodes a picture of a source and makes it fit. Returns the buffer that holds it. Throws
// UserError(kInput) that names the file, also where a stack has other channels.
const Image& load_prepared(const Source& source,
                           size_t file,
                           const PictureValues& values,
                           const DataOptions& options,
                           LoadBuffers& buffers);

// Throws UserError(kInput) that names the picture where it cannot be given that many channels: a
// stack has its own, and nothing else is made into a stack.
void check_channels(const ImageInfo& picture, int64_t channels, const std::string& name);

// Returns a data set of the same pictures, each of size `resolution`, that keeps loaded pictures in
// memory. If `sharers` is more than one, this process and its later forks share up to sharers *
// max_bytes; where the system refuses that much, each keeps up to max_bytes of its own. The memory
// has no name and vanishes with the last process. Kept pictures are never replaced: every pass
// visits all pictures, so a cache that replaced the oldest would never have the next one.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset,
                                      const Size& resolution,
                                      int64_t max_bytes,
                                      int64_t sharers);

inline constexpr const char* kAttributeShapes = "synth:shapes-attributes";

// What a picture of synth:shapes-attributes shows, and its label: numbers in this order.
struct ShapeAttributes {
  static constexpr int64_t kNumbers = 5;
  bool red = false, green = false, blue = false;  // one or two of them
  float size = 0;                                 // 0 small to 1 large
  float angle = 0;                                // -1 to 1: a third of a turn from end to end
};
// Lengths of the ellipse of that size in sides of a square picture, and the angle in radians,
// counter-clockwise from the horizontal.
struct ShapeOutline {
  static constexpr double kRatio = 2.4;  // of its half axes
  static constexpr double kSmallest = 0.22, kLargest = 0.4;
  static constexpr double kMostAngle = 1.0471975511965976;
};
ShapeAttributes attributes_of_shape(int64_t index);

// synth:shapes-attributes, whose labels are vectors: an ellipse in one of six colours, several
// classes at once (red and green is yellow), with a size and an angle that are drawn evenly.
// synth:shapes, pictures made on the fly: one of 10 shapes (class = index mod 10) in one colour,
// striped, dotted or shaded, on a soft gradient. Picture i is the same scene at every resolution
// and in every run; in rectangles its shape lies anywhere along the longer side.
std::shared_ptr<const Dataset> make_shapes(const DataOptions& options);

}  // namespace gantrain
