// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gantrain::stylegan3 {

// A low-pass filter as it is asked for (Karras et al. 2021, sec. 3.2 and app. C.1): frequencies in
// cycles per unit of length, the width of the picture.
struct LowPass {
  int64_t taps = 1;
  double cutoff = 0;  // f_c: half of the amplitude is left here
  double width = 0;   // of the transition band, 2 f_h
  double rate = 1;    // samples per unit of length
};

// The attenuation in dB that a Kaiser window of these taps reaches outside its transition band, and
// the parameter beta with which it does (Kaiser 1974).
double kaiser_attenuation(const LowPass& filter);
double kaiser_beta(double attenuation);

// A sinc under a Kaiser window, for one axis: [taps], sum 1.
std::vector<double> separable_lowpass(const LowPass& filter);
// A radially symmetric jinc under the same window along both axes, which treats all directions
// alike: [taps, taps], sum 1. `taps` is even, so that no tap lies on the centre.
std::vector<double> radial_lowpass(const LowPass& filter);

}  // namespace gantrain::stylegan3
