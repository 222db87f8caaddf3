// SPDX-License-Identifier: Apache-2.0
#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"

#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

// Slopes of a leaky ReLU with a clamp, 2 bits a number.

// The bits of a vector: first each lane's sign, then whether it was clamped.
constexpr int64_t kSlopeBytes = kLanes / 4;
#if defined(__AVX512F__)
using LaneBits = uint16_t;
#else
using LaneBits = uint8_t;
#endif

#if defined(__AVX512F__)
struct Mask {
  __mmask16 bits;
};
inline Mask mask_of(LaneBits bits) { return {static_cast<__mmask16>(bits)}; }
inline LaneBits bits_of(Mask m) { return static_cast<LaneBits>(m.bits); }
inline Mask at_most(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)}; }
inline Vec times_where(Mask m, Vec v, Vec factor) {
  return _mm512_mask_mul_ps(v, m.bits, v, factor);
}
inline Vec zero_where(Mask m, Vec v) {
  return _mm512_maskz_mov_ps(static_cast<__mmask16>(~m.bits), v);
}
inline Vec smaller(Vec a, Vec b) { return _mm512_maskz_min_ps(0xffff, a, b); }
inline Vec larger(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }
#else
struct Mask {
  IntVec lanes;  // 0 or -1
};
inline IntVec lane_bits() {
#if defined(__AVX2__)
  return IntVec{1, 2, 4, 8, 16, 32, 64, 128};
#else
  return IntVec{1, 2, 4, 8};
#endif
}
inline Mask mask_of(LaneBits bits) {
  return {(lane_bits() & static_cast<int32_t>(bits)) == lane_bits()};
}
inline LaneBits bits_of(Mask m) {
#if defined(__AVX2__)
  return static_cast<LaneBits>(_mm256_movemask_ps(reinterpret_cast<__m256>(m.lanes)));
#else
  int32_t bits = 0;
  for (int64_t i = 0; i < kLanes; ++i) bits |= m.lanes[i] & (1 << i);
  return static_cast<LaneBits>(bits);
#endif
}
inline Mask at_most(Vec a, Vec b) { return {a <= b}; }
inline Vec times_where(Mask m, Vec v, Vec factor) { return m.lanes ? v * factor : v; }
inline Vec zero_where(Mask m, Vec v) { return m.lanes ? Vec{} : v; }
// Where one of the two is not a number, the second.
#if defined(__AVX2__)
inline Vec smaller(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec larger(Vec a, Vec b) { return _mm256_max_ps(a, b); }
#else
inline Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
#endif
#endif

struct Slopes {
  Mask low, clamped;
};

inline void store_slopes(uint8_t* to, const Slopes& s) {
  if constexpr (kLanes == 4) {
    *to = static_cast<uint8_t>(bits_of(s.low) | bits_of(s.clamped) << 4);
  } else {
    const LaneBits bits[2] = {bits_of(s.low), bits_of(s.clamped)};
    std::memcpy(to, bits, sizeof bits);
  }
}

inline Slopes load_slopes(const uint8_t* from) {
  if constexpr (kLanes == 4) {
    return {mask_of(*from & 15), mask_of(static_cast<LaneBits>(*from >> 4))};
  } else {
    LaneBits bits[2];
    std::memcpy(bits, from, sizeof bits);
    return {mask_of(bits[0]), mask_of(bits[1])};
  }
}

// Lines of pixels with kLanes channels side by side, and filters along and across them.

// Calls step.operator()<n>(i) for blocks of 8, 4, 2 and 1 of `count` numbers, in order: sums of
// several numbers at a time hide the time that each addition takes.
template <class Step>
inline void in_blocks(int64_t count, const Step& step) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) step.template operator()<8>(i);
  if ((count - i) & 4) {
    step.template operator()<4>(i);
    i += 4;
  }
  if ((count - i) & 2) {
    step.template operator()<2>(i);
    i += 2;
  }
  if ((count - i) & 1) step.template operator()<1>(i);
}

