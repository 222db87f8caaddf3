// SPDX-License-Identifier: Apache-2.0
// The layers of StyleGAN3 and their derivatives, whose factors and taps are known when this is
// compiled. A block computes a strip of eight channels from top to bottom, a chunk of rows after
// the other. A thread owns two neighbouring columns of the higher rate of one channel and keeps in
// registers what moves down along them: the last six rows of pixels, filtered up along x, from
// which the next samples are made, and the sums of the six rows of results that samples still go
// into. So no plane of the higher rate is stored, not even in shared memory: there lie a chunk's
// pixels, and its results before they are filtered down along x.
//
// Along each axis sample m = pad + 1 + up * (n - 1) + a of the higher rate, 0 <= a < up, is the sum
// over j of tap[up - 1 - a + up * j] * pixel[n + j], 0 <= j < 6. For loops to be unrolled, a
// strip's sample 0 must have a = kPhase, which StyleGAN3's pads see to. Where that is 1 sample -1
// of a strip is computed too; it goes into results before the strip's first alone, which are
// dropped.
//
// With factors of 2 a result takes 72 multiplications that are added up, 24 instructions for the
// slopes of 4 samples, and a fifth more for samples that two strips compute, but 4 bytes of maps
// and 2 of slopes: arithmetic bounds this, not memory.
#include <algorithm>
#include <cmath>

#include "ops/filtered_lrelu/filtered_lrelu_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

GANTRAIN_BOTH bool is_below(int i, int end) {
  return static_cast<unsigned>(i) < static_cast<unsigned>(end);
}

constexpr int kLanes = kSlopeLanes;  // channels of a block
constexpr int kStride = 8;           // from a phase's taps to the next one's
constexpr int kWindow = 6;           // pixels that make a sample, results that a sample goes into

template <class T, int kUp, int kDown, int kPhase, int kPairs>
struct StripBody {
  static constexpr int kThreads = kPairs * kLanes;
  static constexpr int kBlocks = 768 / kThreads;
  static constexpr int kUpTaps = kWindow * kUp, kDownTaps = kWindow * kDown;
  // Of a chunk: rows of pixels, samples of a column, rows of results. A result is complete so many
  // rows after that of the chunk in which its first sample is.
  static constexpr int kRows = kDown > kUp ? 2 * kWindow : kWindow;
  static constexpr int kSamples = kRows * kUp, kResults = kSamples / kDown;
  static constexpr int kLag = kWindow - 1 + kPhase;
  // Of a strip: columns of pixels and of results, at most.
  static constexpr int kColumns = 2 * kPairs / kUp + kWindow - 1;
  static constexpr int kMostWidth = (2 * kPairs - kPhase - kDownTaps) / kDown + 1;
  static constexpr int kWidth = kUp > kDown ? kMostWidth / 2 * 2 : kMostWidth;
  static constexpr int kEach = kUp == kDown ? 7 : 5;  // results of a thread; odd, for the banks
  static constexpr int kRuns = (kWidth + kEach - 1) / kEach;
  static constexpr int kLastPair = ((kRuns * kEach - 1) * kDown + kDownTaps - 1 + kPhase) / 2;
  static constexpr int kHalfPairs = kLastPair < kPairs ? kPairs : kLastPair + 1;
  static_assert(kResults % kWindow == 0 && kSamples % 4 == 0 && kDown % 2 == 0);

  // Of a strip: the sample, the group of channels among those of all samples, the first channel and
  // the first result.
  struct Corner {
    int sample, group, channels, y, x;
  };
  struct Shared {
    alignas(16) Corner corner;
    alignas(16) float up[kUp][kStride];      // taps[up - 1 - a + up * j] at [a][j]
    alignas(16) float down[kDown][kStride];  // taps[a + down * j] at [a][j]
    float in[kRows][kColumns][kLanes];
    float half[kResults][2][kHalfPairs][kLanes];  // even columns, then odd ones
  };
  struct Local {
    float window[2][kWindow];
    float sums[2][kWindow];
    unsigned bits;  // the slopes of four samples, one below the other; the second column's << 16
    unsigned behind, ahead[2];  // bytes of slopes that are read
  };

