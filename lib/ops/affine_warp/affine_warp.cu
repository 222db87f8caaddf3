// SPDX-License-Identifier: Apache-2.0
// Affine resampling of mirrored pictures at twice their resolution. Along an axis, a sample between
// two pixels of the doubled picture is a sum of at most 7 of the picture's own: 6 taps of the
// filter reach each of the two, from places that differ by one at most. So the doubled picture,
// which with all that can be mirrored is 36 times as large, is never stored. A thread of the
// forward pass computes a sample of all channels; the 32 of a warp lie in 8 x 4, so that they read
// few lines of memory however the picture is turned.
//
// Its adjoint gathers. A block has a tile of the picture. For the tile, and for each of its mirror
// images that is seen, it collects the doubled picture's gradient in shared memory: for each pixel
// there, the samples that it has a share in are found by the inverse transform, and summed row by
// row. Then the filter halves that tile along both axes.
//
// Work of StyleGAN2 at 256 x 256 RGB, 64 pictures, that are neither scaled nor turned:
//   forward   17.6 M samples, each 2 x 30 operations for weights and 3 x (49 + 7) multiplications:
//             4 G, and 2.6 G loads, nearly all from the first-level cache; 50 MB read, 211 written
//   adjoint   29 M pixels of doubled tiles, each 9 samples of 15 operations, and 44
//             multiplications a pixel and channel to halve: 4.5 G; 211 MB read, 50 written
// By LibTorch's operators: 10.7 GB for a forward pass. One kernel that halves as well would save
// 422 MB (0.1 ms of an H200) and compute 28% more samples, which overlap between tiles of 32 x 32.
#include <cmath>

#include "ops/affine_warp/affine_warp_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

using std::abs, std::floor, std::fma;

constexpr int kTaps = AffineWarpArguments::kTaps;
constexpr int kReach = kTaps / 2 + 1;  // pixels that a sample is made of, along an axis
constexpr int kBefore = kTaps / 4;     // how many of these come before the pixel it lies in

template <class T>
GANTRAIN_BOTH T clamped(T x, T least, T most) {  // `least` where x is no number
  return x > least ? (x < most ? x : most) : least;
}

// An axis of a picture.
struct Axis {
  int length, before, after;  // pixels, and those mirrored at each end

  GANTRAIN_BOTH Axis(int pixels, const double* margins)
      : length(pixels),
        before(static_cast<int>(clamped(margins[0], 0.0, pixels - 1.0))),
        after(static_cast<int>(clamped(margins[1], 0.0, pixels - 1.0))) {}
  GANTRAIN_BOTH bool has(int pixel) const { return pixel >= -before && pixel < length + after; }
  // Where pixel `pixel` of the mirrored picture lies in the picture; anywhere for what is beyond.
  GANTRAIN_BOTH int mirrored(int pixel) const {
    const int inside = pixel < 0 ? -pixel : pixel >= length ? 2 * length - 2 - pixel : pixel;
    return inside < 0 ? 0 : inside >= length ? length - 1 : inside;
  }
};

// From samples, counted from the centre of what is sampled, to pixels of the doubled picture,
// counted from length - 1 along each axis: with u = (sample + .5) / 2 output pixels, 2 G u - .5
// pixels of doubled resolution.
template <class T>
struct Transform {
  T xx, xy, x, yx, yy, y;

  GANTRAIN_BOTH explicit Transform(const double* g)
      : xx(static_cast<T>(g[0])),
        xy(static_cast<T>(g[1])),
        x(static_cast<T>(2 * g[2])),
        yx(static_cast<T>(g[3])),
        yy(static_cast<T>(g[4])),
        y(static_cast<T>(2 * g[5])) {}
  // One rounding each, so that all kernels find the same places.
  GANTRAIN_BOTH T column(T i, T j) const { return fma(xx, i, fma(xy, j, x)); }
  GANTRAIN_BOTH T row(T i, T j) const { return fma(yx, i, fma(yy, j, y)); }
};

// The place of sample (column, row) of what is sampled, as Transform counts.
template <class T>
GANTRAIN_BOTH T sample_place(int index, int length) {
  return static_cast<T>(index - length - (kTaps / 2 - 1));
}

// A sample along an axis: the sum of kReach pixels from `first` on, each with a weight.
template <class T>
struct Sample {
  T of_even, of_odd;  // the sample's weights of the two pixels of doubled resolution around it
  bool odd;           // whether the odd one comes first
  int first;