// to[i * to_step] (+)= the sum over j < count of weights[j] * from[i * step + j], for i < n. At
// least one weight. (Sums that begin as an array of zeros are not kept in registers.)
template <bool kAdd>
inline void filter_along(const float* from,
                         int64_t step,
                         const float* weights,
                         int64_t count,
                         float* to,
                         int64_t to_step,
                         int64_t n) {
  in_blocks(n, [&]<int kBlock>(int64_t i) {
    const float* in = from + i * step * kLanes;
    float* out = to + i * to_step * kLanes;
    Vec sums[kBlock];
    const Vec first = all(weights[0]);
    for (int k = 0; k < kBlock; ++k) {
      sums[k] = first * load(in + k * step * kLanes);
      if constexpr (kAdd) sums[k] += load(out + k * to_step * kLanes);
    }
    for (int64_t j = 1; j < count; ++j) {
      const Vec w = all(weights[j]);
      for (int k = 0; k < kBlock; ++k) sums[k] += w * load(in + (k * step + j) * kLanes);
    }
    for (int k = 0; k < kBlock; ++k) store(out + k * to_step * kLanes, sums[k]);
  });
}

// to[i] = the sum over j < count of weights[j] * lines[j][i], for i < n. At least one weight.
inline void filter_across(
    const float* const* lines, const float* weights, int64_t count, int64_t n, float* to) {
  in_blocks(n, [&]<int kBlock>(int64_t i) {
    Vec sums[kBlock];
    const Vec first = all(weights[0]);
    for (int k = 0; k < kBlock; ++k) sums[k] = first * load(lines[0] + (i + k) * kLanes);
    for (int64_t j = 1; j < count; ++j) {
      const Vec w = all(weights[j]);
      const float* from = lines[j] + i * kLanes;
      for (int k = 0; k < kBlock; ++k) sums[k] += w * load(from + k * kLanes);
    }
    for (int k = 0; k < kBlock; ++k) store(to + (i + k) * kLanes, sums[k]);
  });
}

// Copies `count` pixels of `channels` channels (1 to kLanes) to a line, plus a bias for each
// channel. `from` has distances as MapsView.
inline void read_pixels(const float* from,
                        int64_t channel,
                        int64_t column,
                        int64_t channels,
                        int64_t count,
                        Vec bias,
                        float* to) {
  if (channel == 1) {
    for (int64_t i = 0; i < count; ++i)
      store(to + i * kLanes, load_within(from + i * column, channels) + bias);
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t columns = least(kLanes, count - i);
    Vec r[kLanes];
    if (columns == kLanes && channels == kLanes) {
      for (int64_t c = 0; c < kLanes; ++c) r[c] = load(from + c * channel + i);
    } else {
      for (int64_t c = 0; c < kLanes; ++c)
        r[c] = c < channels ? load_within(from + c * channel + i, columns) : Vec{};
    }
    transpose(r);
    for (int64_t k = 0; k < columns; ++k) store(to + (i + k) * kLanes, r[k] + bias);
  }
}

// The way back.
inline void write_pixels(
    const float* from, int64_t channels, int64_t n, float* to, int64_t channel, int64_t column) {
  if (channel == 1) {
    for (int64_t i = 0; i < n; ++i)
      store_within(to + i * column, load(from + i * kLanes), channels);
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t columns = least(kLanes, n - i);
    Vec r[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) r[k] = k < columns ? load(from + (i + k) * kLanes) : Vec{};
    transpose(r);
    for (int64_t c = 0; c < channels; ++c) store_within(to + c * channel + i, r[c], columns);
  }
}

// The up-sampled picture exists one row at a time. Pixels have kLanes channels side by side, so
// that no filter looks across lanes and no factor or width leaves lanes idle. The lines of one part
// stay in the processor's second cache, most of them in the first.

namespace {

int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
int64_t groups_of(int64_t channels) { return (channels + kLanes - 1) / kLanes; }

// Where samples lie that begin a block of `up` of them, and the first pixel that they are sums of.
int64_t block_of(int64_t sample, int64_t pad, int64_t up) {
  return floor_of(sample - pad - 1, up) + 1;
}
int64_t first_of_block(int64_t block, int64_t pad, int64_t up) {
  return pad + 1 + up * (block - 1);
}

// Not a number stays what it is.
Vec clamped(Vec v, Vec most) { return larger(-most, smaller(most, v)); }

// The sizes of a tile's lines, in pixels.
struct Sizes {
  int64_t blocks;  // of `up` samples
  int64_t in, mid, out;
  int64_t in_lines, out_lines;  // of the rings

