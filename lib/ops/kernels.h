// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace gantrain {

// Says which implementation operators with several of them choose. `ref` composes LibTorch's
// operators and lets LibTorch's autograd differentiate them. `auto` takes the fastest
// implementation for the tensor's device (device_kernels.h), which has derivatives of its own. Both
// give the same numbers up to rounding.
enum class KernelSet { kAuto, kRef };
constexpr std::array<std::string_view, 2> names(KernelSet) { return {"auto", "ref"}; }

// Chooses the kernels of the whole process. It is the only global setting: it changes no result,
// and as a parameter it would pass through every layer of every network and be the same everywhere.
// Call it once when a rank starts, before anything is computed.
void use_kernels(KernelSet set);
KernelSet kernels_in_use();

// While this object lives, another set of kernels is in use. It is meant for tests and measurements
// in one thread.
class WithKernels {
 public:
  explicit WithKernels(KernelSet set);
  ~WithKernels();
  WithKernels(const WithKernels&) = delete;
  WithKernels& operator=(const WithKernels&) = delete;

 private:
  KernelSet before_;
};

}  // namespace gantrain
