// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/scheduled.h"
#include "core/device_number.h"

namespace gantrain {

// Turns a hyperparameter of the configuration into a number that phases use on the device.
inline DeviceNumber on_device(const Scheduled& schedule, const at::TensorOptions& like) {
  if (schedule.is_constant()) return schedule.at(0);
  return {[schedule](int64_t images_seen) { return schedule.at(images_seen); }, like};
}

}  // namespace gantrain
