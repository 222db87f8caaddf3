// SPDX-License-Identifier: Apache-2.0
// The way of pictures to a GPU.
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "device.h"
#include "train/run/training_data.h"

using namespace gantrain;
using at::Tensor;

// The host's memory is overwritten at once and the GPU is kept busy, so that a copy that came too
// late, or a buffer that was taken too early, would show.
TEST_CASE("BatchesArriveOnTheGpuWithTheBitsThatACpuMakes") {
  const auto device = gpu_or_skip();
  if (!device) return;
  torch::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    DeviceInput input(streams_of(*device, DeviceInput::kEvents), type);
    const Tensor work = torch::randn({1024, 1024}, at::TensorOptions().device(*device));
    std::vector<Batch> batches;
    std::vector<Tensor> pictures, labels;
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t count = i % 7 == 6 ? 5 : 16;
      Tensor bytes = torch::randint(0, 256, {count, 3, 64, 64}, at::kByte);
      Tensor classes = torch::randint(0, 10, {count});
      pictures.push_back(bytes.to(type).div_(127.5).sub_(1));
      labels.push_back(classes.clone());
      for (int k = 0; k < 20; ++k) work.mm(work);
      batches.push_back(input.bring({bytes, i % 3 == 0 ? Tensor() : classes}));
      bytes.fill_(7);
      classes.fill_(-1);
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      CAPTURE(i);
      CHECK(batches[i].real.device() == *device);
      CHECK(torch::equal(batches[i].real.cpu(), pictures[i]));
      if (batches[i].labels.defined()) CHECK(torch::equal(batches[i].labels.cpu(), labels[i]));
      CHECK(batches[i].labels.defined() == (i % 3 != 0));
    }
  }
}
