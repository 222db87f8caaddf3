// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>

#include "train/input_streams.h"

namespace gantrain {

// A batch as the training step takes it.
struct DeviceBatch {
  at::Tensor real;    // [m, C, R, R] in [-1, 1], on the device
  at::Tensor labels;  // int64 [m] on the device; undefined without labels
};

// Brings batches to a device while it still computes on earlier ones. Pictures travel as bytes,
// from page-locked memory, on a stream of their own, and become numbers on the device. There are
// two buffers on each side. The host waits only for a copy that began two batches ago and has not
// ended yet; the computing stream waits for its own batch's copy.
class DeviceInput {
 public:
  static constexpr int64_t kBuffers = 2;
  static constexpr int64_t kEvents = 2 * kBuffers;  // that it needs of its streams

  // Batches get numbers of type `type`.
  DeviceInput(std::unique_ptr<InputStreams> streams, at::ScalarType type);
  ~DeviceInput();

  // `images`: uint8 [m, C, R, R]; `labels`: int64 [m], or undefined; both on the CPU, and free to
  // be overwritten when this returns. The result is there for all work that the computing stream is
  // given from now on; its values are those of images / 127.5 - 1 on a CPU, to the bit.
  DeviceBatch bring(const at::Tensor& images, const at::Tensor& labels);

 private:
  // A tensor's way: page-locked memory of the host, then memory of the device.
  struct Lane {
    at::Tensor host, device;
  };
  struct Buffer {
    Lane images, labels;
  };

  void fit(Lane& lane, const at::Tensor& like, InputStreams::Event used);

  std::unique_ptr<InputStreams> streams_;
  at::Tensor half_range_;  // 127.5, on the device
  std::array<Buffer, kBuffers> buffers_;
  int64_t turn_ = 0;  // batches so far
};

}  // namespace gantrain
