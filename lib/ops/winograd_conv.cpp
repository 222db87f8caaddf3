// SPDX-License-Identifier: Apache-2.0
#include "ops/winograd_conv.h"

#include "core/torch.h"
#include "ops/correlation.h"

namespace gantrain {

using at::Tensor;

namespace {

PictureView view(const Tensor& t) {
  return {t.data_ptr<float>(),
          t.size(0),
          t.size(1),
          t.size(2),
          t.size(3),
          t.stride(0),
          t.stride(1),
          t.stride(2),
          t.stride(3)};
}

// A contiguous kernel [O, I, k, k] from x to y, and from dy to dx.
KernelView from_inputs(const Tensor& w) {
  return {w.data_ptr<float>(), w.size(1), w.size(0), w.stride(1), w.stride(0), w.size(2)};
}
KernelView from_outputs(const Tensor& w) {
  return {w.data_ptr<float>(), w.size(0), w.size(1), w.stride(0), w.stride(1), w.size(2)};
}

// The form that results are written in: contiguous unless `like` is channels-last.
Tensor empty_like_layout(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().memory_format(like.suggest_memory_format()));
}
Tensor readable(const Tensor& t) { return t.contiguous(t.suggest_memory_format()); }

// With stride 2, tap k = 2 t + phase of the kernel meets input pixel 2 i + k - padding: the
// correlation of each phase of the padded input with the taps of that phase. Phases with as many
// taps along both axes form a group.
std::vector<CorrelationGroup> forward_groups(int64_t size, const ConvGeometry& how) {
  const int64_t p = how.padding;
  if (how.stride == 1) return {{{3, 3}, {{{1, -p, -p}, {1, 0, 0, false}}}}};
  std::vector<CorrelationGroup> groups;
  for (const int64_t y : {0, 1}) {
    for (const int64_t x : {0, 1}) {
      const TapCounts taps{divided_up(size - y, 2), divided_up(size - x, 2)};
      const CorrelationPart part{{2, y - p, x - p}, {2, y, x, false}};
      if (groups.empty() || !(groups.back().taps == taps)) {
        groups.push_back({taps, {part}});
      } else {
        groups.back().parts.push_back(part);
      }
    }
  }
  return groups;
}

// One phase of the input's gradient, along one axis: its pixels are 2 m + first, and with `taps`
// taps they meet the result's gradient from pixel m + origin on.
struct InputPhase {
  int64_t taps, first, origin;
};

InputPhase phase_along(int64_t phase, int64_t size, int64_t padding) {
  const int64_t shift = phase - padding;
  const int64_t first = ((shift % 2) + 2) % 2, taps = divided_up(size - phase, 2);
  return {taps, first, (first - shift) / 2 - (taps - 1)};
}

}  // namespace

bool winograd_fits(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how) {
  if (x.size() != 4 || w.size() != 4 || w[2] != w[3] || x[1] != w[1] || how.padding >= w[2])
    return false;
  const bool sizes = how.stride == 1 ? w[2] == 3 : how.stride == 2 && (w[2] == 3 || w[2] == 4);
  return sizes && x[0] > 0 && x[2] + 2 * how.padding >= w[2] && x[3] + 2 * how.padding >= w[2];
}

bool winograd_pays(at::IntArrayRef x, at::IntArrayRef w, const ConvGeometry& how) {
  if (!winograd_fits(x, w, how)) return false;
  constexpr int64_t kTiles = 24, kChannels = 24;
  const auto tiles = [&](int64_t n) { return (n + 2 * how.padding - w[2]) / how.stride + 1; };
  return tile_grid(x[0], tiles(x[2]), tiles(x[3])).tiles >= kTiles && w[0] >= kChannels &&
         w[1] >= kChannels;
}

Tensor winograd_forward(const Tensor& x_in, const Tensor& w_in, const ConvGeometry& how) {
  const Tensor x = readable(x_in), w = w_in.contiguous();
  const auto size = [&](int64_t n) { return (n + 2 * how.padding - w.size(2)) / how.stride + 1; };
  const int64_t height = size(x.size(2)), width = size(x.size(3));
  Tensor y = empty_like_layout({x.size(0), w.size(0), height, width}, x);
  const std::vector<CorrelationGroup> groups = forward_groups(w.size(2), how);
  correlate(
      view(x), groups, from_inputs(w), view(y), {1, 0, 0}, tile_grid(x.size(0), height, width));
  return y;
}

Tensor winograd_input_gradient(const Tensor& dy_in,
                               const Tensor& w_in,
                               at::IntArrayRef x,
                               const ConvGeometry& how) {
  const Tensor dy = readable(dy_in), w = w_in.contiguous();
  Tensor dx = empty_like_layout(x, dy);
  if (how.stride == 1) {
    const int64_t origin = how.padding - 2;
    const std::vector<CorrelationGroup> groups = {
        {{3, 3}, {{{1, origin, origin}, {1, 0, 0, true}}}}};
    correlate(view(dy), groups, from_outputs(w), view(dx), {1, 0, 0}, tile_grid(x[0], x[2], x[3]));
    return dx;
  }
  for (const int64_t py : {0, 1}) {
    for (const int64_t px : {0, 1}) {
      const InputPhase i = phase_along(py, w.size(2), how.padding);
      const InputPhase j = phase_along(px, w.size(3), how.padding);
      const std::vector<CorrelationGroup> groups = {
          {{i.taps, j.taps}, {{{1, i.origin, j.origin}, {2, py, px, true}}}}};
      correlate(view(dy),
                groups,
                from_outputs(w),
                view(dx),
                {2, i.first, j.first},
                tile_grid(x[0], divided_up(x[2] - i.first, 2), divided_up(x[3] - j.first, 2)));
    }
  }
  return dx;
}

Tensor winograd_weight_gradient(const Tensor& x_in,
                                const Tensor& dy_in,
                                at::IntArrayRef w,
                                const ConvGeometry& how) {
  const Tensor x = readable(x_in), dy = readable(dy_in);
  Tensor dw = at::empty(w, x.options());
  for (const CorrelationGroup& group : forward_groups(w[2], how))
    correlate_gradient(
        view(x), group, view(dy), tile_grid(x.size(0), dy.size(2), dy.size(3)), from_outputs(dw));
  return dw;
}

}  // namespace gantrain
