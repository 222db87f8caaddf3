// SPDX-License-Identifier: Apache-2.0
#include "core/device_reads.h"

#include <ATen/Dispatch.h>

#include <atomic>

namespace gantrain {

namespace {
std::atomic<int> assumptions{0};
}

bool reads_are_free(at::Device device) { return device.is_cpu() && assumptions.load() == 0; }

double read_free(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.numel() == 1, "read_free: ", tensor.toString());
  double value = 0;
  AT_DISPATCH_ALL_TYPES_AND(at::kBool, tensor.scalar_type(), "read_free", [&] {
    value = static_cast<double>(*tensor.const_data_ptr<scalar_t>());
  });
  return value;
}

AssumeReadsWait::AssumeReadsWait() { ++assumptions; }
AssumeReadsWait::~AssumeReadsWait() { --assumptions; }

}  // namespace gantrain
