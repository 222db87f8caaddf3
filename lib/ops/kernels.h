// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace gantrain {

// Which implementation the operators choose that have several: `ref` composes LibTorch's operators
// and lets its autograd differentiate them; `auto` is the fastest there is for the tensor's device
// (device_kernels.h), with derivatives of its own. The numbers agree up to rounding.
enum class KernelSet { kAuto, kRef };
constexpr std::array<std::string_view, 2> names(KernelSet) { return {"auto", "ref"}; }

// The one setting of the whole process: it changes no result, and as a parameter it would pass
// through every layer of every network, only to be the same everywhere. To be called once, when a
// rank starts, before anything is computed.
void use_kernels(KernelSet set);
KernelSet kernels_in_use();

// Another set while it lives; for tests and measurements, in one thread.
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
