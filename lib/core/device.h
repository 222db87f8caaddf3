// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>

#include <functional>
#include <memory>

namespace gantrain {

// Whether a device computes as a GPU does, in its types and layouts: a GPU, and LibTorch's meta
// device while it stands for one (ops/counting/gpu_count.h).
bool is_gpu(at::Device device);
void set_counts_on_meta(bool counts);

// Whether the host can read a tensor of that device without waiting; true on a CPU. On other
// devices a read waits until all work given to the device is done, so code that runs in every
// iteration keeps its numbers on the device instead of reading them.
bool reads_are_free(at::Device device);

// Returns the only number of a one-element tensor of any type on the CPU, read from its memory.
double read_free(const at::Tensor& tensor);

// While this object lives, the process's CPU counts as a device whose reads wait: so tests run the
// code paths of a GPU without one.
class AssumeReadsWait {
 public:
  AssumeReadsWait();
  ~AssumeReadsWait();
  AssumeReadsWait(const AssumeReadsWait&) = delete;
  AssumeReadsWait& operator=(const AssumeReadsWait&) = delete;
};

// A number for operators that may change from iteration to iteration. Its value lies on the device,
// so that a captured step goes on with the next iteration's value. A number that never changes is
// its `constant`. Copies share their value.
class DeviceNumber {
 public:
  DeviceNumber(double constant = 0) : constant_(constant) {}  // NOLINT: a number is one
  // A number whose value is at(images_seen), at first at(0); its tensor has the type and device of
  // `like`.
  DeviceNumber(std::function<double(int64_t images_seen)> at, const at::TensorOptions& like);

  // Sets the value for an iteration before which so many images were seen, without a copy between
  // host and device; does nothing to a constant.
  void advance_to(int64_t images_seen);

  bool moves() const { return at_ != nullptr; }
  double host() const;  // the present value, known without waiting
  bool is_used() const { return moves() || constant_ != 0; }  // false for the constant 0
  // The value as a tensor [] on the device where moves(), else undefined.
  const at::Tensor& value() const { return on_device_; }
  // Returns factor * number * tensor.
  at::Tensor times(const at::Tensor& tensor, double factor = 1) const;
  // Returns from + (to - from) * number.
  at::Tensor lerp(const at::Tensor& from, const at::Tensor& to) const;

 private:
  bool is_for_host() const;

  std::function<double(int64_t)> at_;  // null for a constant
  double constant_ = 0;
  at::Tensor on_device_;  // []
  at::Tensor on_host_;    // float64 [] on the CPU, shared by copies
};

// Returns when the device has done all that it was given, on every stream. On a CPU, at once.
void wait_for(c10::Device device);

// Says for a device whether LibTorch throws c10::Error where it makes the host wait for the device:
// copies of memory that is not page-locked, reads by the host, results whose size depends on
// values. wait_for() and waiting for an event never throw for that reason.
using SetWaitErrors = void (*)(bool on);
// Sets how that is said for a device. The library of the device calls this once, as it is loaded.
void set_wait_errors(c10::DeviceType device, SetWaitErrors set);

// While this object lives and `on` is true, waiting for a device of that type is an error on every
// thread, if set_wait_errors() was called for it. One at a time.
class WaitsAreErrors {
 public:
  WaitsAreErrors(c10::DeviceType device, bool on);
  ~WaitsAreErrors();
  WaitsAreErrors(const WaitsAreErrors&) = delete;
  WaitsAreErrors& operator=(const WaitsAreErrors&) = delete;

 private:
  SetWaitErrors set_;  // null: nothing was changed
};

// Work that was given to a device once and was recorded: a CUDA graph.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Gives the same work to the device again, on the same memory. It does not wait for the device.
  virtual void replay() = 0;
};

// Memory in which recorded work keeps its tensors. Graphs of one pool may share what each of them
// needs only while it runs.
class GraphPool {
 public:
  virtual ~GraphPool() = default;
  // Records what `work` gives to the device, and runs nothing of it: tensors that it makes have
  // their addresses and no values yet. Throws c10::Error, and leaves the device usable, if `work`
  // does what cannot be recorded, such as waiting for the device.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) = 0;
};

// Makes a pool, which the caller owns.
using MakeGraphPool = GraphPool* (*)();
// Sets how pools of a device are made, likewise.
void set_graph_pools(c10::DeviceType device, MakeGraphPool make);
// Whether a device can record work, so that numbers which change must lie on it.
bool records_graphs(c10::DeviceType device);
// Makes a pool, or returns null if the device cannot record work.
std::unique_ptr<GraphPool> make_graph_pool(c10::DeviceType device);

}  // namespace gantrain
