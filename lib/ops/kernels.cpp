// SPDX-License-Identifier: Apache-2.0
#include "ops/kernels.h"

#include <atomic>

namespace gantrain {

namespace {

// Atomic, because backward passes on a GPU read it from autograd's own thread.
std::atomic<KernelSet>& chosen() {
  static std::atomic<KernelSet> set{KernelSet::kAuto};
  return set;
}

}  // namespace

void use_kernels(KernelSet set) { chosen() = set; }

KernelSet kernels_in_use() { return chosen(); }

WithKernels::WithKernels(KernelSet set) : before_(kernels_in_use()) { use_kernels(set); }

WithKernels::~WithKernels() { use_kernels(before_); }

}  // namespace gantrain
