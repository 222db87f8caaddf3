// SPDX-License-Identifier: Apache-2.0
#include "core/device_waits.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>

namespace gantrain {

namespace {

// It is filled while libraries are loaded and only read from then on.
SetWaitErrors& setter(c10::DeviceType device) {
  static std::array<SetWaitErrors, c10::COMPILE_TIME_MAX_DEVICE_TYPES> setters{};
  return setters.at(static_cast<size_t>(device));
}

}  // namespace

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.has_index() ? device.index() : guard.getDevice().index());
}

void set_wait_errors(c10::DeviceType device, SetWaitErrors set) { setter(device) = set; }

WaitsAreErrors::WaitsAreErrors(c10::DeviceType device, bool on)
    : set_(on ? setter(device) : nullptr) {
  if (set_ != nullptr) set_(true);
}

WaitsAreErrors::~WaitsAreErrors() {
  if (set_ != nullptr) set_(false);
}

}  // namespace gantrain
