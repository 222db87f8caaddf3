// SPDX-License-Identifier: Apache-2.0
// Sums over the pixels of a convolution's weights, and products with one factor for each of them.
// Rows are short, 9 numbers or 1, and do not begin where packs do. So a block loads the packs of
// its rows, which are one run of memory, puts the products into shared memory, and each thread adds
// up one row from there. Bandwidth bounds both kernels.
#include "ops/gpu/planes_walk.h"
#include "ops/modulation/modulation_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

constexpr int kRowsOfBlock = 128;
constexpr int kLongest = 49;  // of rows whose products fit into shared memory: 7 x 7 pixels

template <class T, int kPack>
struct ShortRowsBody {
  static constexpr int kThreads = kRowsOfBlock;
  struct Shared {
    float products[kRowsOfBlock * kLongest];
  };
  struct Local {};

  const T *a, *b;
  T* sums;
  int64_t rows;
  int length;

  GANTRAIN_BOTH int steps() const { return 2; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local& /*local*/) const {
    const int64_t first = place.block * kRowsOfBlock, left = rows - first;
    const int mine = left < kRowsOfBlock ? static_cast<int>(left) : kRowsOfBlock;
    if (number == 0)
      multiply(
          a + first * length, b + first * length, mine * length, place.thread, shared.products);
    else if (place.thread < mine)
      sums[first + place.thread] = rounded<T>(sum_of(shared.products + place.thread * length));
  }

 private:
  GANTRAIN_BOTH static void multiply(
      const T* a, const T* b, int count, int thread, float* products) {
    for (int i = thread * kPack; i < count; i += kThreads * kPack) {
      float x[kPack], y[kPack];
      load_wide(a + i, x);
      load_wide(b + i, y);
      for (int k = 0; k < kPack; ++k) products[i + k] = x[k] * y[k];
    }
  }
  GANTRAIN_BOTH float sum_of(const float* products) const {
    float sum = 0;
    for (int i = 0; i < length; ++i) sum += products[i];
    return sum;
  }
};

// Long rows, which no network of ours has: a thread adds up a row.
template <class T>
struct LongRowsBody {
  static constexpr int kThreads = 64;
  const T *a, *b;
  T* sums;
  int64_t rows, length;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t row = place.global(kThreads);
    if (row >= rows) return;
    float sum = 0;
    for (int64_t i = row * length; i < (row + 1) * length; ++i)
      sum += widened(a[i]) * widened(b[i]);
    sums[row] = rounded<T>(sum);
  }
};

template <class T, int kPack>
struct ScaledRowsBody {
  static constexpr int kThreads = 256;
  const T *w, *by;
  T* out;
  int64_t count;
  LongDivider length;
  float factor;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t at = place.global(kThreads) * kPack;
    if (at >= count) return;
    float x[kPack];
    load_wide(w + at, x);
    int64_t row = length.quotient(at), next = (row + 1) * length.divisor;
    for (int k = 0; k < kPack; ++k) {
      if (at + k == next) {
        ++row;
        next += length.divisor;
      }
      x[k] *= factor * widened(by[row]);
    }
    store_rounded(out + at, x);
  }
};

// Calls use(TypeTag<T>{}, Int<pack>{}).
template <class Use>
void with_pack(Type type, bool packed, const Use& use) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>)
      packed ? use(tag, Int<kPackSize<T>>{}) : use(tag, Int<1>{});
  });
}

template <class T>
const T* as(const void* from) {
  return static_cast<const T*>(from);
}

}  // namespace

// A block's rows begin at a multiple of 128 numbers; only the last pack of all may be cut off.
bool packed(const WeightRows& how, const RowProductsArrays& arrays) {
  return how.length <= kLongest && how.rows * how.length % pack_size(how.type) == 0 &&
         aligned_for_packs(arrays.a, arrays.b);
}

bool packed(const WeightRows& how, const ScaledRowsArrays& arrays) {
  return how.rows * how.length % pack_size(how.type) == 0 &&
         aligned_for_packs(arrays.w, arrays.out);
}

void row_products(const WeightRows& how, const RowProductsArrays& arrays, Stream stream) {
  with_pack(how.type, packed(how, arrays), [&](auto tag, auto pack) {
    using T = typename decltype(tag)::type;
    if (how.length <= kLongest) {
      const ShortRowsBody<T, pack.value> body{as<T>(arrays.a),
                                              as<T>(arrays.b),
                                              static_cast<T*>(arrays.sums),
                                              how.rows,
                                              static_cast<int>(how.length)};
      launch(body, blocks_for(how.rows, kRowsOfBlock), stream);
    } else if constexpr (pack.value == 1) {
      const LongRowsBody<T> body{
          as<T>(arrays.a), as<T>(arrays.b), static_cast<T*>(arrays.sums), how.rows, how.length};
      launch(body, blocks_for(how.rows, LongRowsBody<T>::kThreads), stream);
    }
  });
}

void scaled_rows(const WeightRows& how,
                 double factor,
                 const ScaledRowsArrays& arrays,
                 Stream stream) {
  with_pack(how.type, packed(how, arrays), [&](auto tag, auto pack) {
    using T = typename decltype(tag)::type;
    using Body = ScaledRowsBody<T, pack.value>;
    const int64_t count = how.rows * how.length;
    const Body body{as<T>(arrays.w),
                    as<T>(arrays.by),
                    static_cast<T*>(arrays.out),
                    count,
                    LongDivider(how.length),
                    static_cast<float>(factor)};
    launch(body, blocks_for(count, Body::kThreads * pack.value), stream);
  });
}

}  // namespace gantrain::cuda_kernels
