// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// The filters of wavelets.h on the device and in the type of `like`. A process copies them there at
// the first call and then keeps them, so that later calls neither copy nor wait. From any thread;
// nobody may write into them.
at::Tensor sym6_lowpass_like(const at::Tensor& like);         // [12]
at::Tensor octave_band_filters_like(const at::Tensor& like);  // [kOctaveBands, kOctaveBandTaps]

}  // namespace gantrain
