// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/tensor_files.h"
#include "data/pictures/dataset.h"

namespace gantrain {

// Stacked MNIST, by which papers count how many modes of the data a generator knows: three
// pictures of one channel make one in colour, so that K classes make K^3 modes that are equally
// frequent. A classifier of the single pictures tells which mode a stacked one belongs to
// (Srivastava et al. 2017, arXiv:1705.07761; Lin et al. 2018, PacGAN, arXiv:1712.04086).

// Pictures of one channel with their classes.
struct ClassPictures {
  at::Tensor pictures;  // uint8 [N, S, S]
  at::Tensor labels;    // int64 [N], 0 to classes - 1
  int64_t classes = 0;
};

// Reads up to `most` pictures of a data set of one channel in a fixed order that is drawn by lot.
// Throws UserError(kInput) where it has fewer than two classes, or labels that are vectors.
ClassPictures read_class_pictures(const Dataset& dataset, int64_t most, uint64_t seed);

// Returns `count` stacked pictures, uint8 [count, S, S, 3], each channel drawn from all pictures.
at::Tensor stack_pictures(const ClassPictures& of, int64_t count, uint64_t seed);

// A small convolutional network that tells the class of a picture of one channel, S x S pixels.
class ModeClassifier {
 public:
  ModeClassifier(int64_t classes, int64_t size, uint64_t seed);

  // Trains with momentum over all pictures `epochs` times.
  void train(const ClassPictures& on, int64_t epochs, uint64_t seed);
  // Returns the classes of uint8 [N, S, S], int64 [N].
  at::Tensor classify(const at::Tensor& pictures) const;
  // Returns the share of pictures whose class it tells.
  double accuracy(const ClassPictures& of) const;

  // Weights by name, for a file.
  NamedTensors weights() const;
  // Throws std::out_of_range where one is missing.
  void set_weights(const std::map<std::string, at::Tensor>& weights);

 private:
  at::Tensor logits(const at::Tensor& pictures) const;

  std::vector<at::Tensor> parameters_;
};

// Returns the modes of stacked pictures, uint8 [N, 3, S, S]: int64 [N], from 0 to K^3 - 1.
at::Tensor modes_of(const ModeClassifier& classifier, const at::Tensor& stacked, int64_t classes);

// What samples show of equally frequent modes.
struct ModeCount {
  int64_t modes = 0;  // that at least one sample shows
  double kl = 0;      // from the samples' distribution to the even one, in nats
};
// `modes`: int64 [N], from 0 to `all` - 1.
ModeCount count_modes(const at::Tensor& modes, int64_t all);

}  // namespace gantrain
