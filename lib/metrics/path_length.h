// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

class Detector;

// How perceptual path length is measured (Karras et al. 2019, sec. 4.1; as "ppl2_wend": at the ends
// of paths through w, on whole pictures).
struct PathLengthOptions {
  int64_t samples = 50'000;
  double epsilon = 1e-4;
  uint64_t seed = 0;
};

// Returns the mean of LPIPS(G(t = 0), G(t = epsilon)) / epsilon^2 over paths between two random
// latents with one label, without those below the 1st and above the 99th percentile: straight paths
// through w, and great circles through z for generators without w. Noise inputs are the same at
// both points. Pictures larger than 256 pixels are reduced to that by averaging. Collective.
double perceptual_path_length(GeneratedPictures& pictures,
                              Detector& detector,
                              const PathLengthOptions& options,
                              const SharedWork& work);

// Returns the mean of the values from the 1st to the 99th percentile, both with their bounds: the
// order statistics next below and next above.
double mean_within_percentiles(std::vector<double> values);

}  // namespace gantrain
