// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/schema.h"
#include "util/size.h"

namespace at {
class Tensor;
}

namespace gantrain::r3gan {

// The sizes that a generator and its discriminator share. The lists have one entry for each stage,
// the start (4x4) first; D, which begins with the image, goes through them backwards.
struct Shape {
  Size img_resolution = {256, 256};  // a start times a power of two (util/doubled_size.h)
  int64_t img_channels = 3;
  int64_t z_dim = 64;
  int64_t c_dim = 0;       // classes; 0: unconditional
  int64_t embedding = 64;  // of the class in G; in D as wide as the start
  int64_t expansion = 2;
  std::vector<int64_t> widths, cardinalities, blocks;
  std::vector<int64_t> half_stages = {};  // numbers of the stages that compute in bfloat16

  int64_t stages() const { return static_cast<int64_t>(widths.size()); }
  // Of one network: the scale of its initial weights depends on it.
  int64_t all_blocks() const;
  bool half(int64_t stage) const;
};

// Returns the "gantrain.model" of a model file: {"recipe": "r3gan", the reference constructor's
// arguments}.
Json to_json(const Shape& shape);

// Reads the sizes off a generator's tensors; all of them show there. Throws UserError(kInput) that
// names `source` and the tensor that is missing or does not fit, or the member of `model`, which
// may be empty, that says something else.
Shape generator_shape(const Json& model,
                      const std::map<std::string, at::Tensor>& tensors,
                      const std::string& source);

// The tensors of stage 2 are called "Model.MainLayers.2.", which is stage_name(2), and the rest:
// "Layers.1.LinearLayer1.Layer.weight". Of other tensors the stage is -1, and all is rest.
struct StageTensor {
  int64_t stage = -1;
  std::string rest;
};
StageTensor stage_tensor(const std::string& name);
std::string stage_name(int64_t stage);

// Returns how many stages the network has whose tensors' names begin with `prefix`.
int64_t stages_of(const std::map<std::string, at::Tensor>& tensors, const std::string& prefix);

}  // namespace gantrain::r3gan
