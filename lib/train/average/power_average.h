// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/device.h"
#include "core/tensor_files.h"

// Averages of weights whose length is chosen after training: Karras et al. 2024, "Analyzing and
// Improving the Training Dynamics of Diffusion Models", arXiv:2312.02696, sec. 3 and app. C.

namespace gantrain {

// The longest length there is: that of the plain mean of all weights since the start, gamma = 0.
inline constexpr double kLongestAverage = 0.28867513459481287;  // 1 / sqrt(12)

// The lengths of the averages that ema.posthoc=on keeps (sec. 3.2).
inline const std::vector<double> kKeptLengths = {0.05, 0.10};

// Returns the exponent gamma of a power function average whose length is `length` (sigma_rel): the
// standard deviation of the times that it looks back on, as a share of the training so far. It is
// the largest root of gamma^3 + 7 gamma^2 + (16 - length^-2) gamma + 12 - length^-2. `length` is
// above 0 and at most kLongestAverage.
double gamma_of_length(double length);

// Returns the weight of the weights after an iteration of `batch` images, before which so many were
// seen, in the average of that exponent: 1 - (1 - batch / t)^(gamma + 1), t being the images seen
// by then. So an image at time u counts in proportion to u^gamma, whatever the batches are.
double power_weight(double gamma, int64_t images_seen, int64_t batch);

// An average over the training up to `images` seen.
struct PowerProfile {
  double images = 0;
  double gamma = 0;
};

// How an average is made of others.
struct Combination {
  std::vector<double> factors;  // of the others; their sum is 1
  // The L2 norm of what its profile lacks, as a share of the norm of the wanted one.
  double misfit = 0;
};

// Returns the combination of kept averages, of which there is one at least, whose profile is the
// nearest to the wanted one in the sense of least squares (app. C.2), among those whose factors
// have the sum 1: then what weights have in common is kept exactly.
Combination combine_profiles(const std::vector<PowerProfile>& kept, const PowerProfile& wanted);

// Running averages of a network's parameters, one for each length.
class PowerAverages {
 public:
  // `parameters`: those of the network by name, the tensors themselves.
  PowerAverages(NamedTensors parameters, const std::vector<double>& lengths);
  PowerAverages(const PowerAverages&) = delete;
  PowerAverages& operator=(const PowerAverages&) = delete;

  // Takes in the parameters as they are after an iteration of `batch` images. It does not wait for
  // the device.
  void update(int64_t images_seen_before, int64_t batch);

  const std::vector<double>& lengths() const { return lengths_; }
  // The parameters' averages of the length of that number, by the parameters' names: the tensors
  // themselves.
  NamedTensors of(size_t length) const;

 private:
  NamedTensors parameters_;
  std::vector<double> lengths_;
  int64_t batch_ = 1;                                   // of the iteration that is taken in
  std::vector<std::vector<at::Tensor>> averages_;       // of each length, in the parameters' order
  std::vector<std::unique_ptr<DeviceNumber>> weights_;  // power_weight() of each length
};

}  // namespace gantrain
