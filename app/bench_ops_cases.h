// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "bench_requests.h"

namespace gantrain {

// One operator that `bench ops` times.
struct OpCase {
  std::string name;
  std::function<void()> ours;
  std::function<void()> composed;  // the same of LibTorch's operators
  double bytes = 0;                // that must be read and written, each once
};

// All of them, on tensors as the request has them, which lie on `device`.
std::vector<OpCase> op_cases(const BenchOpsRequest& request, c10::Device device);

}  // namespace gantrain
