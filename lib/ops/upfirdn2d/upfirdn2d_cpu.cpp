// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d_cpu.h"

#include "ops/vector/vector.h"

// Weighted sums of places in memory, vector by vector, and the two ways of FirKernels::rows.
namespace gantrain::GANTRAIN_ISA {

// The sum over j < count of weights[j] * (from + places[j])[i], for i < n.
struct WeightedSum {
  const float* from;
  const int64_t* places;
  const float* weights;
  int64_t count;
};

// A WeightedSum of kCount terms, or of any number if that is 0, with all that does not depend on
// the place read beforehand.
template <int kCount>
class Weighted {
 public:
  explicit Weighted(const WeightedSum& sum) {
    for (int j = 0; j < kCount; ++j) {
      from_[j] = sum.from + sum.places[j];
      weight_[j] = all(sum.weights[j]);
    }
  }

  void pair(int64_t i, Vec* a, Vec* b) const {
    *a = (*this)(i, load);
    *b = (*this)(i + kLanes, load);
  }

  // The sums of kLanes places from i on, each array read by take(address).
  template <class Take>
  Vec operator()(int64_t i, const Take& take) const {
    Vec v = weight_[0] * take(from_[0] + i);
    for (int j = 1; j < kCount; ++j) v += weight_[j] * take(from_[j] + i);
    return v;
  }

 private:
  const float* from_[kCount];
  Vec weight_[kCount];
};
template <>
class Weighted<0> {
 public:
  explicit Weighted(const WeightedSum& sum) : sum_(sum) {}

  void pair(int64_t i, Vec* a, Vec* b) const {
    Vec first{}, second{};
    for (int64_t j = 0; j < sum_.count; ++j) {
      const float* from = sum_.from + sum_.places[j] + i;
      const Vec weight = all(sum_.weights[j]);
      first += weight * load(from);
      second += weight * load(from + kLanes);
    }
    *a = first;
    *b = second;
  }

  template <class Take>
  Vec operator()(int64_t i, const Take& take) const {
    Vec v{};
    for (int64_t j = 0; j < sum_.count; ++j) {
      v += all(sum_.weights[j]) * take(sum_.from + sum_.places[j] + i);
    }
    return v;
  }

 private:
  const WeightedSum sum_;
};

namespace {

// The vertical filter's results of one row of the output, by vectors; zeros right of the picture.
template <class Sums>
struct Columns {
  const Sums& sums;
  int64_t width;

  Vec operator()(int64_t k) const {
    const int64_t i = k * kLanes, left = width - i;
    if (left >= kLanes) return sums(i, load);
    if (left <= 0) return Vec{};
    return sums(i, [left](const float* from) { return load_some(from, left); });
  }
};

// The horizontal filters. first: the input column of the first tap for output column 0.
struct Taps {
  Vec w[4];
  explicit Taps(const FirPhase& phase) {
    for (int64_t j = 0; j < 4; ++j) w[j] = j < phase.count ? all(phase.weights[j]) : Vec{};
  }
};

template <int64_t First>
struct Same {
  const Taps taps;
  explicit Same(const FirTerm& term) : taps(term.x[0]) {}

  template <class V>
  void row(const V& columns, float* out, int64_t out_w) const {
    Neighbours n{Vec{}, columns(0), columns(1)};
    for (int64_t k = 0; k * kLanes < out_w; ++k, n.step(columns(k + 1))) {
      Vec v = taps.w[0] * n.template shifted<First>();
      v += taps.w[1] * n.template shifted<First + 1>();
      v += taps.w[2] * n.template shifted<First + 2>();
      v += taps.w[3] * n.template shifted<First + 3>();
      store_within(out + k * kLanes, v, out_w - k * kLanes);
    }
  }
};

// Every second output alone: even and odd columns in vectors of their own.
template <int64_t First>
struct Halved {
  const Taps taps;
  explicit Halved(const FirTerm& term) : taps(term.x[0]) {}

  template <int64_t Column>
  static Vec from(const Neighbours& even, const Neighbours& odd) {
    constexpr int64_t kHalf = (Column - (Column & 1)) / 2;
    return (Column & 1) != 0 ? odd.shifted<kHalf>() : even.shifted<kHalf>();
  }

  template <class V>
  void row(const V& columns, float* out, int64_t out_w) const {
    Neighbours even{}, odd{};
    const auto step = [&](int64_t k) {
      const Vec a = columns(2 * k), b = columns(2 * k + 1);
      even.step(every_second<0>(a, b, kAllLanes));
      odd.step(every_second<1>(a, b, kAllLanes));
    };
    step(0);
    for (int64_t k = 0; k * kLanes < out_w; ++k) {
      step(k + 1);
      Vec v = taps.w[0] * from<First>(even, odd);
      v += taps.w[1] * from<First + 1>(even, odd);
      v += taps.w[2] * from<First + 2>(even, odd);
      v += taps.w[3] * from<First + 3>(even, odd);
      store_within(out + k * kLanes, v, out_w - k * kLanes);
    }
  }
};

// Two outputs for each input, with two taps each.
template <int64_t First, int64_t Second>
struct Doubled {
  const Taps even, odd;
  explicit Doubled(const FirTerm& term) : even(term.x[0]), odd(term.x[1]) {}

