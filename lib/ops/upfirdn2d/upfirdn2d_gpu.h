// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// How one axis of an image is resampled (upfirdn2d.h): out[o] is the sum over j of tap[j] times
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
  const void* added = nullptr;  // like out, and added to it; only fir_choice()'s kPixels does so
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

// What the kernels for filters of a size known to the compiler share.

// One axis in coordinates in which output 0's window begins at an input. Then tap i * up - o * down
// joins input i and output o, if there is such a tap.
template <int kUpBy, int kDownBy, int kTapCount>
struct AxisShape {
  static constexpr int kUp = kUpBy, kDown = kDownBy, kTaps = kTapCount;

  static constexpr int tap(int input, int output) { return input * kUp - output * kDown; }
  static constexpr bool has_tap(int input, int output) {
    return tap(input, output) >= 0 && tap(input, output) < kTaps;
  }
  // The first and the last input that output o needs.
  static constexpr int first_input(int o) { return (o * kDown + kUp - 1) / kUp; }
  static constexpr int last_input(int o) { return (o * kDown + kTaps - 1) / kUp; }
  // How many inputs the outputs [0, n) need, and how many inputs n outputs are apart.
  static constexpr int inputs(int n) { return last_input(n - 1) + 1; }
  static constexpr int step(int n) {
    return n * kDown / kUp;  // n is a multiple of kUp
  }

  static bool fits(const FirAxis& axis) {
    return axis.up == kUp && axis.down == kDown && axis.taps == kTaps;
  }
};

template <class AlongY, class AlongX>
struct FirShape {
  using Y = AlongY;
  using X = AlongX;
  static constexpr int kTaps = Y::kTaps * X::kTaps;

  static bool fits(const UpFirDnArguments& how) {
    return Y::fits(how.along_y) && X::fits(how.along_x);
  }
};

template <int kUp, int kDown>
using FourTaps = FirShape<AxisShape<kUp, kDown, 4>, AxisShape<kUp, kDown, 4>>;
using OneTap = AxisShape<1, 1, 1>;

// Where an axis begins. Outputs are numbered from `skipped` numbers further left, so that output
// 0's window begins at an input: at input `first`. The skipped outputs are not stored.
struct AxisStart {
  int first, skipped;

  explicit AxisStart(const FirAxis& axis) {
    // Only down = 1 goes with up > 1 here, so that each output skipped moves the window by one.
    skipped = ((-axis.pad) % axis.up + axis.up) % axis.up;
    first = -(axis.pad + skipped) / axis.up;
  }
};

// Copies the taps for correlation, with the gain in them.
template <class T, int kTaps>
GANTRAIN_BOTH void load_taps(const UpFirDnArguments& how, int thread, int threads, Wide<T>* taps) {
  const auto* f = static_cast<const Wide<T>*>(how.f);
  const auto gain = static_cast<Wide<T>>(how.gain);
  for (int i = thread; i < kTaps; i += threads)
    taps[i] = gain * f[how.flip_filter ? i : kTaps - 1 - i];
}

// The numbers by which an address misses a multiple of 16 bytes.
template <class T>
int misaligned_numbers(const void* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) / sizeof(T) % kPackSize<T>);
}

GANTRAIN_BOTH bool is_below(int i, int end) {
  return static_cast<unsigned>(i) < static_cast<unsigned>(end);
}

// Each returns whether it has a body for these arguments and, if so, launches it on the stream;
// `try_only` launches nothing.
struct FirLaunch {
  Stream stream;
  bool try_only;
};
template <class Body>
bool try_body(const UpFirDnArguments& how, const FirLaunch& launching) {
  const Body body(how);
  if (body.blocks() >= int64_t{1} << 31) return false;
  if (!launching.try_only) launch(body, body.blocks(), launching.stream);
  return true;
}
bool upfirdn2d_planes(const UpFirDnArguments& how, bool small, const FirLaunch& launching);
bool upfirdn2d_pixels(const UpFirDnArguments& how, const FirLaunch& launching);

// Whether a plane's outputs can be stored without passing through shared memory.
bool planes_store_directly(const UpFirDnArguments& how);

}  // namespace gantrain::cuda_kernels
