// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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

// Which file of a source a picture comes from. The source belongs to the data set.
struct PictureFile {
  const Source* source = nullptr;
  size_t file = 0;
};

// Real pictures by index. Immutable after opening; every member may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;                // number of pictures, at least 1
  virtual int64_t channels() const = 0;            // of every loaded picture, 1 to 4
  virtual int64_t classes() const = 0;             // 0 without labels
  virtual int64_t label(int64_t index) const = 0;  // 0..classes-1; 0 without labels
  // Returns what users call a class, 0..classes-1: its folder's name, or its number where the data
  // gives it no name.
  virtual std::string class_name(int64_t label) const { return std::to_string(label); }

  // Returns the file of a picture, from which data/pictures/manifest.h makes the identity of the
  // data; nothing where pictures are computed.
  virtual std::optional<PictureFile> picture_file(int64_t) const { return std::nullopt; }

  // Returns picture `index`, options.resolution and channels() of it. Throws UserError(kInput) that
  // names a file that has become unreadable since it was opened; with on_bad=skip it returns the
  // next readable picture of the same label instead.
  virtual Image load(int64_t index) const = 0;

  // Does the same without a copy: the result lies in `buffers` or in the data set, and is valid
  // until the next call with these buffers.
  virtual ImageView view(int64_t index, LoadBuffers& buffers) const;

  // Returns one line for the start of a run: source, number of pictures, classes, channels.
  virtual std::string description() const = 0;
};

// A function that is polled while pictures are verified. Where it returns true, the scan ends with
// UserError(kStopped).
using StopCheck = std::function<bool()>;

// Opens synth:NAME, or what open_source() in data/containers/source.h takes. `sharers` is the
// number of processes, this one or its forks, that will load pictures from it: they share the
// memory for decoded pictures. The order, labels, channels and left-out pictures depend on the
// files and options alone, so all ranks agree. It does not call LibTorch, and all of its threads
// have ended when it returns: it may run before a fork, and the data set may be used afterwards.
// Throws UserError(kInput) that names the path or the bad picture.
std::shared_ptr<const Dataset> open_dataset(const DataOptions& options,
                                            const StopCheck& stop = {},
                                            int64_t sharers = 1);

// How much of a JPEG must be decoded so that prepare() still starts from pixels that are at most
// half as wide as its own; with scaled_jpeg=off the whole picture.
NeededSize needed_size(const DataOptions& options);

// Whether prepare() would keep the pixels of a picture as they are.
bool is_prepared(const Image& image, int64_t channels, const DataOptions& options);

// Makes a picture fit for the networks: of options.resolution by options.fit and
// options.filter, with the given number of channels. A picture that has this size already keeps its
// pixels.
Image prepare(const Image& image, int64_t channels, const DataOptions& options);

// Makes a data set of the pictures that find_pictures() finds. It verifies them, decides the
// channels, and leaves out or refuses bad pictures, as the options say. Throws UserError(kInput).
std::shared_ptr<const Dataset> make_picture_set(std::unique_ptr<Source> source,
                                                const DataOptions& options,
                                                const StopCheck& stop);

// Returns a data set of the same pictures, each of size `resolution`, that keeps loaded
// pictures in memory. This process and those that are forked later share that memory if `sharers`
// is more than one: it then takes up to sharers * max_bytes. Where the system refuses that much,
// each process keeps pictures of its own, up to max_bytes. The memory has no name and vanishes with
// the last process. A process that is killed while it stores a picture leaves none behind.
//
// Kept pictures are never replaced: every pass visits all pictures, so a cache that replaced the
// oldest would never have the next one.
std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> dataset,
                                      const Size& resolution,
                                      int64_t max_bytes,
                                      int64_t sharers);

}  // namespace gantrain