  explicit Sizes(const FilteredLreluTask& t) {
    const int64_t samples = (least(t.tile, t.out_w) - 1) * t.down + t.down_x.taps;
    blocks = (samples + t.up - 2) / t.up + 1;
    in = blocks + t.up_x.taps - 1;
    mid = blocks * t.up;
    out = least(t.tile, t.out_w);
    in_lines = t.up_y.taps;
    out_lines = t.down_rows == nullptr ? t.down_y.taps : (t.down_y.taps + t.down - 1) / t.down;
  }
  // Separable filters keep lines that are filtered along x.
  int64_t ring_line(const FilteredLreluTask& t) const { return t.up_rows == nullptr ? mid : in; }
  int64_t floats(const FilteredLreluTask& t) const {
    return kLanes * (1 + in + in_lines * ring_line(t) + mid + out_lines * out + out) +
           pointers(t) * kFloatsOfPointer;
  }
  static constexpr int64_t kFloatsOfPointer = 2;
  static_assert(sizeof(float*) <= kFloatsOfPointer * sizeof(float));
  static int64_t pointers(const FilteredLreluTask& t) {
    return t.up_y.taps > t.down_y.taps ? t.up_y.taps : t.down_y.taps;
  }
};

// One tile of one band of one group of channels.
class Part {
 public:
  Part(const FilteredLreluTask& task,
       const MapsView& x,
       const MapsView& y,
       uint8_t* slopes,
       float* scratch,
       int64_t part)
      : t_(task), size_(task) {
    const int64_t tile = part % t_.tiles, band = part / t_.tiles % t_.bands;
    const int64_t group = part / t_.tiles / t_.bands;
    const int64_t groups = groups_of(t_.channels), sample = group / groups;
    const int64_t channel = group % groups * kLanes;
    channels_ = least(kLanes, t_.channels - channel);
    bias_ = t_.bias == nullptr ? Vec{} : load_within(t_.bias + channel, channels_);
    from_ = x;
    from_.data += sample * x.sample + channel * x.channel;
    to_ = y;
    to_.data += sample * y.sample + channel * y.channel;
    row_begin_ = band * t_.band;
    row_end_ = least(row_begin_ + t_.band, t_.out_h);
    column_ = tile * t_.tile;
    columns_ = least(t_.tile, t_.out_w - column_);
    sample_x_ = column_ * t_.down;
    block_ = block_of(sample_x_, t_.pad_x0, t_.up);
    first_x_ = first_of_block(block_, t_.pad_x0, t_.up);
    const int64_t last = sample_x_ + (columns_ - 1) * t_.down + t_.down_x.taps - 1;
    blocks_ = block_of(last, t_.pad_x0, t_.up) - block_ + 1;
    samples_ = last + 1 - first_x_;
    // Samples that several parts compute are written by one of them.
    own_x_begin_ = column_ == 0 ? 0 : sample_x_;
    own_x_end_ = column_ + columns_ == t_.out_w ? t_.mid_w : sample_x_ + columns_ * t_.down;
    own_y_begin_ = row_begin_ * t_.down;
    own_y_end_ = row_end_ == t_.out_h ? t_.mid_h : row_end_ * t_.down;
    const int64_t rows = t_.reads ? t_.read.height : t_.mid_h;
    slope_columns_ = t_.reads ? t_.read.width : t_.mid_w;
    slopes_ = slopes == nullptr ? nullptr : slopes + group * rows * slope_columns_ * kSlopeBytes;

    // Vectors that lie across two cache lines take twice the time.
    const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(scratch) / sizeof(float));
    in_line_ = scratch + (kLanes - beyond % kLanes) % kLanes;
    mid_line_ = in_line_ + size_.in * kLanes;
    out_line_ = mid_line_ + size_.mid * kLanes;
    in_ring_ = out_line_ + size_.out * kLanes;
    out_ring_ = in_ring_ + size_.in_lines * size_.ring_line(t_) * kLanes;
    lines_ = reinterpret_cast<const float**>(out_ring_ + size_.out_lines * size_.out * kLanes);
  }

  void compute() {
    const int64_t begin = row_begin_ * t_.down;
    const int64_t end = (row_end_ - 1) * t_.down + t_.down_y.taps;
    next_in_ = block_of(begin, t_.pad_y0, t_.up);
    for (int64_t m = begin; m < end; ++m) {
      up_sample(m);
      if (t_.down_rows == nullptr) {
        down_sample(m);
      } else {
        add_to_results(m);
      }
    }
  }

