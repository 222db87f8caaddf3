// SPDX-License-Identifier: Apache-2.0
#include "train/input_streams.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <vector>

namespace gantrain {

namespace {

// In LibTorch's own terms for any accelerator: the CUDA side need not be linked.
class DeviceStreams final : public InputStreams {
 public:
  DeviceStreams(at::Device device, int64_t events)
      : device_(device),
        implementation_(device.type()),
        copying_(implementation_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)) {
    for (int64_t i = 0; i < events; ++i) events_.emplace_back(device.type());
  }

  at::Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(true));
  }
  at::Tensor device_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    return at::empty(sizes, at::TensorOptions(device_).dtype(type));
  }
  void run(Which stream, const std::function<void()>& work) override {
    const c10::StreamGuard on(stream_of(stream));
    work();
  }
  void record(Event event, Which stream) override { at(event).record(stream_of(stream)); }
  void begin_after(Event event, Which stream) override { at(event).block(stream_of(stream)); }
  void wait(Event event) override { at(event).synchronize(); }

 private:
  c10::Event& at(Event event) { return events_.at(static_cast<size_t>(event)); }
  // The computing stream is the thread's current one, which a capture of graphs may replace.
  c10::Stream stream_of(Which stream) const {
    return stream == Which::kCopying ? copying_ : implementation_.getStream(device_);
  }

  at::Device device_;
  c10::impl::VirtualGuardImpl implementation_;
  c10::Stream copying_;
  std::vector<c10::Event> events_;
};

}  // namespace

std::unique_ptr<InputStreams> streams_of(at::Device device, int64_t events) {
  return std::make_unique<DeviceStreams>(device, events);
}

}  // namespace gantrain
