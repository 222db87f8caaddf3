// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/fir.h"

#include "cpu_kernels/fir_sums.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// What becomes of two vectors of sums, of which the first `n` are wanted.
struct Put {
  float* to;
  void one(int64_t i, float a) const { to[i] = a; }
  void whole(int64_t i, Vec a, Vec b) const {
    store(to + i, a);
    store(to + i + kLanes, b);
  }
  void part(int64_t i, Vec a, Vec b, int64_t n) const {
    store_within(to + i, a, n);
    store_within(to + i + kLanes, b, n - kLanes);
  }
};

struct Add {
  float* to;
  void one(int64_t i, float a) const { to[i] += a; }
  void whole(int64_t i, Vec a, Vec b) const {
    Put{to}.whole(i, load(to + i) + a, load(to + i + kLanes) + b);
  }
  void part(int64_t i, Vec a, Vec b, int64_t n) const {
    Put{to}.part(i, a + load_within(to + i, n), b + load_within(to + i + kLanes, n - kLanes), n);
  }
};

// To scratch memory, where zeros may be written behind the end.
struct PutInScratch {
  float* to;
  void whole(int64_t i, Vec a, Vec b) const { Put{to}.whole(i, a, b); }
  void part(int64_t i, Vec a, Vec b, int64_t) const { Put{to}.whole(i, a, b); }
};

// To the two parts of a split line.
struct Split {
  float *even, *odd;
  void whole(int64_t i, Vec a, Vec b) const {
    store(even + i / 2, every_second<0>(a, b, kAllLanes));
    store(odd + i / 2, every_second<1>(a, b, kAllLanes));
  }
  void part(int64_t i, Vec a, Vec b, int64_t) const { whole(i, a, b); }
};

// kSlack: whole vectors may be read behind the end.
template <int kCount, bool kSlack, class Sink>
void weighted(const WeightedSum& sum, int64_t n, const Sink& sink) {
  const Weighted<kCount> at(sum);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    Vec a, b;
    at.pair(i, &a, &b);
    sink.whole(i, a, b);
  }
  if (i >= n) return;
  const int64_t rest = n - i;
  const auto some = [&](int64_t from, int64_t count) {
    if (kSlack || count >= kLanes) return at(from, load);
    return at(from, [&](const float* array) { return load_some(array, count); });
  };
  sink.part(i, some(i, rest), rest > kLanes ? some(i + kLanes, rest - kLanes) : Vec{}, rest);
}

template <bool kSlack, class Sink>
void weighted(const WeightedSum& sum, int64_t n, const Sink& sink) {
  switch (sum.count) {
    case 1:
      return weighted<1, kSlack>(sum, n, sink);
    case 2:
      return weighted<2, kSlack>(sum, n, sink);
    case 3:
      return weighted<3, kSlack>(sum, n, sink);
    case 4:
      return weighted<4, kSlack>(sum, n, sink);
    default:
      return weighted<0, kSlack>(sum, n, sink);
  }
}

// n numbers by turns from the one sum and from the other, both over scratch memory.
template <int kCount, class Sink>
void interleaved(const WeightedSum& first, const WeightedSum& second, int64_t n, const Sink& sink) {
  const Weighted<kCount> at(first), other(second);
  for (int64_t i = 0; i < n; i += 2 * kLanes) {
    const Vec a = at(i / 2, load), b = other(i / 2, load);
    const Vec low = by_turns<0>(a, b, kAllLanes);
    const Vec high = by_turns<kLanes / 2>(a, b, kAllLanes);
    if (i + 2 * kLanes <= n)
      sink.whole(i, low, high);
    else
      sink.part(i, low, high, n - i);
  }
}

// A row of the result: of which plane, where in it, and where it goes.
struct Row {
  const float* plane;
  int64_t at;
  float* out;
  bool written;  // a term is in it already
  bool any;      // the current term's vertical filter meets the plane
};

// Computes rows of one task in one thread.
class Resampler {
 public:
  Resampler(const FirTask& task, float* scratch) : t_(task), scratch_(scratch) {}

  // Up to task.lines rows. A line is read some time after it was written, when it has reached the
  // first cache: short rows would wait for it otherwise.
  void compute(Row* rows, int64_t count) const {
    for (int64_t i = 0; i < t_.term_count; ++i) {
      for (int64_t r = 0; r < count; ++r) vertical(t_.terms[i], &rows[r], line(r));
      for (int64_t r = 0; r < count; ++r) {
        if (!rows[r].any) continue;
        if (!t_.vertical_only) {
          if (rows[r].written)
            horizontal(t_.terms[i], line(r), Add{rows[r].out});
          else
            horizontal(t_.terms[i], line(r), Put{rows[r].out});
        }
        rows[r].written = true;
      }
    }
    for (int64_t r = 0; r < count; ++r) {
      if (!rows[r].written) std::memset(rows[r].out, 0, sizeof(float) * t_.out_w * t_.inner);
    }
  }

