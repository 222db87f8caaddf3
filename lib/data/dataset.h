// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/options.h"
#include "image/image.h"

namespace gantrain {

// Real pictures by index. Immutable after opening; every member may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;                // pictures, at least 1
  virtual int64_t channels() const = 0;            // of every loaded picture, 1 to 4
  virtual int64_t classes() const = 0;             // 0 without labels
  virtual int64_t label(int64_t index) const = 0;  // 0..classes-1; 0 without labels

  // Picture `index`, resolution x resolution x channels(). Throws UserError(kInput) naming a file
  // that turned bad since it was opened, unless on_bad=skip: then the next readable picture of the
  // same label stands in for it.
  virtual Image load(int64_t index) const = 0;

  // One line for the start of a run: where from, how many, classes, channels.
  virtual std::string description() const = 0;
};

// Polled while pictures are verified; true ends the scan with UserError(kStopped).
using StopCheck = std::function<bool()>;

// Opens synth:NAME, a folder or a zip. What it decides (order, labels, channels, pictures left
// out) depends on the files and options alone, so all ranks agree. No LibTorch call, and all of
// its threads have ended when it returns: it may run before a fork, and the result be used after.
// Throws UserError(kInput) naming the path or the bad picture.
std::shared_ptr<const Dataset> open_dataset(const DataOptions& options, const StopCheck& stop = {});

}  // namespace gantrain