  FilteredLreluArguments how;
  int width, height;  // of a strip, in results
  int chunks;         // the first one fills windows
  Divider groups, across, along;

  explicit StripBody(const FilteredLreluArguments& arguments) : how(arguments) {
    const auto cut = [](int pixels, int64_t parts) {
      return static_cast<int>(blocks_for(pixels, std::max<int64_t>(parts, 1)));
    };
    groups = Divider(how.slope_groups());
    // Strips begin where sample 0 has the same phase, and at whole bytes of slopes.
    width = cut(how.out_w, blocks_for(how.out_w, kWidth));
    if (kUp > kDown) width = (width + 1) / 2 * 2;
    across = Divider(blocks_for(how.out_w, width));
    // As many blocks as fill any GPU, but not by strips that are mostly windows to be filled.
    constexpr int64_t kBlocks = 1024, kShort = 32;
    const int64_t whole = std::max<int64_t>(how.samples * groups.divisor * across.divisor, 1);
    height = cut(how.out_h, std::min(kBlocks / whole, blocks_for(how.out_h, kShort)));
    height = (height + 1) / 2 * 2;
    along = Divider(blocks_for(how.out_h, height));
    const int samples = (std::min(height, how.out_h) - 1) * kDown + kDownTaps;
    chunks = 1 + static_cast<int>(blocks_for((samples + 3) / 4 * 4 + kPhase, kSamples));
  }

  // The pads of the derivative, whose factors are exchanged, fit where these do.
  static bool fits(const FilteredLreluArguments& how) {
    constexpr int kMostPixels = 1 << 24;  // of a row or a column
    const auto known = [](const PlaneFilter& f, int taps) {
      return f.separable && f.taps_x == taps && f.taps_y == taps;
    };
    const auto padded = [](int pad) {
      return (pad + 1 + kPhase) % kUp == 0 && (kUpTaps + kDownTaps - 1 - pad + kPhase) % kDown == 0;
    };
    return how.up == kUp && how.down == kDown && known(how.up_filter, kUpTaps) &&
           known(how.down_filter, kDownTaps) && padded(how.pad_x) && padded(how.pad_y) &&
           std::max({how.in_h, how.in_w, how.out_h, how.out_w}) < kMostPixels;
  }

  int64_t blocks() const { return how.samples * groups.divisor * across.divisor * along.divisor; }
  GANTRAIN_BOTH int steps() const { return 2 * chunks + 1; }