 private:
  float* line(int64_t r) const { return scratch_ + r * t_.line_size; }
  bool split() const { return t_.inner == 1 && t_.x_stride > 1; }

  void vertical(const FirTerm& term, Row* row, float* line) const {
    const int64_t m = t_.y_phases == 1 ? row->at : row->at / t_.y_phases;
    const FirPhase& phase = term.y[row->at - m * t_.y_phases];
    const int64_t first = phase.first + m * t_.y_stride;
    const int64_t begin = first < 0 ? -first : 0;
    const int64_t end = first + phase.count > t_.in_h ? t_.in_h - first : phase.count;
    row->any = begin < end && t_.x_begin < t_.x_end;
    if (!row->any) return;
    const WeightedSum sum{row->plane + ((first + begin) * t_.in_w + t_.x_begin) * t_.inner,
                          t_.y_places,
                          phase.weights + begin,
                          end - begin};
    const int64_t n = (t_.x_end - t_.x_begin) * t_.inner;
    const int64_t before = t_.x_begin - t_.line_first;
    if (t_.vertical_only)
      weighted<false>(sum, n, Put{row->out});
    else if (!split())
      weighted<false>(sum, n, PutInScratch{line + before * t_.inner});
    else if (t_.x_stride == 2)
      weighted<false>(sum, n, Split{line + before / 2, line + before / 2 + t_.line_pitch});
    else
      split_in_many(sum, n, line + before / t_.x_stride);
  }

  void split_in_many(const WeightedSum& sum, int64_t n, float* line) const {
    float* whole = scratch_ + t_.whole_place;
    weighted<false>(sum, n, PutInScratch{whole});
    for (int64_t p = 0; p < t_.x_stride; ++p, line += t_.line_pitch) {
      for (int64_t i = p, to = 0; i < n; i += t_.x_stride, ++to) line[to] = whole[i];
    }
  }

  WeightedSum sum_of_phase(const FirTerm& term, const float* line, int64_t phase) const {
    const FirPhase& p = term.x[phase];
    return {line, term.x_places[phase], p.weights, p.count};
  }

  template <class Sink>
  void horizontal(const FirTerm& term, const float* line, const Sink& sink) const {
    if (t_.x_phases == 1 && (t_.inner == 1 || t_.x_stride == 1))
      weighted<true>(sum_of_phase(term, line, 0), t_.out_w * t_.inner, sink);
    else if (t_.inner > 1)
      pixel_by_pixel(term, line, sink);
    else if (t_.x_phases == 2)
      from_two_phases(term, line, sink);
    else
      from_many_phases(term, line, sink);
  }

  // Channels are the innermost axis.
  template <class Sink>
  void pixel_by_pixel(const FirTerm& term, const float* line, const Sink& sink) const {
    for (int64_t o = 0; o < t_.out_w; ++o) {
      const int64_t m = o / t_.x_phases;
      WeightedSum sum = sum_of_phase(term, line, o - m * t_.x_phases);
      sum.from += m * t_.x_stride * t_.inner;
      weighted<true>(sum, t_.inner, Sink{sink.to + o * t_.inner});
    }
  }

  template <class Sink>
  void from_two_phases(const FirTerm& term, const float* line, const Sink& sink) const {
    const WeightedSum first = sum_of_phase(term, line, 0), second = sum_of_phase(term, line, 1);
    if (first.count == 2 && second.count == 2)
      interleaved<2>(first, second, t_.out_w, sink);
    else
      interleaved<0>(first, second, t_.out_w, sink);
  }

  template <class Sink>
  void from_many_phases(const FirTerm& term, const float* line, const Sink& sink) const {
    float* results = scratch_ + t_.whole_place;
    for (int64_t a = 0; a < t_.x_phases && a < t_.out_w; ++a) {
      const int64_t n = (t_.out_w - a + t_.x_phases - 1) / t_.x_phases;
      weighted<true>(sum_of_phase(term, line, a), n, PutInScratch{results});
      for (int64_t i = 0; i < n; ++i) sink.one(a + i * t_.x_phases, results[i]);
    }
  }

  const FirTask& t_;
  float* scratch_;
};

void rows(
    const FirTask& task, const float* x, float* y, float* scratch, int64_t first, int64_t last) {
  if (rows_of_four_taps(task, x, y, first, last)) return;
  const Resampler resampler(task, scratch);
  const int64_t plane = task.in_h * task.in_w * task.inner, row = task.out_w * task.inner;
  x += first / task.out_h * plane;
  y += first * row;
  int64_t at = first % task.out_h;
  while (first < last) {
    Row group[kFirLines];
    int64_t count = 0;
    for (; count < task.lines && first < last; ++count, ++first) {
      group[count] = {x, at, y, false, false};
      y += row;
      if (++at == task.out_h) {
        at = 0;
        x += plane;
      }
    }
    resampler.compute(group, count);
  }
}

}  // namespace

FirKernels fir_kernels() { return {rows}; }

}  // namespace gantrain::GANTRAIN_ISA
