// SPDX-License-Identifier: Apache-2.0
// Pixel norm. A block reads its pixels twice: to sum the squares over the channels, and to
// normalise; the second time they come from the second-level cache. So reading once and writing
// once bounds it. Slices of the channels are summed by neighbouring groups of threads, for planes
// of 4 x 4 pixels alone would not fill a GPU.
#include <cmath>

#include "cuda_kernels/norms.h"
#include "cuda_kernels/norms_walk.h"

namespace gantrain::cuda_kernels {

namespace {

template <bool kGradient>
struct PixelSum {
  float squares = 0;

  GANTRAIN_BOTH void merge(const PixelSum& other) { squares += other.squares; }
};
template <>
struct PixelSum<true> {
  float squares = 0, products = 0;  // x^2, x * dout

  GANTRAIN_BOTH void merge(const PixelSum& other) {
    squares += other.squares;
    products += other.products;
  }
};

template <class T, int kPack, bool kAcross, bool kGradient>
struct PixelNormBody {
  using Walk = NormWalk<kPack, kAcross>;
  using Sum = PixelSum<kGradient>;
  static constexpr int kThreads = Walk::kThreads;

  struct Shared {
    Sum sums[kThreads * Walk::kSums];
  };
  struct Local {};

  PixelNormArguments how;
  Walk walk;

  explicit PixelNormBody(const PixelNormArguments& arguments)
      : how(arguments), walk(arguments.channels, /*most_chunks=*/1) {}

  GANTRAIN_BOTH int steps() const { return 4; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 0)
      sum(walk.part(place), shared);
    else if (number < 3)
      walk.merge(number - 1, place.thread, shared.sums);
    else
      write(walk.part(place), shared);
  }

 private:
  GANTRAIN_BOTH void sum(const typename Walk::Part& part, Shared& shared) const {
    Sum sums[Walk::kSums] = {};
    walk.each(part, [&](int64_t index) {
      float x[kPack], dout[kPack];
      load_wide<T, kPack>(how.x, index, x);
      if constexpr (kGradient) load_wide<T, kPack>(how.dout, index, dout);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        Sum& of = sums[kAcross ? j : 0];
        of.squares += x[j] * x[j];
        if constexpr (kGradient) of.products += x[j] * dout[j];
      }
    });
#pragma unroll
    for (int j = 0; j < Walk::kSums; ++j) shared.sums[walk.place_of(part) + j] = sums[j];
  }

  // With r = 1 / sqrt(mean(x^2) + eps): out = r x, dx = r dout - x r^3 mean(dout x).
  GANTRAIN_BOTH void write(const typename Walk::Part& part, const Shared& shared) const {
    float r[Walk::kSums], slope[Walk::kSums];
    const float share = 1 / static_cast<float>(walk.length);
#pragma unroll
    for (int j = 0; j < Walk::kSums; ++j) {
      const Sum& sum = shared.sums[walk.total_of(part) + j];
      r[j] = 1 / sqrtf(sum.squares * share + how.eps);
      if constexpr (kGradient) slope[j] = sum.products * share * r[j] * r[j] * r[j];
    }
    walk.each(part, [&](int64_t index) {
      float x[kPack], dout[kPack], out[kPack];
      load_wide<T, kPack>(how.x, index, x);
      if constexpr (kGradient) load_wide<T, kPack>(how.dout, index, dout);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const int s = kAcross ? j : 0;
        if constexpr (kGradient)
          out[j] = r[s] * dout[j] - slope[s] * x[j];
        else
          out[j] = r[s] * x[j];
      }
      store_rounded<T, kPack>(how.out, index, out);
    });
  }
};

}  // namespace

bool packs(const PixelNormArguments& how) {
  return how.channels.packs_fit(pack_numbers(how.type)) &&
         on_sixteen_bytes(how.x, how.dout, how.out);
}

void pixel_norm(const PixelNormArguments& how, Stream stream) {
  with_walk(how.type, how.channels, packs(how), [&](auto tag, auto pack, auto across) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto body) { launch(body, body.walk.blocks(), stream); };
    if (how.dout == nullptr)
      run(PixelNormBody<T, pack(), across(), false>(how));
    else
      run(PixelNormBody<T, pack(), across(), true>(how));
  });
}

}  // namespace gantrain::cuda_kernels
