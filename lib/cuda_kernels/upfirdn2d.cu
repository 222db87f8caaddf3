// SPDX-License-Identifier: Apache-2.0
// The choice of a body, and the one for any filter, type and layout: each thread computes one
// output, in the order of memory, from the taps that meet an input. Neighbouring threads read
// neighbouring numbers, mostly from the first-level cache; the reads from there are what bounds it.
#include "cuda_kernels/any_divider.h"
#include "cuda_kernels/upfirdn2d.h"
#include "cuda_kernels/upfirdn2d_shape.h"

namespace gantrain::cuda_kernels {

namespace {

// The taps of one output that meet inputs: [first, last] in steps of `up`, from input `input` on.
struct Window {
  int first, last, input;

  GANTRAIN_BOTH Window(const FirAxis& axis, int output) {
    const int begin = output * axis.down - axis.pad;  // where tap 0 lies
    input = begin > 0 ? (begin + axis.up - 1) / axis.up : 0;
    first = input * axis.up - begin;
    const int end = (axis.in - 1) * axis.up - begin;  // the tap at the last input
    last = end < axis.taps - 1 ? end : axis.taps - 1;
  }
};

template <class T>
struct GeneralBody {
  using W = Wide<T>;
  static constexpr int kThreads = 256;

  UpFirDnArguments how;
  int64_t inner;    // numbers that lie next to each other and share a pixel
  int64_t outputs;  // numbers
  AnyDivider by_inner, by_x, by_y;

  explicit GeneralBody(const UpFirDnArguments& arguments)
      : how(arguments),
        inner(arguments.channels_last ? arguments.channels : 1),
        outputs(arguments.samples * arguments.channels * arguments.along_y.out *
                arguments.along_x.out),
        by_inner(inner, outputs),
        by_x(arguments.along_x.out, outputs),
        by_y(arguments.along_y.out, outputs) {}

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t i = place.global(kThreads);
    if (i >= outputs) return;
    const int64_t pixel = by_inner.quotient(i), row = by_x.quotient(pixel);
    const int64_t plane = by_y.quotient(row);
    const Window y(how.along_y, static_cast<int>(row - plane * how.along_y.out));
    const Window x(how.along_x, static_cast<int>(pixel - row * how.along_x.out));
    const T* in = static_cast<const T*>(how.x) + (i - pixel * inner);
    W sum = 0;
    for (int ty = y.first, iy = y.input; ty <= y.last; ty += how.along_y.up, ++iy) {
      const T* line = in + (plane * how.along_y.in + iy) * how.along_x.in * inner;
      for (int tx = x.first, ix = x.input; tx <= x.last; tx += how.along_x.up, ++ix)
        sum += tap(ty, tx) * widened(line[ix * inner]);
    }
    static_cast<T*>(how.out)[i] = rounded<T>(sum * static_cast<W>(how.gain));
  }

 private:
  GANTRAIN_BOTH W tap(int y, int x) const {
    const int i = y * how.along_x.taps + x;
    const int last = how.along_y.taps * how.along_x.taps - 1;
    return static_cast<const W*>(how.f)[how.flip_filter ? i : last - i];
  }
};

// Planes of at most so many columns are computed several in a block.
constexpr int kSmallPlane = 64;

FirChoice attempt(const UpFirDnArguments& how, const FirLaunch& launching) {
  if (how.channels_last) {
    if (upfirdn2d_pixels(how, launching)) return {FirBody::kPixels, true};
    return {FirBody::kGeneral, false};
  }
  const bool direct = planes_store_directly(how);
  if (how.along_x.out <= kSmallPlane && upfirdn2d_planes(how, true, launching))
    return {FirBody::kSmallPlanes, direct};
  if (upfirdn2d_planes(how, false, launching)) return {FirBody::kPlanes, direct};
  return {FirBody::kGeneral, false};
}

}  // namespace

FirChoice fir_choice(const UpFirDnArguments& how) { return attempt(how, {nullptr, true}); }

void upfirdn2d(const UpFirDnArguments& how, Stream stream) {
  if (attempt(how, {stream, false}).body != FirBody::kGeneral) return;
  with_type(how.type, [&](auto tag) {
    using Body = GeneralBody<typename decltype(tag)::type>;
    const Body body(how);
    launch(body, blocks_for(body.outputs, Body::kThreads), stream);
  });
}

}  // namespace gantrain::cuda_kernels