 private:
  float* in_ring(int64_t i) const {
    const int64_t k = i % size_.in_lines;
    return in_ring_ + (k < 0 ? k + size_.in_lines : k) * size_.ring_line(t_) * kLanes;
  }
  float* out_ring(int64_t i) const { return out_ring_ + i % size_.out_lines * size_.out * kLanes; }

  static void zero(float* line, int64_t count) {
    for (int64_t i = 0; i < count; ++i) store(line + i * kLanes, Vec{});
  }

  // Pixels of row i from block_ on, and zeros around the picture.
  void read_row(int64_t i, float* line) const {
    const int64_t count = blocks_ + t_.up_x.taps - 1;
    const int64_t begin = most(0, -block_), end = least(count, t_.in_w - block_);
    if (i < 0 || i >= t_.in_h || begin >= end) {
      zero(line, count);
      return;
    }
    zero(line, begin);
    read_pixels(from_.data + i * from_.row + (block_ + begin) * from_.column,
                from_.channel,
                from_.column,
                channels_,
                end - begin,
                bias_,
                line + begin * kLanes);
    zero(line + end * kLanes, count - end);
  }

  template <bool kAdd>
  void up_along(const float* line, const float* weights, float* to) const {
    for (int64_t a = 0; a < t_.up; ++a)
      filter_along<kAdd>(
          line, 1, weights + a * t_.up_x.taps, t_.up_x.taps, to + a * kLanes, t_.up, blocks_);
  }

  // The row m of the higher rate, after the activation.
  void up_sample(int64_t m) {
    const int64_t block = block_of(m, t_.pad_y0, t_.up), taps = t_.up_y.taps;
    for (; next_in_ < block + taps; ++next_in_) {
      float* slot = in_ring(next_in_);
      if (t_.up_rows == nullptr) {
        read_row(next_in_, in_line_);
        up_along<false>(in_line_, t_.up_x.weights, slot);
      } else {
        read_row(next_in_, slot);
      }
    }
    const int64_t phase = m - first_of_block(block, t_.pad_y0, t_.up);
    if (t_.up_rows == nullptr) {
      for (int64_t j = 0; j < taps; ++j) lines_[j] = in_ring(block + j);
      filter_across(lines_, t_.up_y.weights + phase * taps, taps, samples_, mid_line_);
    } else {
      const float* const* rows = t_.up_rows + phase * taps;
      up_along<false>(in_ring(block), rows[0], mid_line_);
      for (int64_t j = 1; j < taps; ++j) up_along<true>(in_ring(block + j), rows[j], mid_line_);
    }
    if (t_.reads) {
      read_slopes(m);
    } else if (slopes_ != nullptr && m >= own_y_begin_ && m < own_y_end_) {
      const int64_t begin = own_x_begin_ - first_x_, end = least(own_x_end_ - first_x_, samples_);
      activate(0, begin);
      write_slopes(m, begin, end);
      activate(end, samples_);
    } else {
      activate(0, samples_);
    }
  }

  // The samples [begin, end) of the row of the higher rate.
  void activate(int64_t begin, int64_t end) {
    const Vec slope = all(static_cast<float>(t_.slope)), clamp = all(static_cast<float>(t_.clamp));
    for (int64_t i = begin; i < end; ++i) {
      const Vec v = load(mid_line_ + i * kLanes);
      store(mid_line_ + i * kLanes, clamped(times_where(at_most(v, Vec{}), v, slope), clamp));
    }
  }

  void write_slopes(int64_t m, int64_t begin, int64_t end) {
    const Vec slope = all(static_cast<float>(t_.slope)), clamp = all(static_cast<float>(t_.clamp));
    uint8_t* row = slopes_ + (m * slope_columns_ + first_x_) * kSlopeBytes;
    for (int64_t i = begin; i < end; ++i) {
      Vec v = load(mid_line_ + i * kLanes);
      const Mask low = at_most(v, Vec{});
      v = times_where(low, v, slope);
      store(mid_line_ + i * kLanes, clamped(v, clamp));
      store_slopes(row + i * kSlopeBytes, {low, at_most(clamp, magnitude(v))});
    }
  }

