// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/gpu/summed_axis.h"
#include "ops/norms/norms_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

// Pixel norm. A block reads its pixels twice: to sum the squares over the channels, and to
// normalise; the second time they come from the second-level cache. So reading once and writing
// once bounds it. Slices of the channels are summed by neighbouring groups of threads, for planes
// of 4 x 4 pixels alone would not fill a GPU.
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
  return how.channels.packs_fit(pack_size(how.type)) && aligned_for_packs(how.x, how.dout, how.out);
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

// Adaptive instance normalisation, in three kernels: sums over chunks of the planes, a small one
// that merges the chunks' sums of each plane in their order, and one that writes the result. Planes
// of 1024 x 1024 pixels are many chunks, so that 16 x 16 planes fill a GPU too. Reading x (and
// dout) twice and writing once bounds it.

namespace {

// Mean and sum of squares about it of some numbers. Merged as in Chan, Golub & LeVeque 1979: no
// large sums are subtracted from each other.
struct Moments {
  float count = 0, mean = 0, squares = 0;

  GANTRAIN_BOTH void merge(const Moments& other) {
    if (other.count == 0) return;
    const float sum = count + other.count, share = other.count / sum;
    const float apart = other.mean - mean;
    mean += apart * share;
    squares += other.squares + apart * apart * count * share;
    count = sum;
  }
  template <int kCount>
  GANTRAIN_BOTH void add(const float* x) {
    Moments of{kCount, 0, 0};
#pragma unroll
    for (int j = 0; j < kCount; ++j) of.mean += x[j];
    of.mean /= kCount;
#pragma unroll
    for (int j = 0; j < kCount; ++j) of.squares += (x[j] - of.mean) * (x[j] - of.mean);
    merge(of);
  }
};

// Of dout, and of dout times the normalised x.
struct GradientSums {
  float sum = 0, products = 0;

  GANTRAIN_BOTH void merge(const GradientSums& other) {
    sum += other.sum;
    products += other.products;
  }
};

// Chunks are a matter of speed: enough of them for a GPU, few enough to be merged by one thread.
constexpr int64_t kMostChunks = 128;

// Writes the sums of each chunk, [chunks, planes], to how.work.
template <class T, int kPack, bool kAcross, bool kGradient>
struct AdainSumsBody {
  using Walk = NormWalk<kPack, kAcross>;
  using Sum = std::conditional_t<kGradient, GradientSums, Moments>;
  static constexpr int kThreads = Walk::kThreads;

  struct Shared {
    Sum sums[kThreads * Walk::kSums];
  };
  struct Local {};

  AdainArguments how;
  Walk walk;

  GANTRAIN_BOTH int steps() const { return 4; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 0) {
      sum(walk.part(place), shared);
    } else if (number < 3) {
      walk.merge(number - 1, place.thread, shared.sums);
    } else {
      const auto part = walk.part(place);
      if (part.slice > 0 || part.item >= walk.items) return;
      auto* to = reinterpret_cast<Sum*>(how.work) + part.chunk * walk.sums();
#pragma unroll
      for (int j = 0; j < Walk::kSums; ++j)
        to[part.item * Walk::kSums + j] = shared.sums[walk.total_of(part) + j];
    }
  }

 private:
  GANTRAIN_BOTH void sum(const typename Walk::Part& part, Shared& shared) const {
    Sum sums[Walk::kSums] = {};
    if constexpr (kGradient)
      sum_gradient(part, sums);
    else
      sum_moments(part, sums);
#pragma unroll
    for (int j = 0; j < Walk::kSums; ++j) shared.sums[walk.place_of(part) + j] = sums[j];
  }

  GANTRAIN_BOTH void sum_moments(const typename Walk::Part& part, Moments* sums) const {
    walk.each(part, [&](int64_t index) {
      float x[kPack];
      load_wide<T, kPack>(how.x, index, x);
      if constexpr (kAcross) {
        const float share = 1 / (sums[0].count + 1);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float apart = x[j] - sums[j].mean;
          sums[j].count += 1;
          sums[j].mean += apart * share;
          sums[j].squares += apart * (x[j] - sums[j].mean);
        }
      } else {
        sums[0].template add<kPack>(x);
      }
    });
  }

  GANTRAIN_BOTH void sum_gradient(const typename Walk::Part& part, GradientSums* sums) const {
    if (part.item >= walk.items) return;
    float mean[Walk::kSums];
#pragma unroll
    for (int j = 0; j < Walk::kSums; ++j) mean[j] = how.mean[part.item * Walk::kSums + j];
    walk.each(part, [&](int64_t index) {
      float x[kPack], dout[kPack];
      load_wide<T, kPack>(how.x, index, x);
      load_wide<T, kPack>(how.dout, index, dout);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const int s = kAcross ? j : 0;
        sums[s].sum += dout[j];
        sums[s].products += dout[j] * (x[j] - mean[s]);
      }
    });
#pragma unroll
    for (int j = 0; j < Walk::kSums; ++j)
      sums[j].products *= how.inverse[part.item * Walk::kSums + j];
  }
};

