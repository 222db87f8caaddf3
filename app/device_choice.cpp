// SPDX-License-Identifier: Apache-2.0
#include "device_choice.h"

#include "drawing_flags.h"
#include "trainer_library.h"

namespace gantrain {

GpuOutlook gpu_outlook(DeviceKind wanted, const Env& env) {
  if (wanted == DeviceKind::kCpu) return {};
  const GpuDriver driver = look_at_driver();
  GpuOutlook outlook{visible_gpus(env, driver), driver.version, {}, has_cuda_library()};
  // The forward-compatibility package is rare, and looking for it takes a process.
  if (outlook.visible.count > 0 && is_too_old(driver.version))
    outlook.compatibility = cuda_of_driver_library();
  return outlook;
}

bool computes_on_gpu(const std::string& word) {
  const auto wanted = parse_word<DeviceKind>("--device", word);
  return decide_device(wanted, gpu_outlook(wanted, current_environment())) == DeviceKind::kCuda;
}

}  // namespace gantrain