  // `place` is counted from axis.length - 1.
  GANTRAIN_BOTH Sample(T place, const Axis& axis) {
    const T most = static_cast<T>(4 * axis.length);
    const T inside = clamped(place, -most, most), whole = floor(inside), right = inside - whole;
    const int fine = static_cast<int>(whole) + axis.length - 1;
    odd = (fine & 1) != 0;
    // The odd one belongs to `pixel`, the even one to `pixel` or the next.
    const int pixel = (fine - (odd ? 1 : 0)) / 2;
    of_odd = axis.has(pixel) ? (odd ? 1 - right : right) : 0;
    of_even = axis.has(odd ? pixel + 1 : pixel) ? (odd ? right : 1 - right) : 0;
    first = pixel - kBefore;
  }

  GANTRAIN_BOTH bool is_zero() const { return of_odd == 0 && of_even == 0; }
  GANTRAIN_BOTH bool inside(const Axis& axis) const {
    return first >= 0 && first + kReach <= axis.length;
  }

  // Of pixel first + k; `filter` has the sum 2.
  GANTRAIN_BOTH T weight(int k, const Axis& axis, const T* filter) const {
    if (!axis.has(first + k)) return 0;
    const int tap = kTaps - 1 - 2 * k;  // of an even pixel that lies in pixel first + kBefore
    const T here = k < kReach - 1 ? filter[tap < 0 ? 0 : tap] : 0;
    const T next = k > 0 ? filter[k > 0 ? tap + 2 : 0] : 0;
    const T odd_here = k > 0 ? filter[k > 0 ? tap + 1 : 0] : 0;
    return fma(of_odd, odd_here, of_even * (odd ? next : here));
  }
};

// The arguments with what all threads share.
template <class T>
struct Warped {
  AffineWarpArguments how;
  T filter[kTaps];  // with the sum 2

  explicit Warped(const AffineWarpArguments& a) : how(a) {
    for (int i = 0; i < kTaps; ++i) filter[i] = static_cast<T>(2 * a.filter[i]);
  }
  GANTRAIN_BOTH Axis columns() const { return {how.width, how.margins}; }
  GANTRAIN_BOTH Axis rows() const { return {how.height, how.margins + 2}; }
};

constexpr int kSide = 16;  // of a block's tile

// A block computes 16 x 16 samples of three channels.
template <class T>
struct AffineWarpBody {
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kChannels = 3;

  Warped<T> warp;
  Divider tiles_x, tiles, groups;  // of a picture's row of tiles, of all its tiles, of channels

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const AffineWarpArguments& how = warp.how;
    const auto block = static_cast<uint32_t>(place.block);
    const uint32_t picture = tiles.quotient(block), tile = block - picture * tiles.divisor;
    const uint32_t tile_y = tiles_x.quotient(tile), tile_x = tile - tile_y * tiles_x.divisor;
    // Warps of 8 x 4 samples, two of them side by side.
    const int lane = place.thread % 32, number = place.thread / 32;
    const int column = static_cast<int>(tile_x) * kSide + number % 2 * 8 + lane % 8;
    const int row = static_cast<int>(tile_y) * kSide + number / 2 * 4 + lane / 8;
    const int out_width = 2 * how.width + kTaps, out_height = 2 * how.height + kTaps;
    if (column >= out_width || row >= out_height) return;
    const int64_t sample = groups.quotient(picture);
    const int channel = static_cast<int>(groups.remainder(picture)) * kChannels;
    const int64_t plane = sample * how.channels + channel;
    const int channels =
        how.channels - channel < kChannels ? static_cast<int>(how.channels) - channel : kChannels;
    T sums[kChannels];
    sum(sample, plane, channels, column, row, sums);
    const int64_t size = int64_t{out_width} * out_height;
    T* out = static_cast<T*>(how.out) + plane * size + int64_t{row} * out_width + column;
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (c < channels) out[c * size] = sums[c];
  }

 private:
  GANTRAIN_BOTH void sum(
      int64_t sample, int64_t plane, int channels, int column, int row, T* sums) const {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) sums[c] = 0;
    const AffineWarpArguments& how = warp.how;
    const Axis columns = warp.columns(), rows = warp.rows();
    const Transform<T> transform(how.transforms + 9 * sample);
    const T i = sample_place<T>(column, how.width), j = sample_place<T>(row, how.height);
    const Sample<T> x(transform.column(i, j), columns), y(transform.row(i, j), rows);
    if (x.is_zero() || y.is_zero()) return;
    T weights[kReach];
    int at[kReach];
    const bool inside = x.inside(columns);
