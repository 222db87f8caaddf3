// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include "ops/drawn_matrices/drawn_matrices_gpu.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

using at::Tensor;

std::tuple<Tensor, Tensor> cuda_drawn_matrices(const Tensor& p, const DrawnMatrices& how) {
  Tensor each = at::empty({how.samples.count, how.colour ? 16 : 9}, p.options()), margins;
  if (!how.colour) margins = at::empty({4}, p.options());
  cuda_kernels::DrawnMatricesArguments arguments{
      .steps = {},
      .count = static_cast<int>(how.steps.size()),
      .colour = how.colour,
      .key = how.key.numbers.const_data_ptr<int64_t>(),
      .phase = static_cast<uint64_t>(how.key.phase),
      .first_sample = how.samples.first,
      .sample_stride = how.samples.stride,
      .samples = how.samples.count,
      .width = how.width,
      .height = how.height,
      .beyond = how.beyond,
      .p = p.const_data_ptr<double>(),
      .matrices = each.mutable_data_ptr<double>(),
      .margins = how.colour ? nullptr : margins.mutable_data_ptr<double>()};
  for (size_t i = 0; i < how.steps.size(); ++i) {
    const auto& [step, numbers, decisions] = how.steps[i];
    arguments.steps[i] = {step, numbers, decisions};
  }
  cuda_kernels::drawn_matrices(arguments, current_stream(each));
  check_launch();
  return {each, margins};
}

}  // namespace gantrain