  void read_slopes(int64_t m) {
    if (slopes_ == nullptr) return;
    const int64_t y = m + t_.read.slope_y, x = first_x_ + t_.read.slope_x;
    const bool inside = y >= 0 && y < t_.read.height;
    const int64_t begin = inside ? least(most(-x, 0), samples_) : samples_;
    const int64_t end = most(least(t_.read.width - x, samples_), begin);
    const Vec slope = all(static_cast<float>(t_.slope));
    const uint8_t* row = slopes_ + (y * t_.read.width + x) * kSlopeBytes;
    zero(mid_line_, begin);
    for (int64_t i = begin; i < end; ++i) {
      const Slopes s = load_slopes(row + i * kSlopeBytes);
      const Vec v = load(mid_line_ + i * kLanes);
      store(mid_line_ + i * kLanes, zero_where(s.clamped, times_where(s.low, v, slope)));
    }
    zero(mid_line_ + end * kLanes, samples_ - end);
  }

  const float* samples() const { return mid_line_ + (sample_x_ - first_x_) * kLanes; }

  void down_sample(int64_t m) {
    const int64_t taps = t_.down_y.taps;
    filter_along<false>(
        samples(), t_.down, t_.down_x.weights, t_.down_x.taps, out_ring(m), 1, columns_);
    const int64_t first = m - taps + 1;  // the first row that a result with this last one needs
    if (first < row_begin_ * t_.down || first % t_.down != 0) return;
    for (int64_t k = 0; k < taps; ++k) lines_[k] = out_ring(first + k);
    filter_across(lines_, t_.down_y.weights, taps, columns_, out_line_);
    write_row(first / t_.down, out_line_);
  }

  void add_to_results(int64_t m) {
    const int64_t taps = t_.down_y.taps;
    const int64_t last = least(m / t_.down, row_end_ - 1);
    const int64_t first = most(floor_of(m - taps, t_.down) + 1, row_begin_);
    for (int64_t o = first; o <= last; ++o) {
      const int64_t k = m - o * t_.down;
      float* sums = out_ring(o);
      if (k == 0) {
        filter_along<false>(samples(), t_.down, t_.down_rows[k], t_.down_x.taps, sums, 1, columns_);
      } else {
        filter_along<true>(samples(), t_.down, t_.down_rows[k], t_.down_x.taps, sums, 1, columns_);
      }
      if (k == taps - 1) write_row(o, sums);
    }
  }

  void write_row(int64_t row, const float* line) const {
    write_pixels(line,
                 channels_,
                 columns_,
                 to_.data + row * to_.row + column_ * to_.column,
                 to_.channel,
                 to_.column);
  }

  const FilteredLreluTask& t_;
  const Sizes size_;
  MapsView from_, to_;  // of the group's first channel
  int64_t channels_;
  Vec bias_;
  uint8_t* slopes_;  // of the group
  int64_t slope_columns_;
  int64_t row_begin_, row_end_, column_, columns_;         // of the result
  int64_t sample_x_, first_x_, block_, blocks_, samples_;  // of the higher rate, along x
  int64_t own_x_begin_, own_x_end_, own_y_begin_, own_y_end_;
  int64_t next_in_ = 0;  // the next row to read
  float *in_line_, *mid_line_, *out_line_, *in_ring_, *out_ring_;
  const float** lines_;  // that a filter across lines reads
};

int64_t slope_bytes(int64_t samples, int64_t channels, int64_t rows, int64_t columns) {
  return samples * groups_of(channels) * rows * columns * kSlopeBytes;
}
int64_t scratch(const FilteredLreluTask& task) { return Sizes(task).floats(task); }
int64_t parts(const FilteredLreluTask& task) {
  return task.samples * groups_of(task.channels) * task.bands * task.tiles;
}

void compute(const FilteredLreluTask& task,
             const MapsView& x,
             const MapsView& y,
             uint8_t* slopes,
             float* scratch,
             int64_t first,
             int64_t last) {
  for (int64_t part = first; part < last; ++part) Part(task, x, y, slopes, scratch, part).compute();
}

}  // namespace

FilteredLreluKernels filtered_lrelu_kernels() {
  return {kLanes, slope_bytes, scratch, parts, compute};
}

}  // namespace gantrain::GANTRAIN_ISA
