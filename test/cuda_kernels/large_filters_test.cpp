// SPDX-License-Identifier: Apache-2.0
// Filters and warps of maps of 3 x 2^31 numbers.
#include <fmt/format.h>

#include "large_maps.h"
#include "ops/affine_warp/affine_warp_gpu.h"
#include "ops/filtered_lrelu/filtered_lrelu_gpu.h"
#include "ops/upfirdn2d/upfirdn2d_gpu.h"

using namespace gantrain;
using namespace gantrain::cuda_kernels;

namespace {

FirAxis fir_axis(int in, int up, int down, int taps) {
  return {in, (in * up + taps - 1 - taps + down) / down, up, down, (taps - 1) / 2, taps};
}

}  // namespace

TEST_CASE("FiltersOfLargeMapsReachTheirEnds") {
  std::vector<float> filter;
  for (int i = 0; i < 25; ++i) filter.push_back(0.02F * static_cast<float>(i + 1));
  struct Resampling {
    int up, down, taps;
    bool adds;
  };
  for (const Resampling& r : {Resampling{1, 1, 4, false},
                              {2, 1, 4, false},
                              {2, 1, 4, true},
                              {1, 2, 4, false},
                              {2, 1, 5, false}}) {
    for (const LargeShape& shape : kLargeShapes) {
      const bool real = shape.channels == 64;
      if ((r.taps == 5 && real) || (r.adds && (shape.order == Order::kPlanes || !real))) continue;
      const int side = shape.side / r.up;
      const FirAxis along = fir_axis(side, r.up, r.down, r.taps);
      const int64_t results = shape.channels * along.out * along.out;
      check_both_ends(fmt::format("upfirdn2d up {} down {} taps {}", r.up, r.down, r.taps),
                      {halves(shape.channels * side * side, true),
                       halves(results, false),
                       halves(results, true)},
                      [&](const LargeCall& c) {
                        upfirdn2d({Type::kFloat16,
                                   shape.order == Order::kRows,
                                   c.at(0),
                                   filter.data(),
                                   c.at(1),
                                   c.samples,
                                   shape.channels,
                                   along,
                                   along,
                                   false,
                                   1,
                                   r.adds ? c.at(2) : nullptr},
                                  nullptr);
                      });
    }
  }
}

namespace {

// Twice up and down by twelve taps, as strips know it; `last`: channels lie side by side.
FilteredLreluArguments filtered_task(const LargeCall& c, int side, int64_t channels, bool last) {
  static const std::vector<float> taps(144, 1.0F / 12);
  const int out = (side * 2 + 21 + 1 - 24) / 2 + 1;
  const auto strides = [&](int64_t rows) {
    return last ? MapStrides{channels * rows * rows, 1, rows * channels, channels}
                : MapStrides{channels * rows * rows, rows * rows, rows, 1};
  };
  FilteredLreluArguments how{};
  how.type = Type::kFloat16;
  how.x = c.at(0);
  how.out = c.at(1);
  how.x_strides = strides(side);
  how.out_strides = strides(out);
  how.samples = c.samples;
  how.channels = channels;
  how.in_h = how.in_w = side;
  how.out_h = how.out_w = out;
  how.up = how.down = 2;
  how.pad_y = how.pad_x = 9;
  how.up_filter = how.down_filter = {taps.data(), 12, 12, true};
  how.gain = 4;
  how.slope = 0.2F;
  how.clamp = 256;
  how.strips = has_strips(how);
  return how;
}

}  // namespace

TEST_CASE("FilteredLreluOfLargeMapsReachesItsEnds") {
  constexpr int kSide = 36, kOut = (kSide * 2 + 21 + 1 - 24) / 2 + 1, kMid = (kOut - 1) * 2 + 12;
  constexpr int64_t kChannels = 16;
  for (const bool strips : {true, false}) {
    for (const bool last : {true, false}) {
      if (last && !strips) continue;  // tiles know planes alone
      const int64_t slopes =
          strips ? kChannels * ((kMid + 3) / 4) * kMid : kChannels * kMid * ((kMid + 3) / 4);
      const LargeArray result = halves(kChannels * kOut * kOut, false);
      check_both_ends("filtered_lrelu",
                      {halves(kChannels * kSide * kSide, true),
                       result,
                       result,
                       {NumberKind::kBytes, slopes, false, -1}},
                      [&](const LargeCall& c) {
                        FilteredLreluArguments how = filtered_task(c, kSide, kChannels, last);
                        REQUIRE(how.strips);
                        how.strips = strips;
                        how.slopes = c.at<uint8_t>(3);
                        const auto run = [&] {
                          strips ? filtered_lrelu_strips(how, nullptr)
                                 : cuda_kernels::filtered_lrelu(how, nullptr);
                        };
                        run();
                        how.reads_slopes = true;
                        how.slope_rows = strips ? 4 * how.slope_quads() : how.mid_h();
                        how.read_columns = strips ? how.mid_w() : how.slope_columns();
                        how.out = c.at(2);
                        run();
                      });
    }
  }
}

TEST_CASE("WarpsOfLargeBatchesReachTheirEnds") {
  constexpr int kSide = 24, kChannels = 3;
  const double margins[4] = {3, 4, 5, 6};
  AffineWarpArguments how{
      Type::kFloat32, 0, kChannels, kSide, kSide, {}, nullptr, margins, nullptr, nullptr};
  for (double& tap : how.filter) tap = 1.0 / AffineWarpArguments::kTaps;
  const int64_t sampled = int64_t{kChannels} * how.out_height() * how.out_width();
  const LargeArray pictures = floats(kChannels * kSide * kSide, true),
                   back = floats(pictures.each, false);
  check_both_ends("affine_warp",
                  {pictures, floats(sampled, false), back, {NumberKind::kDoubles, 9, false, -1}},
                  [&](const LargeCall& c) {
                    const double turned[9] = {0.8, -0.6, 1, 0.6, 0.8, -2, 0, 0, 1};
                    for (const int64_t sample : {int64_t{0}, c.samples - 1})
                      std::copy(std::begin(turned), std::end(turned), c.at<double>(3) + 9 * sample);
                    AffineWarpArguments now = how;
                    now.samples = c.samples;
                    now.transforms = c.at<double>(3);
                    now.in = c.at(0);
                    now.out = c.at(1);
                    affine_warp(now, nullptr);
                    now.in = c.at(1);
                    now.out = c.at(2);
                    affine_warp_adjoint(now, nullptr);
                  });
}
