// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/value.h"
#include "data/pictures/dataset.h"
#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"
#include "image/image.h"

namespace gantrain {

// Pictures of which one wants to know whether they are copies.
struct Fakes {
  std::vector<std::string> names;
  at::Tensor pictures;  // uint8 [N, C, H, W]
};

// Draws and names seeds as `generate` does. Throws what it throws, and UserError(kUsage) as
// load_fakes() does.
Fakes draw_fakes(Generator& generator,
                 const ModelRequest& how,
                 const std::vector<int64_t>& seeds,
                 const ClassTable& table);

// Loads all pictures of a data set. Throws UserError(kInput) for more than 10,000, or where their
// pixel_vectors() would take more than 2 GiB.
Fakes load_fakes(const Dataset& pictures);

// One of the pictures nearest to another.
struct Neighbour {
  int64_t picture = 0;    // its number
  bool mirrored = false;  // it is nearer when flipped left to right
  double distance = 0;
};

// Keeps, for each of N vectors, the nearest among vectors that come in batches, however many.
class NearestKeeper {
 public:
  // queries: [N, F]. Query i does not meet picture own[i]; empty: queries are none of the pictures.
  NearestKeeper(const at::Tensor& queries, int64_t count, std::vector<int64_t> own = {});

  // candidates: [M, F], of the pictures first, first + 1, ...
  void add(const at::Tensor& candidates, int64_t first, bool mirrored);

  // Returns for each query its neighbours, nearest first, each picture once, by Euclidean distance.
  const std::vector<std::vector<Neighbour>>& nearest() const { return nearest_; }

 private:
  void meet(size_t query, const Neighbour& candidate);

  at::Tensor queries_;
  int64_t count_;
  std::vector<int64_t> own_;
  std::vector<std::vector<Neighbour>> nearest_;
};

// Turns pictures, uint8 [N, C, H, W], into vectors [N, F], Euclidean distances of which count.
using PictureVectors = std::function<at::Tensor(const at::Tensor&)>;

// Vectors of all values: their distance is the root mean squared difference, 0 to 1, exactly 0 for
// equal pictures. Beyond 256 pixels a side means of square blocks are compared.
at::Tensor pixel_vectors(const at::Tensor& pictures);

// Features of a convolutional network with fixed random weights: colours, edges and textures of
// three scales in a grid of 4 x 4 places. They stand in for a detector, and forgive small shifts.
class RandomFeatures {
 public:
  explicit RandomFeatures(int64_t channels);
  at::Tensor operator()(const at::Tensor& pictures) const;

 private:
  std::vector<at::Tensor> weights_;
};

// Return pictures, uint8 [N, C, H, W], loaded by all threads: those of these numbers, or first,
// first + 1, ... Throw what Dataset::view() throws.
at::Tensor load_pictures(const Dataset& dataset, const std::vector<int64_t>& numbers);
at::Tensor load_pictures(const Dataset& dataset, int64_t first, int64_t count);

// Returns the path of a picture as messages name it: its file, or "picture 17" where it has none.
std::string picture_name(const Dataset& dataset, int64_t index);

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
  // The median distance of up to 256 reals to their own nearest other real: what is usual.
  double usual_pixels = 0;
  double usual_features = 0;
};

// Compares each fake with every real. Throws what loading throws.
Memorisation find_nearest(const Fakes& fakes,
                          const Dataset& reals,
                          const MemorisationOptions& options);

// Returns the numbers of fakes whose nearest real is less than half as far away as is usual between
// reals, by pixels: likely copies, the nearest first.
std::vector<size_t> likely_copies(const Memorisation& found);

// Returns {"fakes": [{"name": ..., "pixels": [{"file": ..., "picture": k, "mirrored": false,
// "distance": 0.1}, ...], "features": [...]}, ...], "usual": {"pixels": ..., "features": ...},
// "copies": [names]}.
Json to_json(const Memorisation& found, const Fakes& fakes, const Dataset& reals);

// A line for each fake, at most 64, those nearest to a real above: the fake, its nearest reals by
// pixels, its nearest reals by features. Below each picture stands its name, or by what it is near
// and how far away it is; small pictures are enlarged to make room for that, each pixel to a
// square. Channels are those of shown_channels().
Image pair_sheet(const Memorisation& found,
                 const Fakes& fakes,
                 const Dataset& reals,
                 const std::vector<int64_t>& shown = {});

}  // namespace gantrain