// One thread a plane. Leaves what the last kernel needs of each plane in `terms`, [2, planes]: the
// means of dout and of dout times the normalised x, the latter over the deviation.
template <bool kGradient>
struct AdainMergeBody {
  using Sum = std::conditional_t<kGradient, GradientSums, Moments>;
  static constexpr int kThreads = 64;

  AdainArguments how;
  int64_t planes, chunks;
  float pixels;
  float* terms;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t plane = place.global(kThreads);
    if (plane >= planes) return;
    Sum sum{};
    for (int64_t c = 0; c < chunks; ++c)
      sum.merge(reinterpret_cast<const Sum*>(how.work)[c * planes + plane]);
    if constexpr (kGradient) {
      const int64_t sample = plane / how.channels, channel = plane - sample * how.channels;
      float* style = how.style_gradient + sample * 2 * how.channels + channel;
      style[0] = sum.products;
      style[how.channels] = sum.sum;
      terms[plane] = sum.sum / pixels;
      terms[planes + plane] = sum.products / pixels * how.inverse[plane];
    } else {
      how.mean[plane] = sum.mean;
      how.inverse[plane] = 1 / sqrtf(sum.squares / pixels + how.eps);
    }
  }
};

// With n = (x - mean) * inverse: out = n (1 + scale) + shift, dx = inverse (1 + scale) (dout -
// mean(dout) - n mean(dout n)).
template <class T, int kPack, bool kAcross, bool kGradient>
struct AdainWriteBody {
  using Walk = NormWalk<kPack, kAcross>;
  static constexpr int kThreads = Walk::kThreads;
  static constexpr int kSums = Walk::kSums;

  AdainArguments how;
  Walk walk;
  AnyDivider by_channels;
  const float* terms;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const auto part = walk.part(place);
    if (part.begin >= part.end) return;
    const int64_t plane = part.item * kSums;
    float mean[kSums], factor[kSums], shift[kSums], slope[kSums];
    read_terms(plane, mean, factor, shift, slope);
    walk.each(part, [&](int64_t index) {
      float x[kPack], dout[kPack], out[kPack];
      load_wide<T, kPack>(how.x, index, x);
      if constexpr (kGradient) load_wide<T, kPack>(how.dout, index, dout);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const int s = kAcross ? j : 0;
        const float centred = x[j] - mean[s];
        if constexpr (kGradient)
          out[j] = (dout[j] - shift[s] - centred * slope[s]) * factor[s];
        else
          out[j] = centred * factor[s] + shift[s];
      }
      store_rounded<T, kPack>(how.out, index, out);
    });
  }

 private:
  GANTRAIN_BOTH void read_terms(
      int64_t plane, float* mean, float* factor, float* shift, float* slope) const {
    const int64_t sample = by_channels.quotient(plane);
    const float* scale = how.style + plane + sample * how.channels;
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      mean[j] = how.mean[plane + j];
      factor[j] = how.inverse[plane + j] * (1 + scale[j]);
      if constexpr (kGradient) {
        shift[j] = terms[plane + j];
        slope[j] = terms[walk.sums() + plane + j];
      } else {
        shift[j] = scale[how.channels + j];
      }
    }
  }
};

template <class T, int kPack, bool kAcross, bool kGradient>
void launch_adain(const AdainArguments& how, Stream stream) {
  const NormWalk<kPack, kAcross> walk(how.pixels, kMostChunks);
  const int64_t planes = how.pixels.outer * how.pixels.inner;
  const int64_t chunks = walk.chunks.divisor;
  using Sum = std::conditional_t<kGradient, GradientSums, Moments>;
  float* terms = how.work + chunks * planes * static_cast<int64_t>(sizeof(Sum) / sizeof(float));
  launch(AdainSumsBody<T, kPack, kAcross, kGradient>{how, walk}, walk.blocks(), stream);
  using Merge = AdainMergeBody<kGradient>;
  const Merge merge{how, planes, chunks, static_cast<float>(how.pixels.length), terms};
  launch(merge, blocks_for(planes, Merge::kThreads), stream);
  const AnyDivider by_channels(how.channels == 0 ? 1 : how.channels, planes);
  launch(AdainWriteBody<T, kPack, kAcross, kGradient>{how, walk, by_channels, terms},
         walk.blocks(),
         stream);
}

}  // namespace

bool packs(const AdainArguments& how) {
  return how.pixels.packs_fit(pack_size(how.type)) && aligned_for_packs(how.x, how.dout, how.out);
}

int64_t adain_work(const AdainArguments& how) {
  constexpr int64_t kMostFloats = sizeof(Moments) / sizeof(float);
  // A chunk is of 16 pixels at least.
  const int64_t chunks = blocks_for(how.pixels.length, 16);
  const int64_t most = chunks < 1 ? 1 : chunks < kMostChunks ? chunks : kMostChunks;
  return (most * kMostFloats + 2) * how.pixels.outer * how.pixels.inner;
}

void adain(const AdainArguments& how, Stream stream) {
  with_walk(how.type, how.pixels, packs(how), [&](auto tag, auto pack, auto across) {
    using T = typename decltype(tag)::type;
    if (how.dout == nullptr)
      launch_adain<T, pack(), across(), false>(how, stream);
    else
      launch_adain<T, pack(), across(), true>(how, stream);
  });
}

}  // namespace gantrain::cuda_kernels
