// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace gantrain {

// The low-pass filter of the symlet with 6 vanishing moments, normalised to sum 1, which geometric
// resampling uses (Karras et al. 2020b, app. B).
std::array<double, 12> sym6_lowpass();

constexpr size_t kOctaveBands = 4;
constexpr size_t kOctaveBandTaps = 43;

// Zero-phase octave bands, low to high, from the symlet with 2 vanishing moments (app. B): the
// bands add up to a unit impulse at the centre tap, so equal gains of 1 change nothing.
std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> octave_band_filters();

}  // namespace gantrain
