// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "core/torch.h"
#include "ops/bias_act/bias_act.h"
#include "ops/counting/gpu_count.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr double kX = 2 * 3 * 8 * 8, kW = 4 * 3 * 3 * 3, kY = 2 * 4 * 8 * 8, kB = 4;  // numbers
constexpr double kProducts = 4 * ((kX + kW + kY) + (kY + kX + kW));                   // bytes

// A convolution with a bias and a leaky ReLU, and the gradients of its filter and bias.
struct TinyNet {
  Tensor x = torch::empty({2, 3, 8, 8}, at::kMeta);
  Tensor w = torch::empty({4, 3, 3, 3}, at::kMeta).requires_grad_();
  Tensor b = torch::empty({4}, at::kMeta).requires_grad_();
  Tensor dz = torch::empty({2, 4, 8, 8}, at::kMeta);

  void operator()() const {
    const Tensor y = at::conv2d(x, w, {}, 1, 1);
    const Tensor z = bias_act(y, b, {Activation::kLrelu, 1, 0.2});
    torch::autograd::grad({z}, {w, b}, {dz});
  }
};

GpuWork sum_of(const GpuOperators& operators) {
  GpuWork sum;
  for (const auto& [name, work] : operators) sum.add(work);
  return sum;
}

}  // namespace

TEST_CASE("ATinyNetIsCountedAsByHand") {
  GpuCount gpu;
  const TinyNet net;
  gpu.enter("tiny");
  net();
  const CountedPhase& phase = gpu.phases().at("tiny");
  CHECK(phase.graphs.empty());
  const GpuOperators& eager = phase.eager;
  CHECK(eager.size() == 4);
  const GpuWork forward = eager.at("convolution"), act = eager.at("bias_act"),
                slope = eager.at("bias_act gradient"),
                filter = eager.at("convolution's gradient by its weight");
  CHECK(forward.read == 4 * (kX + kW));
  CHECK(forward.written == 4 * kY);
  CHECK(act.kernels == 1);
  CHECK(act.read == 4 * (kY + kB));
  CHECK(act.written == 4 * kY);
  CHECK(slope.kernels == 2);  // the second one adds the bias's sums up
  CHECK(slope.read == 4 * (kY + kY));
  CHECK(slope.written == 4 * (kY + kB));
  CHECK(filter.read == 4 * (kY + kX));
  CHECK(filter.written == 4 * kW);
  const GpuWork all = sum_of(eager);
  CHECK(all.kernels == 5);
  CHECK(all.floor == kProducts);
}

TEST_CASE("WhatAGraphReplaysIsCountedApart") {
  GpuCount gpu;
  const TinyNet net;
  const std::unique_ptr<GraphPool> pool = make_graph_pool(at::kMeta);
  gpu.enter("recording");
  const std::unique_ptr<DeviceGraph> graph = pool->record(net);
  CHECK(gpu.phases().count("recording") == 0);
  gpu.enter("replaying");
  for (int i = 0; i < 3; ++i) graph->replay();
  net.x.add(1);
  const CountedPhase& phase = gpu.phases().at("replaying");
  CHECK(phase.replays == 3);
  CHECK(sum_of(phase.graphs).kernels == 3 * 5);
  CHECK(sum_of(phase.graphs).floor == 3 * kProducts);
  CHECK(sum_of(phase.eager).kernels == 1);
}

TEST_CASE("WhatIsViewedOrOutsideOfPhasesIsNotCounted") {
  GpuCount gpu;
  const Tensor x = torch::empty({4, 6}, at::kMeta);
  x.add(1);
  gpu.enter("views");
  x.t().narrow(0, 1, 2).expand({5, 2, 4}).detach();
  torch::ones({3}).mul(2);  // on the CPU
  CHECK(gpu.phases().empty());
  x.narrow(0, 0, 1).expand({4, 6}).sum();
  CHECK(sum_of(gpu.phases().at("views").eager).read == 4 * 6);  // an axis of stride 0 once
  const Tensor copy = x.cpu();
  CHECK(copy.equal(torch::zeros({4, 6})));
  CHECK(gpu.phases().at("views").eager.at("copy to the host").kernels == 1);
}

// Lists of tensors take one launch for 110 tensors, or for 320 pieces of 65,536 numbers.
TEST_CASE("ListsOfTensorsTakeFewLaunches") {
  GpuCount gpu;
  const auto launches = [&](const std::string& phase, int64_t count, int64_t numbers) {
    std::vector<Tensor> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(torch::empty({numbers}, at::kMeta));
    gpu.enter(phase);
    at::_foreach_mul_(list, 2);
    return gpu.phases().at(phase).eager.at("aten::_foreach_mul_").kernels;
  };
  CHECK(launches("few", 110, 8) == 1);
  CHECK(launches("more", 111, 8) == 2);
  CHECK(launches("large", 1, 320 * 65536) == 1);
  CHECK(launches("larger", 1, 320 * 65536 + 1) == 2);
}
