// SPDX-License-Identifier: Apache-2.0
// Walks over maps of 3 x 2^31 numbers: activations, epilogues, norms; weights and draws.
#include "large_maps.h"

#include "ops/bias_act/bias_act_gpu.h"
#include "ops/draws/draws_gpu.h"
#include "ops/modulation/modulation_gpu.h"
#include "ops/norms/norms_gpu.h"

using namespace gantrain;
using namespace gantrain::cuda_kernels;

namespace {

// What a walk leaves of a sample's sums, added up over its parts and channels.
float sum_of_parts(const float* sums, const Parts& parts, int64_t sample) {
  const int64_t each = parts.channels * parts.parts;
  double sum = 0;
  for (int64_t i = 0; i < each; ++i) sum += sums[sample * each + i];
  return static_cast<float>(sum);
}

// Room for sums of parts; what they add up to in the first and last sample goes into `to`.
struct LargeSums {
  Parts parts;
  SparseMemory memory;
  explicit LargeSums(const Parts& shape)
      : parts(shape), memory(shape.count() * static_cast<int64_t>(sizeof(float))) {}
  float* at() const { return reinterpret_cast<float*>(memory.begin()); }
  void into(float* to) const {
    for (const int64_t sample : {int64_t{0}, parts.samples - 1})
      to[sample] = sum_of_parts(at(), parts, sample);
  }
};

}  // namespace

TEST_CASE("ActivationsOfLargeMapsReachTheirEnds") {
  const std::vector<Half> bias(64, rounded<Half>(0.25F));
  for (const LargeShape& shape : kLargeShapes) {
    const int64_t each = shape.each();
    check_both_ends(
        "bias_act",
        {halves(each, true), halves(each, false), halves(each, false), floats(1, false)},
        [&](const LargeCall& c) {
          const BiasActTask task{Type::kFloat16,
                                 shape.maps(c.samples),
                                 Activation::kLrelu,
                                 0.2,
                                 1.4,
                                 1.5,
                                 bias.data()};
          bias_act(task, c.at(0), c.at(1), nullptr);
          BiasActGradientArrays arrays{c.at(0), c.at(1), c.at(2), nullptr};
          const LargeSums sums(gradient_parts(task, arrays));
          arrays.sums = sums.at();
          bias_act_gradient(task, arrays, nullptr);
          sums.into(c.at<float>(3));
        });
  }
}

namespace {

ModulatedActTask epilogue_task(const LargeShape& shape,
                               const LargeCall& c,
                               size_t d,
                               size_t noise) {
  static const std::vector<float> bias(64, 0.25F), strength(64, 0.5F);
  return {.type = Type::kFloat16,
          .maps = shape.maps(c.samples),
          .scale = 0.5,
          .alpha = 0.2F,
          .gain = 1.4F,
          .clamp = 1.5,
          .d = c.at<float>(d),
          .noise = c.at<float>(noise),
          .noise_stride = static_cast<int64_t>(shape.side) * shape.side,
          .strength = strength.data(),
          .strength_stride = 1,
          .bias = bias.data()};
}

}  // namespace