#pragma unroll
    for (int k = 0; k < kReach; ++k) {
      weights[k] = x.weight(k, columns, warp.filter);
      at[k] = inside ? x.first + k : columns.mirrored(x.first + k);
    }
    const int64_t picture = int64_t{how.width} * how.height;
    const T* in = static_cast<const T*>(how.in) + plane * picture;
#pragma unroll 1
    for (int r = 0; r < kReach; ++r) {
      const T weight = y.weight(r, rows, warp.filter);
      const T* line = in + int64_t{rows.mirrored(y.first + r)} * how.width;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        if (c >= channels) break;
        T of_line = 0;
#pragma unroll
        for (int k = 0; k < kReach; ++k)
          of_line = fma(weights[k], line[c * picture + at[k]], of_line);
        sums[c] = fma(weight, of_line, sums[c]);
      }
    }
  }
};

// Channels whose gradients a block collects at once: shared memory holds no more.
template <class T>
constexpr int kTogether = std::is_same_v<T, double> ? 1 : 3;
constexpr int kFine = 2 * kSide + kTaps - 2;  // pixels of doubled resolution that a tile is made of

// A tile of the picture, or the mirror image of one, along an axis.
struct TileImage {
  int begin;      // its first pixel in the mirrored picture
  bool reversed;  // whether its pixels come in descending order
  int image;      // 0: the tile itself; 1, 2: beyond the first and the last pixel

  GANTRAIN_BOTH TileImage(const Axis& axis, int first, int which)
      : begin(which == 0   ? first
              : which == 1 ? -(first + kSide - 1)
                           : 2 * axis.length - 2 - (first + kSide - 1)),
        reversed(which != 0),
        image(which) {}
  // Whether any of its pixels is there: the picture's own border pixels have no mirror image.
  GANTRAIN_BOTH bool is_seen(const Axis& axis) const {
    return image == 0 ||
           (image == 1 ? begin < 0 && begin + kSide > -axis.before
                       : begin + kSide > axis.length && begin < axis.length + axis.after);
  }
  // Where pixel i of the tile lies among the image's pixels, and whether it is there.
  GANTRAIN_BOTH int local(int i) const { return reversed ? kSide - 1 - i : i; }
  GANTRAIN_BOTH bool has(const Axis& axis, int i) const {
    const int pixel = begin + local(i);
    const bool inside = pixel >= 0 && pixel < axis.length;
    return axis.has(pixel) && inside == (image == 0) && (image != 1 || pixel < 0) &&
           (image != 2 || pixel >= axis.length);
  }
};

// The samples that may have a share in a pixel of doubled resolution: those whose distance from
// where the inverse transform leads is at most `x`, `y`.
template <class T>
struct Inverse {
  T xx, xy, yx, yy, x, y;

  GANTRAIN_BOTH explicit Inverse(const double* g) {
    const double one = 1 / (g[0] * g[4] - g[1] * g[3]);
    xx = static_cast<T>(g[4] * one);
    xy = static_cast<T>(-g[1] * one);
    yx = static_cast<T>(-g[3] * one);
    yy = static_cast<T>(g[0] * one);
    x = abs(xx) + abs(xy);
    y = abs(yx) + abs(yy);
  }
};

struct Range {
  int begin, end;
};

// The indices of samples, of 2 length + kTaps there are, within `reach` of a * i + b * j; all of
// them where that is no number, as there is no inverse.
template <class T>
GANTRAIN_BOTH Range range_of(T a, T i, T b, T j, T reach, int length) {
  const T first = a * i, second = b * j;
  // Rounding must lose none: those found needlessly have a share of 0.
  const T slack = static_cast<T>(.01) + static_cast<T>(1e-5) * (abs(first) + abs(second));
  const T centre = first + second + static_cast<T>(length + kTaps / 2 - 1);
  const int most = 2 * length + kTaps;
  const T before = clamped(centre - reach - slack, T{0}, static_cast<T>(most));
  const T after =
      clamped(static_cast<T>(most - 1) - centre - reach - slack, T{0}, static_cast<T>(most));
  return {static_cast<int>(std::ceil(before)), most - static_cast<int>(std::ceil(after))};
}

