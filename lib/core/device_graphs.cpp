// SPDX-License-Identifier: Apache-2.0
#include "core/device_graphs.h"

#include <array>

namespace gantrain {

namespace {

// It is filled while libraries are loaded and only read from then on.
MakeGraphPool& maker(c10::DeviceType device) {
  static std::array<MakeGraphPool, c10::COMPILE_TIME_MAX_DEVICE_TYPES> makers{};
  return makers.at(static_cast<size_t>(device));
}

}  // namespace

void set_graph_pools(c10::DeviceType device, MakeGraphPool make) { maker(device) = make; }

bool records_graphs(c10::DeviceType device) { return maker(device) != nullptr; }

std::unique_ptr<GraphPool> make_graph_pool(c10::DeviceType device) {
  return std::unique_ptr<GraphPool>(records_graphs(device) ? maker(device)() : nullptr);
}

}  // namespace gantrain
