// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/DeviceType.h>

#include <functional>
#include <memory>

namespace gantrain {

// Work that was given to a device once and was recorded: a CUDA graph.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Gives the same work to the device again, on the same memory. It does not wait for the device.
  virtual void replay() = 0;
};

// Memory in which recorded work keeps its tensors. Graphs of one pool may use the same memory for
// what each of them needs only while it runs.
class GraphPool {
 public:
  virtual ~GraphPool() = default;
  // Records what `work` gives to the device, and runs nothing of it. Tensors that `work` makes
  // have their final addresses and no values yet. Throws c10::Error, and leaves the device usable,
  // if `work` does what cannot be recorded, such as waiting for the device.
  virtual std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) = 0;
};

// Makes a pool, which the caller owns.
using MakeGraphPool = GraphPool* (*)();
// Sets how pools of a device are made. A library that is loaded while the program runs calls it
// once, before anything is computed.
void set_graph_pools(c10::DeviceType device, MakeGraphPool make);
// Whether a device can record work, so that numbers which change must lie on it.
bool records_graphs(c10::DeviceType device);
// Makes a pool, or returns null if the device cannot record work.
std::unique_ptr<GraphPool> make_graph_pool(c10::DeviceType device);

}  // namespace gantrain