  // Odd steps walk over a chunk, even ones store what it left and load the next one.
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local& local) const {
    const Strip strip = strip_of(place, number == 0 ? corner_of(place.block) : shared.corner);
    const int chunk = number / 2;
    if (number % 2 == 0) {
      if (number == 0) load_taps(place.thread, shared);
      if (number == 0 && place.thread == 0) shared.corner = strip;
      load_and_store(strip, chunk, place.thread, shared);
    } else if (strip.pair * 2 < mid_columns()) {
      if (chunk == 0) {
        begin(strip, shared, local);
      } else if (how.reads_slopes) {
        walk<true>(strip, chunk, shared, local);
      } else {
        walk<false>(strip, chunk, shared, local);
      }
    }
  }

 private:
  // The samples of a row that a strip's results are made of, from sample -kPhase on.
  GANTRAIN_BOTH int mid_columns() const { return (width - 1) * kDown + kDownTaps + kPhase; }

  // A thread's place in its strip: its lane among the channels, and its pair of columns.
  struct Strip : Corner {
    int channel, lane, pair;
  };
  // Registers are short: what all threads of a block share is kept in shared memory.
  GANTRAIN_BOTH Strip strip_of(const Place& place, const Corner& corner) const {
    Strip s{corner};
    s.lane = place.thread % kLanes;
    s.pair = place.thread / kLanes;
    s.channel = corner.channels + s.lane;
    return s;
  }
  GANTRAIN_BOTH Corner corner_of(int64_t block) const {
    const auto i = static_cast<uint32_t>(block);
    const uint32_t column = groups.quotient(i), row = across.quotient(column);
    const uint32_t sample = along.quotient(row), group = i - column * groups.divisor;
    return {static_cast<int>(sample),
            static_cast<int>(sample * groups.divisor + group),
            static_cast<int>(group) * kLanes,
            static_cast<int>(row - sample * along.divisor) * height,
            static_cast<int>(column - row * across.divisor) * width};
  }

  // Thread i loads tap i of each filter.
  GANTRAIN_BOTH void load_taps(int i, Shared& shared) const {
    const auto tap = [&](const PlaneFilter& f, int count) {
      return f.taps[how.flip ? i : count - 1 - i];
    };
    static_assert(kThreads >= kUpTaps && kThreads >= kDownTaps);
    if (i < kUpTaps) shared.up[kUp - 1 - i % kUp][i / kUp] = tap(how.up_filter, kUpTaps);
    if (i < kDownTaps) shared.down[i % kDown][i / kDown] = tap(how.down_filter, kDownTaps);
  }

  // The first pixel that sample -kPhase of a strip from `result` on is a sum of: its a is 0, so
  // that nothing is left over by the division.
  GANTRAIN_BOTH static int first_pixel(int result, int pad) {
    return (result * kDown - kPhase - pad - 1) / kUp + 1;
  }

  // A column of a chunk's pixels.
  struct Column {
    const T* first;
    int y;
    bool inside;
  };
  GANTRAIN_BOTH Column column_of(const Strip& strip, int chunk, int column) const {
    const int x = first_pixel(strip.x, how.pad_x) + column;
    Column c;
    c.y = first_pixel(strip.y, how.pad_y) + kRows * (chunk - 1) + kWindow - 1;
    c.inside = strip.channel < how.channels && is_below(x, how.in_w);
    c.first = static_cast<const T*>(how.x) + strip.sample * how.x_strides.sample +
              strip.channel * how.x_strides.channel + x * how.x_strides.x + c.y * how.x_strides.y;
    return c;
  }
  GANTRAIN_BOTH void fetch(const Column& column, T (&to)[kRows]) const {
    const T* from = column.first;
#pragma unroll
    for (int row = 0; row < kRows; ++row, from += how.x_strides.y) {
      if (column.inside && is_below(column.y + row, how.in_h)) to[row] = *from;
    }
  }
  GANTRAIN_BOTH void put(const Strip& strip,
                         const Column& column,
                         const T (&pixels)[kRows],
                         int at,
                         Shared& shared) const {
    const bool biased = how.bias != nullptr && column.inside;
    const float bias = biased ? widened(static_cast<const T*>(how.bias)[strip.channel]) : 0.F;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const bool is_pixel = column.inside && is_below(column.y + row, how.in_h);
      shared.in[row][at][strip.lane] = is_pixel ? (widened(pixels[row]) + bias) * how.gain : 0.F;
    }
  }

  // Stores what the chunk before left while this chunk's pixels are on their way.
  GANTRAIN_BOTH void load_and_store(const Strip& strip,
                                    int chunk,
                                    int thread,
                                    Shared& shared) const {
    const int columns = chunk < chunks ? (mid_columns() - 1) / kUp + kWindow : 0;
    T pixels[kRows] = {};
    if (strip.pair < columns) fetch(column_of(strip, chunk, strip.pair), pixels);
    if (chunk > 1) store(strip, chunk - 1, thread, shared);
    for (int at = strip.pair; at < columns; at += kPairs) {
      const Column column = column_of(strip, chunk, at);
      if (at >= kPairs) fetch(column, pixels);
      put(strip, column, pixels, at, shared);
    }
  }

  // A phase's taps.
  struct Taps {
    float numbers[kWindow];

    GANTRAIN_BOTH explicit Taps(const float* from) {
      const Pack<float, 4> four = load_pack<float, 4>(from);
      const Pack<float, 2> two = load_pack<float, 2>(from + 4);
#pragma unroll
      for (int j = 0; j < kWindow; ++j) numbers[j] = j < 4 ? four.numbers[j] : two.numbers[j - 4];
    }
    GANTRAIN_BOTH float operator[](int j) const { return numbers[j]; }
  };

  // Takes row `row` of the chunk into the windows.
  GANTRAIN_BOTH static void enter(
      const Strip& strip, int row, const Taps (&up)[2], const Shared& shared, Local& local) {
    float sums[2] = {};
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
      const float pixel = shared.in[row][2 * strip.pair / kUp + j][strip.lane];
#pragma unroll
      for (int c = 0; c < 2; ++c) sums[c] += up[c][j] * pixel;
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) local.window[c][row % kWindow] = sums[c];
  }

  GANTRAIN_BOTH void begin(const Strip& strip, const Shared& shared, Local& local) const {
    const float* up_x = shared.up[2 * strip.pair % kUp];
    const Taps up[2] = {Taps(up_x), Taps(up_x + kStride)};
#pragma unroll
    for (int row = kRows - kWindow; row < kRows; ++row) enter(strip, row, up, shared, local);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int j = 0; j < kWindow; ++j) local.sums[c][j] = 0;
    }
    local.bits = local.behind = local.ahead[0] = local.ahead[1] = 0;
    if (!how.reads_slopes) return;
    const Slopes slopes = slopes_read(strip);
    const int quad = quad_read(strip, 1, 0);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      local.behind |= byte_of(slopes, quad, c) << (16 * c);
      local.ahead[c] = byte_of(slopes, quad + 1, c);
    }
  }

  // Taps of factors of 2 stay in registers; of larger ones there are too many.
  template <bool kReads>
  GANTRAIN_BOTH void walk(const Strip& strip, int chunk, Shared& shared, Local& local) const {
    const float* up_x = shared.up[2 * strip.pair % kUp];
    const Taps up[2] = {Taps(up_x), Taps(up_x + kStride)};
    const Slopes slopes = kReads ? slopes_read(strip) : slopes_written(strip);
    const Taps down[2] = {Taps(shared.down[0]), Taps(shared.down[1])};
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      enter(strip, row, up, shared, local);
#pragma unroll
      for (int a = 0; a < kUp; ++a) {
        const int sample = row * kUp + a - kPhase;  // of the chunk; -1 belongs to the one before
        if (kReads && sample % 4 == 0) next_slopes(slopes, quad_read(strip, chunk, sample), local);
        const Taps along_y = kUp == 2 ? up[a % 2] : Taps(shared.up[a]);
        float u[2] = {};
#pragma unroll
        for (int c = 0; c < 2; ++c) {
#pragma unroll
          for (int j = 0; j < kWindow; ++j)
            u[c] += along_y[j] * local.window[c][(row + 1 + j) % kWindow];
          const int shift = 16 * c + 2 * (sample & 3);
          u[c] = kReads ? sloped(u[c], local.bits >> shift) : activated(u[c], shift, local.bits);
        }
        if (!kReads && (sample & 3) == 3) write_slopes(strip, chunk, sample, slopes, local.bits);
        const int tap = sample - result_of(sample) * kDown;
        add(u, sample, kDown == 2 ? down[tap % 2] : Taps(shared.down[tap]), local);
        if (tap == kDown - 1) keep(strip, sample, local, shared);
      }
    }
  }

  // The first result that a sample of a chunk goes into, counted in the chunk; may be -1.
  GANTRAIN_BOTH static constexpr int result_of(int sample) { return (sample + kDown) / kDown - 1; }

  // Adds a sample of both columns to the sums of the results that it goes into.
  GANTRAIN_BOTH static void add(const float (&u)[2], int sample, const Taps& down, Local& local) {
    const int first = result_of(sample);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int j = 0; j < kWindow; ++j) {
        float& sum = local.sums[c][(first - j + 2 * kWindow) % kWindow];
        const bool is_first = j == 0 && sample == first * kDown;
        sum = is_first ? down[j] * u[c] : sum + down[j] * u[c];
      }
    }
  }

  // Leaves the results that this sample was the last of to the filter along x.
  GANTRAIN_BOTH static void keep(const Strip& strip,
                                 int sample,
                                 const Local& local,
                                 Shared& shared) {
    const int first = result_of(sample);
#pragma unroll
    for (int c = 0; c < 2; ++c)
      shared.half[first + kPhase][c][strip.pair][strip.lane] = local.sums[c][(first + 1) % kWindow];
  }

  // Notes what became of u in the two bits from bit `shift` on.
  GANTRAIN_BOTH float activated(float u, int shift, unsigned& bits) const {
#ifdef __CUDA_ARCH__
    // Six instructions; of the code below the compiler makes twice as many.
    asm("{\n.reg .pred low, stopped;\n.reg .f32 size;\n"
        "setp.le.f32 low, %0, 0f00000000;\n"
        "@low mul.f32 %0, %0, %2;\n"
        "@low or.b32 %1, %1, %4;\n"
        "abs.f32 size, %0;\n"
        "setp.ge.f32 stopped, size, %3;\n"
        "@stopped copysign.f32 %0, %0, %3;\n"
        "@stopped or.b32 %1, %1, %5;\n}"
        : "+f"(u), "+r"(bits)
        : "f"(how.slope), "f"(how.clamp), "r"(1U << shift), "r"(2U << shift));
#else
    if (u <= 0) {
      u *= how.slope;
      bits |= 1U << shift;
    }
    if (std::fabs(u) >= how.clamp) {
      u = std::copysign(how.clamp, u);
      bits |= 2U << shift;
    }
#endif
    return u;
  }
  GANTRAIN_BOTH float sloped(float u, unsigned bits) const {
    if ((bits & 1) != 0) u *= how.slope;
    return (bits & 2) != 0 ? 0.F : u;
  }

  // Where the slopes of a thread's columns lie: `at` those of quad 0 in the first column, and which
  // columns are there.
  struct Slopes {
    uint8_t* at;
    bool inside[2];
    int row;  // bytes

    GANTRAIN_BOTH uint8_t& of(int quad, int c) const {
      return at[int64_t{quad} * row + c * kLanes];
    }
  };
  GANTRAIN_BOTH Slopes slopes_of(const Strip& strip, int quads, int columns, int x) const {
    Slopes s;
    s.row = columns * kLanes;
    s.at = how.slopes + int64_t{strip.group} * quads * s.row + (x * kLanes + strip.lane);
    return s;
  }
  GANTRAIN_BOTH static int first_column(const Strip& strip) {
    return strip.x * kDown + 2 * strip.pair - kPhase;
  }

  // Samples that several strips compute are written by one of them.
  GANTRAIN_BOTH Slopes slopes_written(const Strip& strip) const {
    const int begin = strip.x * kDown, x = first_column(strip);
    const int end = strip.x + width < how.out_w ? begin + width * kDown : how.mid_w();
    Slopes s = slopes_of(strip, how.slope_quads(), how.mid_w(), x);
#pragma unroll
    for (int c = 0; c < 2; ++c)
      s.inside[c] = how.slopes != nullptr && x + c >= begin && x + c < end;
    return s;
  }
  GANTRAIN_BOTH void write_slopes(
      const Strip& strip, int chunk, int sample, const Slopes& slopes, unsigned& bits) const {
    const int begin = strip.y * kDown;
    const int quad = (begin + kSamples * (chunk - 1) + sample - 3) >> 2;
    const int end = strip.y + height < how.out_h ? (begin + height * kDown) / 4 : how.slope_quads();
    const int rest = how.mid_h() - 4 * quad;
    const bool own = (sample >= 0 || chunk > 1) && quad < end;
    // Behind the last sample there is none that a derivative goes through.
    if (own && rest < 4) bits |= 0xAA00AAU << (2 * rest);
#pragma unroll
    for (int c = 0; c < 2; ++c)
      if (own && slopes.inside[c]) slopes.of(quad, c) = static_cast<uint8_t>(bits >> (16 * c));
    bits = 0;
  }

  GANTRAIN_BOTH Slopes slopes_read(const Strip& strip) const {
    const int x = first_column(strip) + how.slope_x;
    Slopes s = slopes_of(strip, how.slope_rows / 4, how.read_columns, x);
#pragma unroll
    for (int c = 0; c < 2; ++c) s.inside[c] = is_below(x + c, how.read_columns);
    return s;
  }
  // The first quad of slopes that a chunk's samples [sample, sample + 4) meet.
  GANTRAIN_BOTH int quad_read(const Strip& strip, int chunk, int sample) const {
    return (strip.y * kDown + kSamples * (chunk - 1) + sample + how.slope_y) >> 2;
  }
  GANTRAIN_BOTH unsigned byte_of(const Slopes& slopes, int quad, int c) const {
    const bool is_row = is_below(quad, how.slope_rows / 4);
    if (is_row && slopes.inside[c]) return slopes.of(quad, c);
    return how.slopes == nullptr ? 0 : 0xAA;
  }
  // They are asked for four samples before they are used.
  GANTRAIN_BOTH void next_slopes(const Slopes& slopes, int quad, Local& local) const {
    const unsigned read = local.ahead[0] | local.ahead[1] << 16;
    local.bits = (local.behind | read << 8) >> (2 * (how.slope_y & 3));
    local.behind = read;
#pragma unroll
    for (int c = 0; c < 2; ++c) local.ahead[c] = byte_of(slopes, quad + 2, c);
  }

  // Filters what a chunk left down along x.
  GANTRAIN_BOTH void store(const Strip& strip, int chunk, int thread, const Shared& shared) const {
    if (strip.channel >= how.channels) return;
    T* out = static_cast<T*>(how.out) + strip.sample * how.out_strides.sample +
             strip.channel * how.out_strides.channel;
    for (int i = thread; i < kResults * kRuns * kLanes; i += kThreads) {
      const int result = i / (kLanes * kRuns), run = i / kLanes % kRuns;
      const int row = kResults * (chunk - 1) + result - kLag, y = strip.y + row;
      if (row < 0 || row >= height || y >= how.out_h || run * kEach >= width) continue;
      float sums[kEach] = {};
#pragma unroll
      for (int a = 0; a < kDown; ++a) {
        const Taps down(shared.down[a]);
#pragma unroll
        for (int j = 0; j < kWindow + kEach - 1; ++j) {
          const int column = a + j * kDown + kPhase;
          const int pair = run * (kEach * kDown / 2) + column / 2;
          const float number = shared.half[result][column % 2][pair][strip.lane];
#pragma unroll
          for (int e = 0; e < kEach; ++e)
            if (j >= e && j - e < kWindow) sums[e] += down[j - e] * number;
        }
      }
      T* to = out + y * how.out_strides.y + (strip.x + run * kEach) * how.out_strides.x;
      const int end = (width < how.out_w - strip.x ? width : how.out_w - strip.x) - run * kEach;
#pragma unroll
      for (int e = 0; e < kEach; ++e, to += how.out_strides.x)
        if (e < end) *to = rounded<T>(sums[e]);
    }
  }
};

template <class T, int kUp, int kDown, int kPhase, int kPairs>
bool try_strips(const FilteredLreluArguments& how, Stream stream, bool try_only) {
  using Body = StripBody<T, kUp, kDown, kPhase, kPairs>;
  if (!Body::fits(how)) return false;
  if (try_only) return true;
  const Body body(how);
  launch(body, body.blocks(), stream);
  return true;
}

template <class T>
bool try_layers(const FilteredLreluArguments& how, Stream stream, bool try_only) {
  return try_strips<T, 2, 2, 0, 32>(how, stream, try_only) ||
         try_strips<T, 4, 2, 1, 36>(how, stream, try_only) ||
         try_strips<T, 2, 4, 1, 48>(how, stream, try_only);
}

}  // namespace

bool has_strips(const FilteredLreluArguments& how) { return try_layers<float>(how, nullptr, true); }

void filtered_lrelu_strips(const FilteredLreluArguments& how, Stream stream) {
  with_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) try_layers<T>(how, stream, false);
  });
}

}  // namespace gantrain::cuda_kernels
