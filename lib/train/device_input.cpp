// SPDX-License-Identifier: Apache-2.0
#include "train/device_input.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace gantrain {

using Which = InputStreams::Which;

DeviceInput::DeviceInput(std::unique_ptr<InputStreams> streams, at::ScalarType type)
    : streams_(std::move(streams)) {
  half_range_ = streams_->device_memory({}, type);
  // A GPU multiplies by the reciprocal of a divisor that the host holds, which rounds differently.
  half_range_.fill_(127.5);
}

DeviceInput::~DeviceInput() = default;

// Gives a lane memory for such a tensor, unless it has it. Memory of the device may have been used
// before by work that the computing stream has not finished yet: copies begin after that.
void DeviceInput::fit(Lane& lane, const at::Tensor& like, InputStreams::Event used) {
  const bool fits = lane.host.defined() && lane.host.sizes() == like.sizes() &&
                    lane.host.scalar_type() == like.scalar_type();
  if (fits) return;
  lane.host = streams_->host_memory(like.sizes(), like.scalar_type());
  lane.device = streams_->device_memory(like.sizes(), like.scalar_type());
  streams_->record(used, Which::kComputing);
}

DeviceBatch DeviceInput::bring(const at::Tensor& images, const at::Tensor& labels) {
  const int64_t slot = turn_++ % kBuffers;
  const InputStreams::Event copied = 2 * slot, used = 2 * slot + 1;
  Buffer& buffer = buffers_[static_cast<size_t>(slot)];
  streams_->wait(copied);  // the copy of two batches ago, out of the memory that is written now
  fit(buffer.images, images, used);
  buffer.images.host.copy_(images);
  if (labels.defined()) {
    fit(buffer.labels, labels, used);
    buffer.labels.host.copy_(labels);
  }

  // The closures share the tensors: streams may run them late.
  const Lane pictures = buffer.images, classes = labels.defined() ? buffer.labels : Lane{};
  streams_->begin_after(used, Which::kCopying);
  streams_->run(Which::kCopying, [pictures, classes] {
    pictures.device.copy_(pictures.host, /*non_blocking=*/true);
    if (classes.host.defined()) classes.device.copy_(classes.host, /*non_blocking=*/true);
  });
  streams_->record(copied, Which::kCopying);

  DeviceBatch batch;
  batch.real = at::empty(images.sizes(), half_range_.options());
  if (labels.defined()) batch.labels = at::empty_like(classes.device);
  streams_->begin_after(copied, Which::kComputing);
  streams_->run(Which::kComputing, [pictures, classes, batch, half_range = half_range_] {
    at::Tensor real = batch.real, numbers = batch.labels;
    at::div_out(real, pictures.device, half_range).sub_(1);
    if (numbers.defined()) numbers.copy_(classes.device);
  });
  streams_->record(used, Which::kComputing);
  return batch;
}

}  // namespace gantrain
