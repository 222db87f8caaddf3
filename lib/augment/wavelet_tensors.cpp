// SPDX-License-Identifier: Apache-2.0
#include "augment/wavelet_tensors.h"

#include <c10/core/InferenceMode.h>

#include <map>
#include <mutex>
#include <tuple>

#include "augment/wavelets.h"
#include "core/torch.h"

namespace gantrain {

using at::Tensor;

namespace {

// One constant in every place and type in which it has been asked for.
class KeptConstant {
 public:
  explicit KeptConstant(const Tensor& value) : value_(value) {}

  Tensor like(const Tensor& like) {
    const at::Device device = like.device();
    const std::lock_guard lock(mutex_);
    Tensor& kept = kept_[{device.type(), device.index(), like.scalar_type()}];
    if (!kept.defined()) {
      // A tensor made in inference mode could never take part in a training step.
      const c10::InferenceMode not_for_inference_alone(false);
      kept = value_.to(like.scalar_type()).to(device);
    }
    return kept;
  }

 private:
  Tensor value_;
  std::mutex mutex_;
  std::map<std::tuple<at::DeviceType, c10::DeviceIndex, at::ScalarType>, Tensor> kept_;
};

Tensor sym6() {
  const c10::InferenceMode not_for_inference_alone(false);
  return torch::tensor(at::ArrayRef<double>(sym6_lowpass()), at::kDouble);
}

Tensor bands() {
  const c10::InferenceMode not_for_inference_alone(false);
  const auto filters = octave_band_filters();
  return torch::tensor(at::ArrayRef<double>(filters[0].data(), kOctaveBands * kOctaveBandTaps),
                       at::kDouble)
      .view({static_cast<int64_t>(kOctaveBands), static_cast<int64_t>(kOctaveBandTaps)});
}

}  // namespace

// Never destroyed: at the program's end a GPU's memory may be gone before static objects are.
Tensor sym6_lowpass_like(const Tensor& like) {
  static KeptConstant& constant = *new KeptConstant(sym6());
  return constant.like(like);
}

Tensor octave_band_filters_like(const Tensor& like) {
  static KeptConstant& constant = *new KeptConstant(bands());
  return constant.like(like);
}

}  // namespace gantrain
