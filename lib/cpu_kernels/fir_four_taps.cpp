// SPDX-License-Identifier: Apache-2.0
#include "cpu_kernels/fir_sums.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// Lane i is the value i + Shift of three vectors side by side, counted from the middle one's first.
template <int64_t Shift, size_t... Lane>
inline Vec shifted_lanes(Vec before, Vec at, Vec after, std::index_sequence<Lane...> /*lanes*/) {
  if constexpr (Shift < 0) {
    return __builtin_shufflevector(before, at, (kLanes + Shift + static_cast<int64_t>(Lane))...);
  } else {
    return __builtin_shufflevector(at, after, (Shift + static_cast<int64_t>(Lane))...);
  }
}

// Three neighbours of a row of vectors.
struct Neighbours {
  Vec before, at, after;

  template <int64_t Shift>
  Vec shifted() const {
    if constexpr (Shift == 0) {
      return at;
    } else {
      return shifted_lanes<Shift>(before, at, after, kAllLanes);
    }
  }
  void step(Vec next) {
    before = at;
    at = after;
    after = next;
  }
};

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

bool rows_of_four_taps(const FirTask& t, const float* x, float* y, int64_t first, int64_t last) {
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

}  // namespace gantrain::GANTRAIN_ISA
