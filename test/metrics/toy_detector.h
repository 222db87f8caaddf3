// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gantrain {

// forward() of a small network with the keywords of the published detectors: means of quarters of
// the picture and their squares, [N, 24]; ten class probabilities; the quarters as LPIPS vectors.
extern const char* const kToyDetector;

// Writes a TorchScript file with that source of forward().
void save_detector(const std::filesystem::path& file, const std::string& source = kToyDetector);

}  // namespace gantrain
