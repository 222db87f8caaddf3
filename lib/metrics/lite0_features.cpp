// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"
#include "core/torch.h"
#include "metrics/detector.h"
#include "nn/lite0.h"
#include "nn/lite0_file.h"
#include "util/error.h"
#include "util/log.h"

namespace gantrain {

namespace {

constexpr int64_t kLite0Pixels = 224;  // a side of what the network was trained on

// Pictures [N, 3, H, W] -> [N, 3, 224, 224]. torch's antialias filter widens only where a side
// shrinks.
Tensor to_lite0_size(const Tensor& x) {
  const int64_t height = x.size(2), width = x.size(3);
  if (height == kLite0Pixels && width == kLite0Pixels) return x;
  const bool shrinks = height > kLite0Pixels || width > kLite0Pixels;
  return shrinks ? at::_upsample_bilinear2d_aa(x, {kLite0Pixels, kLite0Pixels}, false)
                 : at::upsample_bilinear2d(x, {kLite0Pixels, kLite0Pixels}, false);
}

}  // namespace

struct Lite0Features::Networks {
  Lite0 maps;
  Lite0Head head;
};

Lite0Features::~Lite0Features() = default;

Lite0Features::Lite0Features(const std::filesystem::path& file, at::Device device)
    : device_(device), networks_(std::make_unique<Networks>()) {
  const Lite0Weights weights = read_lite0(file);
  name_ = weights.name;
  sha256_ = weights.sha256;
  info("features {}", describe(weights));
  for (torch::nn::Module* network : {static_cast<torch::nn::Module*>(&networks_->maps),
                                     static_cast<torch::nn::Module*>(&networks_->head)}) {
    load_into(*network, weights.tensors, file.string());
    to_device(*network, device, at::kFloat);
  }
}

Tensor Lite0Features::features(const Tensor& pictures) {
  const at::NoGradGuard no_gradients;
  const Tensor x = to_lite0_size(to_rgb(pictures).to(device_) / 127.5 - 1);
  const Tensor rows = networks_->head.forward(networks_->maps.maps(x).back());
  return rows.to(at::kCPU, at::kFloat).contiguous();
}

}  // namespace gantrain
