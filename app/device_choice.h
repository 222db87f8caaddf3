// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/devices.h"

namespace gantrain {

// What this machine and this build have for a verb that computes: the one source of
// decide_device(). For `wanted` kCpu nothing is looked at.
GpuOutlook gpu_outlook(DeviceKind wanted, const Env& env);

// Whether a verb that was given `--device WORD` computes on a GPU. Throws UserError(kUsage) for an
// unknown word, and as decide_device() does.
bool computes_on_gpu(const std::string& word);

}  // namespace gantrain
