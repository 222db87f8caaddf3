// SPDX-License-Identifier: Apache-2.0
#include "page/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/html.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Pixels. The plot lies inside margins that hold the numbers.
constexpr double kWidth = 560, kHeight = 220;
constexpr double kLeft = 56, kRight = 14, kTop = 10, kBottom = 26;
constexpr size_t kColours = 8;

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Never empty: a flat curve lies in the middle.
  void widen() {
    if (low > high) *this = {0, 1};
    if (high - low > 1e-9 * std::max(std::abs(low), std::abs(high))) return;
    const double half = low == 0 ? 1 : std::abs(low) / 2;
    low -= half;
    high += half;
  }
  double share(double value) const { return (value - low) / (high - low); }
};

struct Axes {
  Extent x, y;
  double across(double kimg) const { return kLeft + (kWidth - kLeft - kRight) * x.share(kimg); }
  double down(double value) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * y.share(value);
  }
};

Axes axes_of(const std::vector<Line>& lines) {
  Axes axes;
  for (const Line& line : lines) {
    for (const auto& [kimg, value] : line.curve) {
      axes.x.include(kimg);
      axes.y.include(value);
    }
  }
  axes.x.include(0);
  axes.x.widen();
  axes.y.widen();
  return axes;
}

// Makes room for the bands that are near enough: the axis becomes at most twice as long. Returns
// those that are seen.
std::vector<Band> include_bands(const std::vector<Band>& bands, Axes& axes) {
  std::vector<Band> seen;
  for (const Band& band : bands) {
    Extent wider = axes.y;
    if (std::isfinite(band.low)) wider.include(band.low);
    if (std::isfinite(band.high) && band.low == band.high) wider.include(band.high);
    if (wider.high - wider.low > 2 * (axes.y.high - axes.y.low)) continue;
    axes.y = wider;
    seen.push_back(band);
  }
  return seen;
}

std::string bands_of(const std::vector<Band>& bands, const Axes& axes) {
  std::string out;
  for (const Band& band : bands) {
    const double top = axes.down(std::min(band.high, axes.y.high));
    const double bottom = axes.down(std::max(band.low, axes.y.low));
    if (band.low == band.high) {
      out +=
          fmt::format(R"(<path class="healthy" d="M{} {:.1f}H{}"/>)", kLeft, top, kWidth - kRight);
    } else if (bottom > top) {
      out += fmt::format(R"(<rect class="band" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>)",
                         kLeft,
                         top,
                         kWidth - kLeft - kRight,
                         bottom - top);
    }
  }
  return out;
}

std::string resumes_of(const std::vector<double>& resumes, const Axes& axes) {
  std::string out;
  for (const double kimg : resumes) {
    if (kimg < axes.x.low || kimg > axes.x.high) continue;
    out += fmt::format(
        R"(<path class="resume" d="M{:.1f} {}V{}"><title>resumed at {} kimg</title></path>)",
        axes.across(kimg),
        kTop,
        kHeight - kBottom,
        number(kimg));
  }
  return out;
}

// Returns the means of equal runs of points. A run that holds a value that is not finite has a mean
// that is not finite, so that a gap is never averaged away.
Curve thinned(const Curve& curve, size_t points) {
  const size_t run = (curve.size() + points - 1) / points;
  if (run <= 1) return curve;
  Curve out;
  for (size_t first = 0; first < curve.size(); first += run) {
    const size_t end = std::min(first + run, curve.size());
    double kimg = 0, value = 0;
    for (size_t i = first; i < end; ++i) {
      kimg += curve[i].first;
      value += curve[i].second;
    }
    const auto count = static_cast<double>(end - first);
    out.emplace_back(kimg / count, value / count);
  }
  return out;
}

// One path; "M" starts it anew after a gap. A point between two gaps is drawn as a dot (round
// caps).
std::string path_of(const Curve& curve, const Axes& axes) {
  std::string path;
  bool drawing = false;
  for (const auto& [kimg, value] : curve) {
    const bool finite = std::isfinite(value) && std::isfinite(kimg);
    if (finite) {
      path +=
          fmt::format("{}{:.1f} {:.2f}", drawing ? "L" : "M", axes.across(kimg), axes.down(value));
      if (!drawing) path += "h0";
    }
    drawing = finite;
  }
  return path;
}

std::string grid_of(const Axes& axes) {
  std::string out;
  for (const double mark : axis_marks(axes.y.low, axes.y.high, 5)) {
    const double y = axes.down(mark);
    out += fmt::format(R"(<path class="grid" d="M{} {:.1f}H{}"/>)", kLeft, y, kWidth - kRight);
    out += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                       kLeft - 6,
                       y + 4,
                       fmt::format("{:.4g}", mark));
  }
  for (const double mark : axis_marks(axes.x.low, axes.x.high, 6)) {
    out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                       axes.across(mark),
                       kHeight - 8,
                       fmt::format("{:.6g}", mark));
  }
  return out;
}

}  // namespace

std::vector<double> axis_marks(double low, double high, int count) {
  const double raw = (high - low) / count;
  if (!(raw > 0) || !std::isfinite(raw)) return {};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double digit = raw / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> marks;
  const double last = std::floor(high / step + 1e-9);
  for (double i = std::ceil(low / step - 1e-9); i <= last; ++i)
    marks.push_back(i * step + 0.0);  // no -0
  return marks;
}

std::string line_chart(const std::vector<Line>& lines, const ChartMarks& marks, size_t points) {
  Axes axes = axes_of(lines);
  const std::vector<Band> bands = include_bands(marks.bands, axes);
  std::string svg = fmt::format(
      R"(<svg viewBox="0 0 {} {}" role="img" data-x="{:.9g} {:.9g}" data-y="{:.9g} {:.9g}">)",
      static_cast<int>(kWidth),
      static_cast<int>(kHeight),
      axes.x.low,
      axes.x.high,
      axes.y.low,
      axes.y.high);
  svg += bands_of(bands, axes) + grid_of(axes) + resumes_of(marks.resumes, axes);
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += fmt::format(R"(<path class="line line{}{}" d="{}"><title>{}</title></path>)",
                       i % kColours,
                       lines[i].curve.size() == 1 ? " dot" : "",
                       path_of(thinned(lines[i].curve, points), axes),
                       escape_html(lines[i].name));
  }
  return svg + "</svg>";
}

}  // namespace gantrain