// A block computes a tile of 16 x 16 pixels of up to kTogether channels. Three steps for each of
// the tile's nine images.
template <class T>
struct AffineWarpAdjointBody {
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kChannels = kTogether<T>;
  // Twelve taps of float64 at once would not fit the registers.
  static constexpr int kUnrolled = std::is_same_v<T, double> ? 4 : kTaps;
  struct Shared {
    T fine[kChannels][kFine * kFine];
    T halved[kChannels][kFine * kSide];  // along x
  };
  struct Local {
    T sums[kChannels];
    bool works;  // at this image
  };

  Warped<T> warp;
  Divider tiles_x, tiles, groups;

  GANTRAIN_BOTH int steps() const { return 27; }

  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local& local) const {
    const Tile tile(*this, place);
    if (number == 0) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) local.sums[c] = 0;
    }
    const int image = number / 3;
    const TileImage x(warp.columns(), tile.column, image % 3);
    const TileImage y(warp.rows(), tile.row, image / 3);
    if (number % 3 == 0)
      local.works = x.is_seen(warp.columns()) && y.is_seen(warp.rows()) && is_sampled(tile, x, y);
    if (local.works) {
      if (number % 3 == 0) gather(tile, x, y, place.thread, shared);
      if (number % 3 == 1) halve_rows(place.thread, shared);
      if (number % 3 == 2) add_columns(x, y, place.thread, shared, local);
    }
    if (number == 26) write(tile, place.thread, local);
  }

 private:
  // What a block works at.
  struct Tile {
    int64_t sample;
    int column, row, channel;

    GANTRAIN_BOTH Tile(const AffineWarpAdjointBody& body, const Place& place) {
      const auto block = static_cast<uint32_t>(place.block);
      const uint32_t picture = body.tiles.quotient(block);
      const uint32_t tile = block - picture * body.tiles.divisor;
      const uint32_t tile_y = body.tiles_x.quotient(tile);
      sample = body.groups.quotient(picture);
      channel = static_cast<int>(body.groups.remainder(picture)) * kChannels;
      column = static_cast<int>(tile - tile_y * body.tiles_x.divisor) * kSide;
      row = static_cast<int>(tile_y) * kSide;
    }
  };

  // Whether there may be samples of the image.
  GANTRAIN_BOTH bool is_sampled(const Tile& tile, const TileImage& x, const TileImage& y) const {
    const double* matrix = warp.how.transforms + 9 * tile.sample;
    const Transform<T> transform(matrix);
    const Inverse<T> inverse(matrix);
    // The middle of its pixels of doubled resolution, which the furthest samples are a half tile
    // and a pixel away from.
    constexpr T kHalf = static_cast<T>(kFine - 1) / 2;
    const T middle_x = static_cast<T>(fine_begin(x) - (warp.how.width - 1)) + kHalf - transform.x;
    const T middle_y = static_cast<T>(fine_begin(y) - (warp.how.height - 1)) + kHalf - transform.y;
    const T reach = kHalf + 1;
    const Range i =
        range_of(inverse.xx, middle_x, inverse.xy, middle_y, reach * inverse.x, warp.how.width);
    const Range j =
        range_of(inverse.yx, middle_x, inverse.yy, middle_y, reach * inverse.y, warp.how.height);
    return i.begin < i.end && j.begin < j.end;
  }

  // The first pixel of doubled resolution that an image's pixels have a share in.
  GANTRAIN_BOTH static int fine_begin(const TileImage& image) {
    return 2 * image.begin - (kTaps / 2 - 1);
  }

  // The gradient by the image's pixels of doubled resolution.
  GANTRAIN_BOTH void gather(
      const Tile& tile, const TileImage& x, const TileImage& y, int thread, Shared& shared) const {
    const AffineWarpArguments& how = warp.how;
    const double* matrix = how.transforms + 9 * tile.sample;
    const Transform<T> transform(matrix);
    const Inverse<T> inverse(matrix);
    const Axis columns = warp.columns(), rows = warp.rows();
    const int channels = static_cast<int>(how.channels) - tile.channel < kChannels
                             ? static_cast<int>(how.channels) - tile.channel
                             : kChannels;
    const int out_width = 2 * how.width + kTaps;
    const int64_t size = int64_t{out_width} * (2 * how.height + kTaps);
    const T* in =
        static_cast<const T*>(how.in) + (tile.sample * how.channels + tile.channel) * size;
#pragma unroll 1
    for (int n = thread; n < kFine * kFine; n += kThreads) {
      const int fine_y = fine_begin(y) + n / kFine;
      const int fine_x = fine_begin(x) + n % kFine;
      T sums[kChannels];
#pragma unroll
      for (int c = 0; c < kChannels; ++c) sums[c] = 0;
      if (columns.has(half(fine_x)) && rows.has(half(fine_y))) {
        const T here_x = static_cast<T>(fine_x - (how.width - 1));
        const T here_y = static_cast<T>(fine_y - (how.height - 1));
        const T off_x = here_x - transform.x, off_y = here_y - transform.y;
        const Range i = range_of(inverse.xx, off_x, inverse.xy, off_y, inverse.x, how.width);
        const Range j = range_of(inverse.yx, off_x, inverse.yy, off_y, inverse.y, how.height);
#pragma unroll 1
        for (int row = j.begin; row < j.end; ++row) {
          const T place_y = sample_place<T>(row, how.height);
#pragma unroll 1
          for (int column = i.begin; column < i.end; ++column) {
            const T place_x = sample_place<T>(column, how.width);
            const T share_x = 1 - abs(transform.column(place_x, place_y) - here_x);
            const T share_y = 1 - abs(transform.row(place_x, place_y) - here_y);
            if (!(share_x > 0 && share_y > 0)) continue;
            const T share = share_x * share_y;
            const T* from = in + int64_t{row} * out_width + column;
#pragma unroll
            for (int c = 0; c < kChannels; ++c)
              if (c < channels) sums[c] = fma(share, from[c * size], sums[c]);
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kChannels; ++c) shared.fine[c][n] = sums[c];
    }
  }

  // The pixel that a pixel of doubled resolution lies in.
  GANTRAIN_BOTH static int half(int fine) { return (fine - (fine & 1)) / 2; }

  GANTRAIN_BOTH void halve_rows(int thread, Shared& shared) const {
#pragma unroll 1
    for (int n = thread; n < kFine * kSide; n += kThreads) {
      const int row = n / kSide, column = n % kSide;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        T sum = 0;
#pragma unroll kUnrolled
        for (int t = 0; t < kTaps; ++t)
          sum = fma(warp.filter[t], shared.fine[c][row * kFine + 2 * column + t], sum);
        shared.halved[c][n] = sum;
      }
    }
  }

  GANTRAIN_BOTH void add_columns(const TileImage& x,
                                 const TileImage& y,
                                 int thread,
                                 const Shared& shared,
                                 Local& local) const {
    const int i = thread % kSide, j = thread / kSide;
    if (!x.has(warp.columns(), i) || !y.has(warp.rows(), j)) return;
    const int column = x.local(i), row = y.local(j);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      T sum = 0;
#pragma unroll kUnrolled
      for (int t = 0; t < kTaps; ++t)
        sum = fma(warp.filter[t], shared.halved[c][(2 * row + t) * kSide + column], sum);
      local.sums[c] += sum;
    }
  }

  GANTRAIN_BOTH void write(const Tile& tile, int thread, const Local& local) const {
    const AffineWarpArguments& how = warp.how;
    const int column = tile.column + thread % kSide, row = tile.row + thread / kSide;
    if (column >= how.width || row >= how.height) return;
    const int64_t picture = int64_t{how.width} * how.height;
    T* out = static_cast<T*>(how.out) + (tile.sample * how.channels + tile.channel) * picture +
             int64_t{row} * how.width + column;
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (tile.channel + c < how.channels) out[c * picture] = local.sums[c];
  }
};

// Calls work(TypeTag<T>{}) for float32 and float64.
template <class Work>
void with_wide_type(Type type, const Work& work) {
  if (type == Type::kFloat64)
    work(TypeTag<double>{});
  else
    work(TypeTag<float>{});
}

}  // namespace

void affine_warp(const AffineWarpArguments& how, Stream stream) {
  with_wide_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t x = blocks_for(how.out_width(), kSide), y = blocks_for(how.out_height(), kSide);
    const int64_t groups = blocks_for(how.channels, AffineWarpBody<T>::kChannels);
    const AffineWarpBody<T> body{Warped<T>(how), Divider(x), Divider(x * y), Divider(groups)};
    launch(body, how.samples * groups * x * y, stream);
  });
}

void affine_warp_adjoint(const AffineWarpArguments& how, Stream stream) {
  with_wide_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t x = blocks_for(how.width, kSide), y = blocks_for(how.height, kSide);
    const int64_t groups = blocks_for(how.channels, kTogether<T>);
    const AffineWarpAdjointBody<T> body{
        Warped<T>(how), Divider(x), Divider(x * y), Divider(groups)};
    launch(body, how.samples * groups * x * y, stream);
  });
}

}  // namespace gantrain::cuda_kernels
