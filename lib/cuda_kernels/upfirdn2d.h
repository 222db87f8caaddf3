// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda_kernels/launch.h"

namespace gantrain::cuda_kernels {

// How one axis of an image is resampled (ops/upfirdn2d.h): out[o] is the sum over j of tap[j] times
// the input at (o * down + j - pad) / up, where that is a whole number inside the image.
struct FirAxis {
  int in, out;  // pixels
  int up, down, pad, taps;
};

// All coordinates, in * up and out * down with their pads, are below 2^30.
struct UpFirDnArguments {
  Type type;
  bool channels_last;  // memory is [samples, y, x, channels]; else [samples, channels, y, x]
  const void* x;
  const void* f;  // [y.taps, x.taps] of type Wide<T>
  void* out;
  int64_t samples, channels;
  FirAxis along_y, along_x;
  bool flip_filter;
  double gain;
};

enum class FirBody {
  kGeneral,      // any filter, type and layout
  kPlanes,       // planes, tiles of large ones
  kSmallPlanes,  // planes, tiles of several small ones
  kPixels,       // channels last, 16 bytes of channels a thread
};
struct FirChoice {
  FirBody body;
  // Whether each thread stores its outputs with a 16-byte access. Else, where a plane's rows are
  // not aligned, outputs pass through shared memory to be stored with such accesses.
  bool direct;
};
FirChoice fir_choice(const UpFirDnArguments& how);

void upfirdn2d(const UpFirDnArguments& how, Stream stream);

}  // namespace gantrain::cuda_kernels
