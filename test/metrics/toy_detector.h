// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "metrics/pictures.h"

namespace gantrain {

// forward() of a small network with the keywords of the published detectors: means of quarters of
// the picture and their squares, [N, 24]; ten class probabilities; the quarters as LPIPS vectors.
extern const char* const kToyDetector;

// Writes a TorchScript file with that source of forward().
void save_detector(const std::filesystem::path& file, const std::string& source = kToyDetector);

// Pictures in memory: uint8 [N, C, H, W].
class TensorPictures final : public Pictures {
 public:
  explicit TensorPictures(at::Tensor pictures) : pictures_(std::move(pictures)) {}

  int64_t size() const override { return pictures_.size(0); }
  at::Tensor get(const std::vector<int64_t>& numbers) override {
    return pictures_.index_select(0, at::tensor(numbers, at::kLong).to(pictures_.device()));
  }

 private:
  at::Tensor pictures_;
};

}  // namespace gantrain
