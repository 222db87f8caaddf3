// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace gantrain {

// Two queues of work of one device: what is given to a stream begins after all that was given to it
// before, and the host does not wait for it. Events order the streams among each other.
class InputStreams {
 public:
  enum class Which { kCopying, kComputing };
  using Event = int64_t;  // 0, 1, 2, ...

  virtual ~InputStreams() = default;
  // Returns memory of the host that the device reads by itself, and memory of the device.
  virtual at::Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type) = 0;
  virtual at::Tensor device_memory(at::IntArrayRef sizes, at::ScalarType type) = 0;
  // Gives work to a stream.
  virtual void run(Which stream, const std::function<void()>& work) = 0;
  // From now on the event stands for the end of all that this stream has been given so far.
  virtual void record(Event event, Which stream) = 0;
  // What the stream is given from now on begins after the event as it was last recorded. An event
  // that was never recorded lies in the past.
  virtual void begin_after(Event event, Which stream) = 0;
  // The host waits for the event as it was last recorded.
  virtual void wait(Event event) = 0;
};

// Returns the streams of a device that is no CPU: the one that this thread computes on, and one for
// copies alone. They have `events` events. It is called on the thread that uses them.
std::unique_ptr<InputStreams> streams_of(at::Device device, int64_t events);

}  // namespace gantrain
