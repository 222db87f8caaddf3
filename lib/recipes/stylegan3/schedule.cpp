// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/schedule.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain::stylegan3 {

namespace {

double real(int64_t n) { return static_cast<double>(n); }

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

// first * (last / first)^e: geometric progressions of the bandlimits.
double progress(double first, double last, double e) { return first * std::pow(last / first, e); }

// Karras et al. 2021, app. C.1: the pixels that make the layer's result `out.size` wide.
std::array<int64_t, 4> padding_of(const LayerPlan& p) {
  const auto taps = [](const std::optional<LowPass>& filter) { return filter ? filter->taps : 1; };
  const int64_t wanted = (p.out.size - 1) * p.down + 1;  // before the down-sampling
  const int64_t given = (p.in.size + p.kernel - 1) * p.up;
  const int64_t all = wanted - given + taps(p.up_filter) + taps(p.down_filter) - 2;
  const int64_t before = floor_half(all + p.up);
  return {before, all - before, before, all - before};
}

LayerPlan layer_of(const SynthesisShape& s, int64_t i, const Signal& in, const Signal& out) {
  LayerPlan p;
  p.name = fmt::format("L{}_{}_{}", i, out.size, out.channels);
  p.in = in;
  p.out = out;
  p.to_rgb = i == s.num_layers;
  p.half = std::ldexp(real(out.rate), static_cast<int>(s.num_fp16_res)) > real(s.img_resolution);
  p.kernel = p.to_rgb ? 1 : s.conv_kernel;
  const int64_t rate = std::max(in.rate, out.rate) * (p.to_rgb ? 1 : s.lrelu_upsampling);
  p.up = rate / in.rate;
  p.down = rate / out.rate;
  if (!p.to_rgb && p.up > 1)
    p.up_filter = {s.filter_size * p.up, in.cutoff, 2 * in.half_width, real(rate)};
  if (!p.to_rgb && p.down > 1)
    p.down_filter = {s.filter_size * p.down, out.cutoff, 2 * out.half_width, real(rate)};
  const bool critical = i >= s.num_layers - s.num_critical;
  p.down_is_radial = p.down_filter && s.use_radial_filters && !critical;
  p.padding = padding_of(p);
  return p;
}

}  // namespace

std::vector<Signal> signals_of(const SynthesisShape& s) {
  const double resolution = real(s.img_resolution);
  const double last_cutoff = resolution / 2;
  std::vector<Signal> all;
  for (int64_t i = 0; i <= s.num_layers; ++i) {
    const double e = std::min(real(i) / real(s.num_layers - s.num_critical), 1.0);
    Signal signal;
    signal.cutoff = progress(s.first_cutoff, last_cutoff, e);
    signal.stopband = progress(s.first_stopband, last_cutoff * s.last_stopband_rel, e);
    const double rate = std::min(2 * signal.stopband, resolution);
    signal.rate = int64_t{1} << static_cast<int>(std::ceil(std::log2(rate)));
    signal.half_width = std::max(signal.stopband, real(signal.rate) / 2) - signal.cutoff;
    signal.size = i >= s.num_layers - 1 ? s.img_resolution : signal.rate + 2 * s.margin_size;
    const double maps = std::min(real(s.channel_base) / 2 / signal.cutoff, real(s.channel_max));
    signal.channels = i == s.num_layers ? s.img_channels : std::llrint(maps);
    all.push_back(signal);
  }
  return all;
}

std::vector<LayerPlan> layers_of(const SynthesisShape& shape) {
  const std::vector<Signal> signals = signals_of(shape);
  std::vector<LayerPlan> all;
  for (size_t i = 0; i < signals.size(); ++i) {
    const Signal& in = signals[i == 0 ? 0 : i - 1];
    all.push_back(layer_of(shape, static_cast<int64_t>(i), in, signals[i]));
  }
  return all;
}

}  // namespace gantrain::stylegan3
