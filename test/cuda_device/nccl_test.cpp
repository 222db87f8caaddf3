// SPDX-License-Identifier: Apache-2.0
// A process group of one rank over NCCL: one GPU is enough.
#include <catch2/catch.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "core/torch.h"
#include "device.h"
#include "distributed/backend.h"
#include "distributed/device_identity.h"
#include "distributed/ending.h"

using namespace gantrain;
using at::Tensor;

namespace {

c10::intrusive_ptr<c10d::ProcessGroup> group_of_one(at::Device device) {
  const BackendSettings settings{.ranks = {}, .timeout = std::chrono::milliseconds(60'000)};
  return make_process_group(
      BackendKind::kNccl, c10::make_intrusive<c10d::HashStore>(), settings, device);
}

// Numbers that every type holds.
Tensor numbers(at::ScalarType type, at::Device device) {
  return torch::arange(1, 100).to(type).to(device);
}

}  // namespace

TEST_CASE("NcclSumsAndBroadcastsEveryTypeInAGroupOfOneAndShutsDown") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const auto group = group_of_one(*device);
  for (const at::ScalarType type : {at::kFloat,
                                    at::kDouble,
                                    at::kHalf,
                                    at::kBFloat16,
                                    at::kLong,
                                    at::kInt,
                                    at::kChar,
                                    at::kByte,
                                    at::kBool}) {
    CAPTURE(c10::toString(type));
    const Tensor expected = numbers(type, at::kCPU);
    std::vector<Tensor> tensors = {numbers(type, *device)};
    group->broadcast(tensors)->wait();
    CHECK(torch::equal(tensors[0].cpu(), expected));
    group->allreduce(tensors)->wait();
    CHECK(torch::equal(tensors[0].cpu(), expected));
  }
  CHECK(traffic_of(*group, *device).collectives == 18);
  CHECK(shut_down(group, *device, /*seconds=*/30));
}

// A run that is restarted in its own process tree, and tests, make one group after another.
TEST_CASE("NcclGroupsFollowEachOther") {
  const auto device = gpu_or_skip();
  if (!device) return;
  for (int i = 0; i < 3; ++i) {
    const auto group = group_of_one(*device);
    std::vector<Tensor> tensors = {torch::full({1000}, i, at::TensorOptions().device(*device))};
    group->allreduce(tensors)->wait();
    CHECK(tensors[0].cpu().sum().item<float>() == 1000.0F * static_cast<float>(i));
    CHECK(shut_down(group, *device, /*seconds=*/30));
  }
}

TEST_CASE("NcclsDeviceHasAnIdentity") {
  const auto device = gpu_or_skip();
  if (!device) return;
  const DeviceIdentity identity = read_device_identity(device->index());
  CHECK(identity.pci.find(':') != std::string::npos);
  CHECK(identity.uuid.size() >= 32);
}