  template <class V>
  void row(const V& columns, float* out, int64_t out_w) const {
    Neighbours n{Vec{}, columns(0), columns(1)};
    for (int64_t k = 0; 2 * k * kLanes < out_w; ++k, n.step(columns(k + 1))) {
      Vec a = even.w[0] * n.template shifted<First>();
      a += even.w[1] * n.template shifted<First + 1>();
      Vec b = odd.w[0] * n.template shifted<Second>();
      b += odd.w[1] * n.template shifted<Second + 1>();
      const int64_t room = out_w - 2 * k * kLanes;
      store_within(out + 2 * k * kLanes, by_turns<0>(a, b, kAllLanes), room);
      store_within(
          out + (2 * k + 1) * kLanes, by_turns<kLanes / 2>(a, b, kAllLanes), room - kLanes);
    }
  }
};

template <int kCount, class Filter>
void all_rows(const FirTask& t, const float* x, float* y, int64_t first, int64_t last) {
  const Filter filter(t.terms[0]);
  for (int64_t r = first; r < last; ++r) {
    const int64_t plane = r / t.out_h, at = r - plane * t.out_h;
    const int64_t m = at / t.y_phases;
    const FirPhase& phase = t.terms[0].y[at - m * t.y_phases];
    const int64_t top = phase.first + m * t.y_stride;
    const int64_t begin = most(0, -top), end = least(phase.count, t.in_h - top);
    const float* from = x + (plane * t.in_h + top + begin) * t.in_w;
    float* out = y + r * t.out_w;
    if (begin >= end) {
      std::memset(out, 0, sizeof(float) * static_cast<size_t>(t.out_w));
      continue;
    }
    const WeightedSum sum{from, t.y_places, phase.weights + begin, end - begin};
    if (sum.count == kCount) {
      const Weighted<kCount> sums(sum);
      filter.row(Columns<Weighted<kCount>>{sums, t.in_w}, out, t.out_w);
    } else {
      const Weighted<0> sums(sum);
      filter.row(Columns<Weighted<0>>{sums, t.in_w}, out, t.out_w);
    }
  }
}

// Calls visit.operator()<n>() for the n in [Least, Least + 3] that is `number`; false if none is.
template <int64_t Least, class Visit>
bool with_number(int64_t number, const Visit& visit) {
  if (number == Least) visit.template operator()<Least>();
  if (number == Least + 1) visit.template operator()<Least + 1>();
  if (number == Least + 2) visit.template operator()<Least + 2>();
  if (number == Least + 3) visit.template operator()<Least + 3>();
  return number >= Least && number <= Least + 3;
}

bool all_have(const FirPhase* phases, int64_t count, int64_t taps) {
  for (int64_t i = 0; i < count; ++i) {
    if (phases[i].count != taps) return false;
  }
  return true;
}

}  // namespace

// FirKernels::rows for one filter of four taps along each axis at a stride of 1, at a stride of 2,
// or between pixels of an enlargement by 2, channels not innermost: all but the pixels stays in
// registers. Returns false, and does nothing, for other tasks.
[[gnu::noinline]] bool rows_of_four_taps(
    const FirTask& t, const float* x, float* y, int64_t first, int64_t last) {
  const bool square = t.y_phases == t.x_phases && t.y_stride == t.x_stride;
  if (!square || t.inner != 1 || t.term_count != 1 || t.vertical_only) return false;
  const FirTerm& term = t.terms[0];
  const int64_t phases = t.x_phases, stride = t.x_stride;
  if (phases * stride > 2 || !all_have(term.x, phases, 4 / phases) ||
      !all_have(term.y, phases, 4 / phases))
    return false;
  if (stride == 2)
    return with_number<-3>(term.x[0].first, [&]<int64_t First>() {
      all_rows<4, Halved<First>>(t, x, y, first, last);
    });
  if (phases == 1)
    return with_number<-3>(
        term.x[0].first, [&]<int64_t First>() { all_rows<4, Same<First>>(t, x, y, first, last); });
  const int64_t more = term.x[1].first - term.x[0].first;
  return (more == 0 || more == 1) && with_number<-2>(term.x[0].first, [&]<int64_t First>() {
           if (more == 0) {
             all_rows<2, Doubled<First, First>>(t, x, y, first, last);
           } else {
             all_rows<2, Doubled<First, First + 1>>(t, x, y, first, last);
           }
         });
}

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
  const bool few =
      with_number<1>(sum.count, [&]<int64_t Count>() { weighted<Count, kSlack>(sum, n, sink); });
  if (!few) weighted<0, kSlack>(sum, n, sink);
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
