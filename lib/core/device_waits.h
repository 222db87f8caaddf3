// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace gantrain {

// Returns when the device has done all that it was given, on every stream. On a CPU, at once.
void wait_for(c10::Device device);

// Says for a device whether LibTorch throws c10::Error where it makes the host wait for the device:
// copies to and from memory that is not page-locked, numbers that the host reads, results whose
// size depends on values. wait_for() and waiting for an event never throw for that reason.
using SetWaitErrors = void (*)(bool on);
// Sets how that is said for a device. A library that is loaded while the program runs calls this
// once, before anything is computed.
void set_wait_errors(c10::DeviceType device, SetWaitErrors set);

// While this object lives and `on` is true, waiting for a device of that type is an error, on every
// thread of the process. Where nothing was set for the device, it does nothing. One at a time.
class WaitsAreErrors {
 public:
  WaitsAreErrors(c10::DeviceType device, bool on);
  ~WaitsAreErrors();
  WaitsAreErrors(const WaitsAreErrors&) = delete;
  WaitsAreErrors& operator=(const WaitsAreErrors&) = delete;

 private:
  SetWaitErrors set_;  // null: nothing was changed
};

}  // namespace gantrain
