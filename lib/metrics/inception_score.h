// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gantrain {

// Mean and population standard deviation over the splits.
struct InceptionScore {
  double mean = 0;
  double deviation = 0;
};

// Returns exp(mean over pictures of KL(p(y|x) || p(y))) of class probabilities [N, C], computed in
// float64 for each of `splits` parts in order, where p(y) is the part's mean (Salimans et al.
// 2016). A probability of 0 adds nothing. Needs as many pictures as splits.
InceptionScore inception_score(const at::Tensor& probabilities, int64_t splits);

}  // namespace gantrain