TEST_CASE("EpiloguesOfLargeMapsReachTheirEnds") {
  for (const LargeShape& shape : kLargeShapes) {
    const int64_t each = shape.each(), pixels = each / shape.channels;
    const LargeArray given = halves(each, true), result = halves(each, false),
                     sum = floats(1, false);
    const std::vector<LargeArray> arrays = {given,  // 0: y
                                            given,  // 1: a direction or gradient
                                            floats(shape.channels, true),  // 2: d
                                            floats(pixels, true),          // 3: noise
                                            result,                        // 4: out
                                            result,                        // 5: dy
                                            sum,                           // 6
                                            result,                        // 7: by grad
                                            result,                        // 8: by y
                                            sum};                          // 9
    check_both_ends("modulated_act", arrays, [&](const LargeCall& c) {
      const ModulatedActTask task = epilogue_task(shape, c, 2, 3);
      modulated_act(task, c.at(0), c.at(4), nullptr);
      ModulatedGradientArrays first{c.at(1), c.at(4), c.at(0), c.at(5), nullptr, nullptr, nullptr};
      const LargeSums sum_y(gradient_parts(task, first)), noise(sum_y.parts), plain(sum_y.parts);
      first.sum_y = sum_y.at();
      first.sum_noise = noise.at();
      first.sum = plain.at();
      modulated_act_gradient(task, first, nullptr);
      sum_y.into(c.at<float>(6));
      ModulatedSecondArrays second{c.at(1),
                                   c.at(4),
                                   c.at(0),
                                   {c.at(0), c.at<float>(2), nullptr, nullptr},
                                   c.at(7),
                                   c.at(8),
                                   nullptr};
      const LargeSums sum_d(second_parts(task, second));
      second.sum_d = sum_d.at();
      modulated_act_second(task, second, nullptr);
      sum_d.into(c.at<float>(9));
    });
    check_both_ends("scaled_act", arrays, [&](const LargeCall& c) {
      const ModulatedActTask task = epilogue_task(shape, c, 2, 3);
      const auto* then = c.at<float>(2);
      scaled_act(task, {c.at(0), then, c.at(4), c.at(7)}, nullptr);
      ScaledGradientArrays how{
          c.at(1), c.at(7), c.at(0), then, c.at(5), nullptr, nullptr, nullptr, nullptr};
      const LargeSums sum_y(scaled_parts(task, how)), by_then(sum_y.parts);
      how.sum_y = sum_y.at();
      how.sum_then = by_then.at();
      scaled_act_gradient(task, how, nullptr);
      sum_y.into(c.at<float>(6));
      by_then.into(c.at<float>(9));
      added_act(task, {c.at(0), c.at(1), c.at(8)}, nullptr);
    });
  }
}

TEST_CASE("NormsOfLargeMapsReachTheirEnds") {
  for (const LargeShape& shape : kLargeShapes) {
    const bool last = shape.order == Order::kRows;
    const int64_t channels = shape.channels, each = shape.each(), pixels = each / channels;
    const LargeArray given = halves(each, true), result = halves(each, false);
    check_both_ends("pixel_norm", {given, given, result, result}, [&](const LargeCall& c) {
      PixelNormArguments how{Type::kFloat16,
                             last ? SummedAxis{c.samples * pixels, channels, 1}
                                  : SummedAxis{c.samples, channels, pixels},
                             c.at(0),
                             nullptr,
                             c.at(2),
                             1e-8F};
      pixel_norm(how, nullptr);
      how.dout = c.at(1);
      how.out = c.at(3);
      pixel_norm(how, nullptr);
    });
    const LargeArray of_planes = floats(channels, false), style = floats(2 * channels, true),
                     by_style = floats(2 * channels, false);
    check_both_ends("adain",
                    {given, given, result, result, of_planes, of_planes, style, by_style},
                    [&](const LargeCall& c) {
                      AdainArguments how{Type::kFloat16,
                                         last ? SummedAxis{c.samples, pixels, channels}
                                              : SummedAxis{c.samples * channels, pixels, 1},
                                         channels,
                                         c.at(0),
                                         nullptr,
                                         c.at(2),
                                         c.at<float>(6),
                                         nullptr,
                                         c.at<float>(4),
                                         c.at<float>(5),
                                         nullptr,
                                         1e-5F};
                      const SparseMemory work(adain_work(how) * 4 + 4);
                      how.work = reinterpret_cast<float*>(work.begin());
                      adain(how, nullptr);
                      how.dout = c.at(1);
                      how.out = c.at(3);
                      how.style_gradient = c.at<float>(7);
                      const SparseMemory more(adain_work(how) * 4 + 4);
                      how.work = reinterpret_cast<float*>(more.begin());
                      adain(how, nullptr);
                    });
  }
}

