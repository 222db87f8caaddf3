// SPDX-License-Identifier: Apache-2.0
#include "metrics/toy_detector.h"

#include <torch/script.h>

namespace gantrain {

const char* const kToyDetector = R"(
def forward(self, img, resize_images: bool = True, return_features: bool = False, return_lpips: bool = False, no_output_bias: bool = False):
    x = img.float() / 127.5 - 1.0
    quarters = torch.adaptive_avg_pool2d(x, [2, 2]).flatten(1)
    if return_lpips:
        return quarters
    features = torch.cat([quarters, torch.adaptive_avg_pool2d(x * x, [2, 2]).flatten(1)], 1)
    if return_features:
        return features
    return torch.softmax(4.0 * features[:, :10], 1)
)";

void save_detector(const std::filesystem::path& file, const std::string& source) {
  torch::jit::Module module("Toy");
  module.define(source);
  module.save(file.string());
}

}  // namespace gantrain
