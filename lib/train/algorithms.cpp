// SPDX-License-Identifier: Apache-2.0
#include "train/algorithms.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace gantrain {

void choose_algorithms(bool deterministic) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  // Which algorithm wins a race depends on the moment, and their bits differ.
  context.setBenchmarkCuDNN(!deterministic);
  // One of the two settings with which NVIDIA promises equal bits; LibTorch refuses matrix products
  // on a GPU without one of them while algorithms have to be deterministic.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace gantrain
