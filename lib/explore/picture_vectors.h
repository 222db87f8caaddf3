// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "data/dataset.h"

namespace gantrain {

// Turns pictures, uint8 [N, C, H, W], into vectors [N, F] whose Euclidean distance says how unlike
// two pictures are.
using PictureVectors = std::function<at::Tensor(const at::Tensor&)>;

// Vectors of all values, such that the distance is the root mean squared difference, 0 to 1. Equal
// pictures have distance 0 exactly. Pictures of more than 256 pixels a side are compared by the
// means of square blocks.
at::Tensor pixel_vectors(const at::Tensor& pictures);

// Features of an untrained convolutional network with fixed random weights: colours, edges and
// textures of three scales in a grid of 4 x 4 places. They stand in where nobody brought a
// detector, and forgive small shifts that pixels do not.
class RandomFeatures {
 public:
  explicit RandomFeatures(int64_t channels);
  at::Tensor operator()(const at::Tensor& pictures) const;

 private:
  std::vector<at::Tensor> weights_;
};

// Returns pictures first, first + 1, ... of a data set: uint8 [count, C, H, W], loaded by all
// threads. Throws what Dataset::view() throws.
at::Tensor load_pictures(const Dataset& dataset, int64_t first, int64_t count);

// Returns the path of a picture as messages name it: its file, or "picture 17" where it has none.
std::string picture_name(const Dataset& dataset, int64_t index);

}  // namespace gantrain
