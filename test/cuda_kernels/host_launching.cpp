// SPDX-License-Identifier: Apache-2.0
// What lib/ops/gpu/library.cpp is for a GPU: kernels run at once, on the host, in a loop.
#include "host_launching.h"

#include "ops/gpu/table_cuda.h"

namespace gantrain {

namespace {

int guards = 0;  // that are alive

}  // namespace

HostLaunches& host_launches() {
  static HostLaunches noted;
  return noted;
}

cuda_kernels::Stream current_stream(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu(), "the host runs kernels on the host's tensors");
  (guards > 0 ? host_launches().guarded : host_launches().unguarded) += 1;
  return nullptr;
}

void check_launch() {}

int enter_device(c10::Device /*device*/) { return guards++; }

void leave_device(int before) { guards = before; }

}  // namespace gantrain