// Of four samples, `groups` apart from each other, the first and the last are of two groups.
TEST_CASE("GroupsOfLargeBatchesReachTheirEnds") {
  constexpr int64_t kGroup = 4, kChannels = 512, kPixels = 16;
  for (const bool last : {true, false}) {
    const LargeArray given = halves(kChannels * kPixels, true), result = halves(given.each, false),
                     wide = halves((kChannels + 1) * kPixels, false);
    check_both_ends(
        "minibatch_std",
        {given, wide, result},
        [&](const LargeCall& c) {
          MinibatchStdArguments how{Type::kFloat16,
                                    last,
                                    kGroup,
                                    c.samples / kGroup,
                                    kChannels,
                                    1,
                                    kPixels,
                                    c.at(0),
                                    nullptr,
                                    c.at(1),
                                    nullptr,
                                    1e-8F};
          const SparseMemory work(minibatch_std_work(how) * 4);
          how.work = reinterpret_cast<float*>(work.begin());
          minibatch_std(how, nullptr);
          how.dout = c.at(1);
          how.out = c.at(2);
          minibatch_std(how, nullptr);
        },
        kGroup,
        2 * kGroup);
  }
}

TEST_CASE("PlanesOfLargeWeightsReachTheirEnds") {
  for (const int64_t length : {9, 256}) {
    constexpr int64_t kRows = 64;
    const int64_t each = kRows * length;
    check_both_ends(
        "weight rows",
        {halves(each, true), halves(each, true), halves(kRows, false), halves(each, false)},
        [&](const LargeCall& c) {
          const WeightRows rows{Type::kFloat16, c.samples * kRows, length};
          row_products(rows, {c.at(0), c.at(1), c.at(2)}, nullptr);
          scaled_rows(rows, 0.5, {c.at(0), c.at(2), c.at(3)}, nullptr);
        });
  }
}

// The last sample draws what it draws alone.
TEST_CASE("DrawsOfLargeBatchesReachTheirEnds") {
  constexpr int64_t kEach = 50021, kSamples = kLargest / kEach + 1, kFirst = 3, kStride = 2;
  const int64_t key[2] = {7, 11};
  const SparseMemory large(kSamples * kEach * 4), small(2 * kEach * 4);
  const auto run = [&](int64_t first, int64_t samples, const SparseMemory& out) {
    draw({key, 0, 5, first, kStride, samples, kEach, Drawn::kNormal, out.begin()}, nullptr);
  };
  {
    const EndsOnly at_ends(kSamples);
    run(kFirst, kSamples, large);
  }
  for (const int64_t sample : {int64_t{0}, kSamples - 1}) {
    run(kFirst + sample * kStride, 1, small);
    const auto* found = reinterpret_cast<const float*>(large.begin()) + sample * kEach;
    const auto* expected = reinterpret_cast<const float*>(small.begin());
    CHECK(std::equal(expected, expected + kEach, found));
    CHECK(expected[0] != 0);
  }
}

namespace {

struct Wraps {
  static constexpr int kThreads = 32;
  const float* x;
  float* y;
  bool wraps;

  void operator()(const Place& place) const {
    const int64_t i = place.global(kThreads);
    y[i] = x[wraps ? static_cast<int64_t>(static_cast<uint32_t>(i)) : i];
  }
};

}  // namespace

// The test of the test: an offset that wraps after 2^32 numbers is found.
TEST_CASE("AnOffsetThatWrapsShows") {
  constexpr int64_t kEach = 1024;
  const std::vector<LargeArray> arrays = {floats(kEach, true), floats(kEach, false)};
  const LargeCall large = call_with(kLargest / kEach, arrays), small = call_with(2, arrays);
  for (const bool wraps : {false, true}) {
    const auto run = [&](const LargeCall& c) {
      launch(Wraps{c.at<float>(0), c.at<float>(1), wraps}, c.samples * kEach / 32, nullptr);
    };
    {
      const EndsOnly at_ends(large.samples);
      run(large);
    }
    run(small);
    CHECK((wrong_numbers(arrays[1], large, small, 1) > kEach / 2) == wraps);
  }
}
