// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "metrics/frechet.h"
#include "metrics/pictures.h"
#include "metrics/shared_work.h"

namespace gantrain {

class Detector;

// What a detector sees in a set of pictures.
struct Features {
  FeatureSums sums;
  at::Tensor rows;  // float32 [N, F], one a picture; undefined where they were not asked for
};

// Which pictures are looked at, and what is kept of them.
struct FeaturePlan {
  std::string what;      // for progress and messages: "real pictures"
  int64_t pictures = 0;  // 0, 1, ... pictures - 1
  bool rows = false;
};

// Shows the pictures to the detector, in batches whose borders do not depend on the number of
// ranks. Collective.
Features compute_features(Pictures& pictures,
                          Detector& detector,
                          const FeaturePlan& plan,
                          const SharedWork& work);

// Returns class probabilities of the first `count` pictures, [count, C]. Collective.
at::Tensor compute_probabilities(Pictures& pictures,
                                 Detector& detector,
                                 int64_t count,
                                 const SharedWork& work);

// Does what compute_features() does, once: the result is kept in the folder under the identity of
// the pictures, the detector's content and the number of pictures, and read from there the next
// time. Rank 0 alone reads and writes; a file that is broken or of other pictures is replaced, with
// a warning; a folder that cannot be written to costs a warning. Several programs may use a folder
// at once. Collective.
Features cached_features(Pictures& pictures,
                         Detector& detector,
                         const FeaturePlan& plan,
                         const std::filesystem::path& folder,
                         const SharedWork& work);

}  // namespace gantrain
