// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "distributed/group.h"
#include "gan/generator.h"
#include "train/options.h"

namespace gantrain {

// Returns the mean distance of each picture to the one that is nearest to it, as the root of the
// mean square over its numbers. `pictures` is [N, ...] of floating point, N at least 2.
double nearest_distance(const at::Tensor& pictures);

// Measures how distinct generated pictures are: the mean distance of each of 64 pictures to the one
// nearest to it, divided by that of 64 real pictures; both are first reduced to at most 32 pixels a
// side by averages. A generator that ignores z, or knows a handful of pictures, is near 0, however
// different those few are. Healthy training was above 0.25 from 2 kimg on (dcgan-tiny,
// stylegan2-tiny); networks that have just begun may be near 0. Pictures of a conditional generator
// come in pairs of a class, so that labels alone do not make them distinct.
class Distinctness {
 public:
  static constexpr int64_t kPictures = 64;
  // Of real pictures. A generator that knows fewer of them by heart, as it may, shows many twice
  // among 64; so it does in pairs of a class with few pictures.
  static constexpr int64_t kLeastReals = 4 * kPictures;
  static constexpr int64_t kLeastOfClass = 16;

  // `reals` are looked at once, at the first measurement.
  Distinctness(Group& group,
               Generator& generator,
               std::shared_ptr<const Dataset> reals,
               uint64_t seed);

  // Whether the data has kLeastReals pictures, and kLeastOfClass for each class of the generator in
  // the mean. The same on all ranks.
  bool is_measurable() const;

  // Collective: the ranks share the work and get the same number. It is NaN where is_measurable()
  // is false, or all of the data's pictures are alike. It uses evaluation mode and latents of its
  // own, which stay the same all through the run.
  double measure(const SynthesisOptions& options);

 private:
  at::Tensor made(const SynthesisOptions& options);
  double of_reals() const;

  Group& group_;
  Generator& generator_;
  std::shared_ptr<const Dataset> reals_;
  uint64_t seed_;
  double of_reals_ = -1;  // on rank 0; -1 before the first measurement
};

// Decides when pictures have collapsed: where they were less distinct than CollapseOptions::below
// for so many measurements in a row, none of them before CollapseOptions::after.
class CollapseAlarm {
 public:
  explicit CollapseAlarm(const CollapseOptions& options) : options_(options) {}

  // Takes the next measurement. Returns whether the alarm begins with it.
  bool begins_with(double distinctness, int64_t images_seen);
  bool is_on() const { return in_a_row_ >= options_.times; }

 private:
  CollapseOptions options_;
  int64_t in_a_row_ = 0;
};

}  // namespace gantrain
