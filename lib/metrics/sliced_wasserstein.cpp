// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <vector>

#include "core/parallel.h"
#include "core/random.h"
#include "core/torch.h"
#include "metrics/picture_metrics.h"
#include "util/error.h"

namespace gantrain {

namespace {

// About eight numbers a bucket: with more of them more buckets cross, and fewer would leave the
// cache.
size_t bucket_count(size_t numbers) {
  return std::clamp<size_t>(std::bit_ceil(numbers / 8 + 1), 16, 16384);
}

// Sorted places not yet passed.
struct Rest {
  std::span<const float> places;
  double first_before(double edge) const {
    return !places.empty() && places.front() < edge ? places.front() : edge;
  }
  void pass() { places = places.subspan(1); }
};

// Area over [left, right), where `ahead` more of a than of b lie before left. Takes the numbers
// before right off both rests.
double area_between(double left, double right, int64_t ahead, Rest& a, Rest& b) {
  double area = 0;
  while (true) {
    const double next_a = a.first_before(right), next_b = b.first_before(right);
    const double next = std::min(next_a, next_b);
    area += static_cast<double>(std::abs(ahead)) * (next - left);
    if (next >= right) return area;
    left = next;
    if (next_a <= next_b) {
      a.pass(), ++ahead;
    } else {
      b.pass(), --ahead;
    }
  }
}

}  // namespace

void Transport::count(std::span<const float> a, std::span<const float> b) {
  const auto put = [&](std::span<const float> numbers, int32_t Bucket::*how_many, float sign) {
    for (const float x : numbers) {
      const float at = place(x);
      const size_t k = bucket_of(at);
      ++(buckets_[k].*how_many);
      buckets_[k].net += sign * (at - static_cast<float>(k));
    }
  };
  put(a, &Bucket::a, 1);
  put(b, &Bucket::b, -1);
}

// Where one function stays ahead through a bucket, the sum of places is all that counts.
double Transport::area_outside_crossings() {
  double area = 0;
  int64_t ahead = 0;  // more of a than of b before this bucket
  for (size_t k = 0; k < buckets_.size(); ++k) {
    const Bucket& bucket = buckets_[k];
    crossing_[k] = ahead < bucket.b && -ahead < bucket.a;
    const int64_t after = ahead + bucket.a - bucket.b;
    if (!crossing_[k]) area += std::abs(static_cast<double>(after) - bucket.net);
    ahead = after;
  }
  return area;
}

// Places of the numbers that lie in crossing buckets, sorted: put bucket by bucket, then each
// bucket of a few by itself.
std::span<const float> Transport::sorted_in_crossings(std::span<const float> numbers,
                                                      int32_t Bucket::*how_many,
                                                      std::vector<float>& sorted) {
  unsorted_.resize(numbers.size() + 1);
  size_t count = 0;
  for (const float x : numbers) {  // without a branch: nobody could predict it
    unsorted_[count] = place(x);
    count += crossing_[bucket_of(unsorted_[count])];
  }
  ends_.resize(buckets_.size());
  size_t end = 0;
  for (size_t k = 0; k < buckets_.size(); ++k) {
    ends_[k] = end;
    if (crossing_[k]) end += static_cast<size_t>(buckets_[k].*how_many);
  }
  sorted.resize(count);
  for (size_t i = 0; i < count; ++i) sorted[ends_[bucket_of(unsorted_[i])]++] = unsorted_[i];
  for (size_t k = 0; k < buckets_.size(); ++k) {
    if (!crossing_[k] || buckets_[k].*how_many < 2) continue;
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(ends_[k]);
    std::sort(last - buckets_[k].*how_many, last);
  }
  return sorted;
}

double Transport::area_in_crossings(std::span<const float> a, std::span<const float> b) {
  Rest rest_a = {sorted_in_crossings(a, &Bucket::a, a_)};
  Rest rest_b = {sorted_in_crossings(b, &Bucket::b, b_)};
  double area = 0;
  int64_t ahead = 0;
  for (size_t k = 0; k < buckets_.size(); ++k) {
    const auto left = static_cast<double>(k);
    if (crossing_[k]) area += area_between(left, left + 1, ahead, rest_a, rest_b);
    ahead += buckets_[k].a - buckets_[k].b;
  }
  return area;
}

double Transport::cost(std::span<const float> a,
                       std::span<const float> b,
                       const ValueRange& range) {
  const float width = range.high - range.low;
  if (!std::isfinite(width)) return std::numeric_limits<double>::quiet_NaN();
  if (width <= 0) return 0;
  buckets_.assign(bucket_count(a.size()), Bucket{});
  crossing_.resize(buckets_.size());
  low_ = range.low;
  factor_ = static_cast<float>(buckets_.size()) / width;
  count(a, b);
  const double area = area_outside_crossings();
  return (area + area_in_crossings(a, b)) / factor_;
}

namespace {

constexpr int64_t kPatch = 7;              // pixels a side
constexpr int64_t kSmallestLevel = 16;     // least side of the smallest level
constexpr int64_t kPatchesAPicture = 128;  // the paper's, as the directions
constexpr int64_t kDirections = 4 * 128;
constexpr int64_t kDescriptorsAtOnce = 2048;     // descriptors through the normalisation
constexpr int64_t kFloatsBetween = 1 << 24;      // normalised between two looks at a stop
constexpr int64_t kProjectionsAtOnce = 1 << 23;  // floats, of each set

// One axis of the 5x5 filter: [1, 4, 6, 4, 1] / 16 along `dim` with mirrored borders (the edge is
// not repeated), every step-th value. Sums of slices: a convolution of one channel is slower.
Tensor binomial(const Tensor& x, int64_t dim, int64_t step) {
  const int64_t size = x.size(dim);
  const Tensor mirrored =
      dim == 3 ? at::reflection_pad2d(x, {2, 2, 0, 0}) : at::reflection_pad2d(x, {0, 0, 2, 2});
  const auto tap = [&](int64_t i) { return mirrored.slice(dim, i, i + size, step); };
  Tensor out = tap(0) + tap(4);
  out.add_(tap(1) + tap(3), 4);
  return out.add_(tap(2), 6).div_(16);
}

// Sum over all rows of [D, P] of the distance of sorted a and sorted b.
double sum_of_costs(const Tensor& a, const Tensor& b) {
  if (!a.is_cpu()) {
    const Tensor difference = std::get<0>(a.sort(1)) - std::get<0>(b.sort(1));
    return difference.abs_().sum(at::kDouble).item<double>();
  }
  const auto [low_a, high_a] = at::aminmax(a);
  const auto [low_b, high_b] = at::aminmax(b);
  const ValueRange range = {.low = at::minimum(low_a, low_b).item<float>(),
                            .high = at::maximum(high_a, high_b).item<float>()};
  const auto length = static_cast<size_t>(a.size(1));
  const float* first_a = a.const_data_ptr<float>();
  const float* first_b = b.const_data_ptr<float>();
  std::vector<double> costs(static_cast<size_t>(a.size(0)));
  parallel_for(0, a.size(0), 1, [&](int64_t begin, int64_t end) {
    Transport transport;
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      costs[row] =
          transport.cost({first_a + row * length, length}, {first_b + row * length, length}, range);
    }
  });
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

// Uniform centres, at least half a patch inside, for pictures first, first + 1, ...
Positions draw_positions(const Stream& stream, int64_t first, const Tensor& level, int64_t count) {
  const int64_t images = level.size(0);
  const auto width = static_cast<uint64_t>(level.size(3) - kPatch + 1);
  const auto height = static_cast<uint64_t>(level.size(2) - kPatch + 1);
  const Tensor x = at::empty({images * count}, at::kLong);
  const Tensor y = at::empty({images * count}, at::kLong);
  int64_t* x_out = x.data_ptr<int64_t>();
  int64_t* y_out = y.data_ptr<int64_t>();
  for (int64_t i = 0; i < images * count; ++i) {
    const auto sample = static_cast<uint64_t>(first + i / count);
    const auto element = static_cast<uint32_t>(2 * (i % count));
    x_out[i] = kPatch / 2 + static_cast<int64_t>(stream.below(width, sample, element));
    y_out[i] = kPatch / 2 + static_cast<int64_t>(stream.below(height, sample, element + 1));
  }
  return {x.to(level.device()), y.to(level.device())};
}

// Normal draws [F, D], one direction a sample of the stream.
Tensor draw_directions(const Stream& stream, int64_t features) {
  const Tensor rows = at::empty({kDirections, features}, at::kFloat);
  for (int64_t i = 0; i < kDirections; ++i) {
    stream.normal(rows.data_ptr<float>() + i * features, features, static_cast<uint64_t>(i));
  }
  return rows.t();
}

struct PyramidLevel {
  int64_t index = 0;
  int64_t of = 1;
};

// These numbers of pictures in a set that begins anew after its last picture.
std::vector<int64_t> repeated(std::vector<int64_t> numbers, int64_t size) {
  for (int64_t& number : numbers) number %= size;
  return numbers;
}

// Normalised descriptors [N * K, F] of one level of pictures 0 to `pictures` - 1, on all ranks.
Tensor describe(Pictures& set,
                int64_t pictures,
                const PyramidLevel& level,
                const Stream& stream,
                const SharedWork& work) {
  constexpr int64_t count = kPatchesAPicture;
  const Tensor one = set.get({0});
  Tensor all = at::empty({pictures * count, one.size(1), kPatch, kPatch},
                         at::TensorOptions().dtype(at::kFloat).device(work.device));
  // Rows of other ranks must be zero. They are cleared piece by piece, because all of them may be
  // gigabytes, which take longer than a piece of work may.
  int64_t cleared = 0;
  const auto clear_up_to = [&](int64_t end) {
    if (end > cleared) all.narrow(0, cleared, end - cleared).zero_();
    cleared = std::max(cleared, end);
  };
  share(work, {"pictures for swd", pictures, kPicturesAtOnce}, [&](const Piece& piece) {
    const Tensor some =
        set.get(repeated(piece.numbers(), set.size())).to(work.device).to(at::kFloat);
    // A band needs the level below it, not those further down.
    const int64_t levels = std::min(level.index + 2, level.of);
    const Tensor band = laplacian_pyramid(some, levels)[static_cast<size_t>(level.index)];
    const Positions centres = draw_positions(stream, piece.first, band, count);
    const int64_t first = piece.first * count, rows = piece.count * count;
    clear_up_to(first);
    all.narrow(0, first, rows).copy_(descriptors(band, centres));
    cleared = first + rows;
  });
  clear_up_to(all.size(0));
  sum_over_ranks_(work, all);
  return normalize_(all, [&](int64_t done, int64_t of) {
    work.between({.doing = "descriptors of swd", .done = done, .of = of});
  });
}

}  // namespace

Tensor pyramid_down(const Tensor& images) { return binomial(binomial(images, 3, 2), 2, 2); }

Tensor pyramid_up(const Tensor& images, int64_t height, int64_t width) {
  const Tensor spread =
      at::zeros({images.size(0), images.size(1), height, width}, images.options());
  spread.slice(2, 0, height, 2).slice(3, 0, width, 2).copy_(images);
  return binomial(binomial(spread, 3, 1), 2, 1).mul_(4);
}

std::vector<Tensor> laplacian_pyramid(const Tensor& images, int64_t levels) {
  std::vector<Tensor> pyramid = {images.to(at::kFloat)};
  for (int64_t level = 1; level < levels; ++level) {
    Tensor& finer = pyramid.back();
    const Tensor coarser = pyramid_down(finer);
    finer = finer - pyramid_up(coarser, finer.size(2), finer.size(3));
    pyramid.push_back(coarser);
  }
  return pyramid;
}

int64_t count_levels(int64_t resolution) {
  int64_t levels = 1;
  while ((resolution /= 2) >= kSmallestLevel) ++levels;
  return levels;
}

Tensor descriptors(const Tensor& level, const Positions& positions) {
  const int64_t count = positions.x.numel();
  const int64_t channels = level.size(1), height = level.size(2), width = level.size(3);
  const auto options = positions.x.options();
  // Index in the level's memory: where a patch's centre lies in its picture's first channel, and
  // how far from there each of the patch's values lies, channel before x before y.
  const Tensor picture = at::arange(count, options).div_(count / level.size(0), "floor");
  const Tensor centre = (picture * (channels * height) + positions.y) * width + positions.x;
  const Tensor step = at::arange(-(kPatch / 2), kPatch / 2 + 1, options);
  const Tensor channel = at::arange(channels, options).view({-1, 1, 1});
  const Tensor offset = (channel * height + step) * width + step.view({-1, 1});
  const Tensor index = centre.view({-1, 1}) + offset.view({1, -1});
  return level.reshape(-1).index_select(0, index.view(-1)).view({count, channels, kPatch, kPatch});
}

// In pieces that stay in the cache: this is memory traffic and little else.
Tensor normalize_(Tensor& patches, const std::function<void(int64_t, int64_t)>& between) {
  const Tensor rows = patches.view({patches.size(0), -1});  // [P, C * 49]
  const std::vector<Tensor> pieces = rows.split(kDescriptorsAtOnce);
  // [C * 49] summed over patches -> [C * 49], each value its channel's mean.
  const auto mean_of_channels = [&](const Tensor& sums) {
    const Tensor means = sums.view(patches[0].sizes()).mean({1, 2}, /*keepdim=*/true);
    return means.div(patches.size(0)).expand(patches[0].sizes()).reshape(-1);
  };
  constexpr int64_t kPasses = 3;
  int64_t done = 0, told = 0;  // floats
  const auto for_pieces = [&](const auto& work) {
    for (Tensor piece : pieces) {
      work(piece);
      done += piece.numel();
      if (!between || done - told < kFloatsBetween) continue;
      between(done, kPasses * rows.numel());
      told = done;
    }
  };
  Tensor sums = at::zeros({rows.size(1)}, rows.options().dtype(at::kDouble));
  for_pieces([&](Tensor& piece) { sums += piece.sum(0); });
  const Tensor mean = mean_of_channels(sums).to(at::kFloat);
  sums.zero_();
  for_pieces([&](Tensor& piece) { sums += piece.sub_(mean).square().sum(0); });
  // A channel that is the same everywhere becomes zeros, not NaN.
  const Tensor deviation = mean_of_channels(sums).sqrt().clamp_min(1e-12);
  const Tensor scale = deviation.reciprocal().to(at::kFloat);
  for_pieces([&](Tensor& piece) { piece.mul_(scale); });
  return rows;
}

double wasserstein(const Tensor& a,
                   const Tensor& b,
                   const Tensor& directions,
                   const SharedWork& work) {
  TORCH_CHECK(a.sizes() == b.sizes(), "wasserstein: sets of equal size");
  const Tensor unit = (directions / directions.norm(2, 0, /*keepdim=*/true)).t();
  const int64_t at_once = std::max<int64_t>(1, kProjectionsAtOnce / a.size(0));
  const Tensor memory = at::empty({2, std::min(at_once, unit.size(0)), a.size(0)}, a.options());
  const Pieces pieces = {"directions of swd", unit.size(0), at_once};
  const double sum = share_sum(work, pieces, [&](const Piece& piece) {
    const Tensor some = unit.narrow(0, piece.first, piece.count);
    Tensor on_a = memory[0].narrow(0, 0, some.size(0));
    Tensor on_b = memory[1].narrow(0, 0, some.size(0));
    at::mm_out(on_a, some, a.t());
    at::mm_out(on_b, some, b.t());
    return sum_of_costs(on_a, on_b);
  });
  return sum / static_cast<double>(unit.size(0) * a.size(0));
}

std::vector<double> swd(const PicturePair& pictures,
                        int64_t count,
                        uint64_t seed,
                        const SharedWork& work) {
  TORCH_CHECK(count > 0, "swd: no pictures");
  const at::NoGradGuard no_grad;
  const Tensor real = pictures.reals.get({0}), fake = pictures.fakes.get({0});
  TORCH_CHECK(real.sizes() == fake.sizes(), "swd: pictures of one shape");
  const int64_t side = std::min(real.size(2), real.size(3));
  if (side < kPatch) fail(Exit::kInput, "swd: needs pictures of 7x7 pixels or more, not {}", side);

  const int64_t levels = count_levels(side);
  std::vector<double> distances;
  for (int64_t i = 0; i < levels; ++i) {
    const auto draw = static_cast<uint64_t>(i);
    const PyramidLevel level = {.index = i, .of = levels};
    const auto described = [&](Pictures& set, const char* purpose) {
      return describe(set, count, level, Stream(seed, purpose, draw), work);
    };
    const Tensor a = described(pictures.reals, "swd/reals");
    const Tensor b = described(pictures.fakes, "swd/fakes");
    const Stream stream(seed, "swd/directions", draw);
    const Tensor directions = draw_directions(stream, a.size(1));
    distances.push_back(1e3 * wasserstein(a, b, directions.to(a.device()), work));
  }
  distances.push_back(std::accumulate(distances.begin(), distances.end(), 0.0) /
                      static_cast<double>(levels));
  return distances;
}

int64_t swd_bytes(int64_t count, int64_t channels) {
  const int64_t patches = count * kPatchesAPicture;
  const int64_t at_once = std::clamp<int64_t>(kProjectionsAtOnce / patches, 1, kDirections);
  constexpr int64_t kSets = 2, kFloat = sizeof(float);
  return kSets * kFloat * patches * (channels * kPatch * kPatch + at_once);
}

}  // namespace gantrain
