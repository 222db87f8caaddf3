// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <utility>

#include "data/cache.h"
#include "data/picture_set.h"
#include "data/shapes.h"
#include "data/source.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

ImageView Dataset::view(int64_t index, LoadBuffers& buffers) const {
  buffers.prepared = load(index);
  return view_of(buffers.prepared);
}

std::shared_ptr<const Dataset> open_dataset(const DataOptions& options,
                                            const StopCheck& stop,
                                            int64_t sharers) {
  if (options.path == "synth:shapes") return make_shapes(options);
  if (starts_with(options.path, "synth:")) {
    fail(Exit::kInput, "{}: no such built-in data; there is synth:shapes", options.path);
  }
  auto pictures = make_picture_set(open_source(options, stop), options, stop);
  return cached(std::move(pictures), options.resolution, options.cache_mb * 1000 * 1000, sharers);
}

}  // namespace gantrain
