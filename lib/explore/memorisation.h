// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/value.h"
#include "explore/fakes.h"
#include "explore/nearest.h"
#include "explore/picture_vectors.h"
#include "image/image.h"

namespace gantrain {

struct MemorisationOptions {
  int64_t count = 3;    // nearest reals of each fake
  bool mirror = false;  // reals flipped left to right count, too
  // Is given at most 32 pictures at a time.
  PictureVectors features;
  std::function<void(int64_t)> progress = [](int64_t) {};  // after so many reals
};

// The reals nearest to each fake, by pixels and by features.
struct Memorisation {
  std::vector<std::vector<Neighbour>> by_pixels, by_features;
  // The median distance of up to 256 reals, evenly spaced in the data, to their own nearest other
  // real, by pixels and by features: what is usual between different pictures.
  double usual_pixels = 0;
  double usual_features = 0;
};

// Compares each fake with every real picture, which are loaded in batches of at most 64 MB. Throws
// what loading throws.
Memorisation find_nearest(const Fakes& fakes,
                          const Dataset& reals,
                          const MemorisationOptions& options);

// Returns the fakes, by number, whose nearest real is less than half as far away as is usual
// between reals, by pixels: likely copies. Those nearest to a real come first.
std::vector<size_t> likely_copies(const Memorisation& found);

// Returns {"fakes": [{"name": ..., "pixels": [{"file": ..., "picture": k, "mirrored": false,
// "distance": 0.1}, ...], "features": [...]}, ...], "usual": {"pixels": ..., "features": ...},
// "copies": [names]}.
Json to_json(const Memorisation& found, const Fakes& fakes, const Dataset& reals);

// A sheet with one line for each fake, those nearest to a real above: the fake, its nearest reals
// by pixels, its nearest reals by features. At most 64 lines.
Image pair_sheet(const Memorisation& found, const Fakes& fakes, const Dataset& reals);

}  // namespace gantrain
