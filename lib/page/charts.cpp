// SPDX-License-Identifier: Apache-2.0
#include "page/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "page/html.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Pixels. The plot lies inside margins that hold the numbers.
constexpr double kWidth = 560, kHeight = 220;
constexpr double kLeft = 56, kRight = 14, kTop = 10, kBottom = 26;

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

Axes axes_of(const std::vector<ExplainedCurve>& lines) {
  Axes axes;
  for (const ExplainedCurve& line : lines) {
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
        shortest(kimg));
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

struct KnownCurve {
  std::string title, name, label, meaning;
};

// The table of known curves.
const std::vector<KnownCurve>& known_curves() {
  static const std::vector<KnownCurve> known = [] {
    std::vector<KnownCurve> rows;
    for (const auto& row : table_rows(page_files().at("curves.txt"), 4))
      rows.push_back({row[0], row[1], row[2], row[3]});
    return rows;
  }();
  return known;
}

// What the star of a pattern stands for in a name, "" for a pattern without one; nothing where the
// two do not match.
std::optional<std::string> star_of(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name ? std::optional("") : std::nullopt;
  const std::string before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size()) return std::nullopt;
  if (!starts_with(name, before) || !ends_with(name, after)) return std::nullopt;
  return name.substr(star, name.size() - before.size() - after.size());
}

std::string with_star(std::string text, const std::string& star) {
  if (const size_t at = text.find('*'); at != std::string::npos) text.replace(at, 1, star);
  return text;
}

bool is_known(const std::string& name) {
  return std::ranges::any_of(known_curves(),
                             [&](const auto& row) { return star_of(row.name, name).has_value(); });
}

// "Loss: new one" of "Loss/new_one".
std::string words_of_name(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return join(split(name, '/'), ": ");
}

// What every chart has on its horizontal axis, or nearly so.
bool is_place(const std::string& name) {
  return name == "Progress/kimg" || name == "Progress/tick" || name == "Timing/total_sec";
}

bool is_bookkeeping(const std::string& name) {
  constexpr std::array<std::string_view, 7> kGroups = {
      "Comm/", "AMP/", "Timing/", "Ranks/", "Resources/", "Gradients/", "Weights/"};
  return std::ranges::any_of(kGroups,
                             [&](std::string_view group) { return starts_with(name, group); });
}

void put(std::vector<Chart>& charts, const std::string& title, ExplainedCurve curve) {
  if (charts.empty() || charts.back().title != title)
    charts.push_back({title, {}, is_bookkeeping(curve.name)});
  charts.back().curves.push_back(std::move(curve));
}

constexpr size_t kPointsOfPage = 30'000;  // of about 15 bytes

const std::string& shown_name(const ExplainedCurve& curve) {
  return curve.label.empty() ? curve.name : curve.label;
}

size_t values_in(const Curve& curve) {
  return static_cast<size_t>(
      std::ranges::count_if(curve, [](const auto& at) { return std::isfinite(at.second); }));
}

std::string last_value(const Curve& curve) {
  if (curve.empty()) return "";
  const auto& [kimg, value] = curve.back();
  if (curve.size() == 1)
    return fmt::format(" The only value so far: {:.4g}, at {} kimg.", value, shortest(kimg));
  return fmt::format(" Last: {:.4g}.", value);
}

std::string legend_of(const Chart& chart) {
  std::string legend;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const ExplainedCurve& curve = chart.curves[i];
    legend +=
        fmt::format("<p><span class=\"key key{}\"></span><b>{}</b> {}{}{}</p>\n",
                    i % kColours,
                    escape_html(shown_name(curve)),
                    curve.label.empty() ? "" : "<code>" + escape_html(curve.name) + "</code> ",
                    escape_html(curve.meaning),
                    last_value(curve.curve));
  }
  return legend;
}

std::string figure_of(const RunRecord& run, const Chart& chart, size_t points) {
  ChartMarks marks{{}, run.resumes};
  std::vector<std::string> sentences;
  for (const HealthyBand& healthy : healthy_bands(run, chart)) {
    marks.bands.push_back(healthy.band);
    sentences.push_back(healthy.words);
  }
  return chart_figure(chart, marks, sentences, points);
}

std::string cells(const std::vector<Chart>& charts,
                  bool bookkeeping,
                  const std::function<std::string(const Chart&)>& figure_of) {
  std::string html;
  for (const Chart& chart : charts) {
    if (chart.bookkeeping == bookkeeping) html += figure_of(chart);
  }
  return html_cells(html);
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

std::string line_chart(const std::vector<ExplainedCurve>& lines,
                       const ChartMarks& marks,
                       size_t points) {
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
                       escape_html(shown_name(lines[i])));
  }
  return svg + "</svg>";
}

std::vector<Chart> charts_of(const std::map<std::string, Curve>& curves) {
  std::vector<Chart> charts;
  for (const KnownCurve& row : known_curves()) {
    for (const auto& [name, curve] : curves) {
      const auto star = star_of(row.name, name);
      if (!star) continue;
      put(charts,
          row.title,
          {name, curve, with_star(row.meaning, *star), with_star(row.label, *star)});
    }
  }
  for (const auto& [name, curve] : curves) {
    if (is_known(name) || is_place(name)) continue;
    const std::string label = words_of_name(name);
    put(charts, label, {name, curve, "Mean over each tick.", label});
  }
  return charts;
}

std::string label_of(const std::string& name) {
  for (const KnownCurve& row : known_curves()) {
    if (const auto star = star_of(row.name, name)) return with_star(row.label, *star);
  }
  return words_of_name(name);
}

size_t points_for(size_t curves) {
  return std::clamp<size_t>(kPointsOfPage / std::max<size_t>(curves, 1), 10, kMostPoints);
}

std::string chart_figure(const Chart& chart,
                         const ChartMarks& marks,
                         const std::vector<std::string>& sentences,
                         size_t points) {
  std::string html;
  if (std::ranges::any_of(chart.curves, [](const auto& one) { return values_in(one.curve) > 1; })) {
    html = line_chart(chart.curves, marks, points) + "\n<div class=\"values\"></div>\n" +
           legend_of(chart);
    for (const std::string& sentence : sentences) html += "<p>" + escape_html(sentence) + "</p>\n";
  } else {
    html = legend_of(chart);
  }
  return fmt::format("<figure>\n<h3>{}</h3>\n{}</figure>\n", escape_html(chart.title), html);
}

std::string chart_groups(const std::vector<Chart>& metrics,
                         const std::vector<Chart>& stats,
                         const std::string& bookkeeping_title,
                         const std::function<std::string(const Chart&)>& figure_of) {
  return html_section("Quality", cells(metrics, false, figure_of)) +
         html_section("Training", cells(stats, false, figure_of)) +
         html_folded(bookkeeping_title, cells(stats, true, figure_of));
}

std::string chart_sections(const RunRecord& run) {
  const size_t points = points_for(run.stats.size() + run.metrics.size());
  const std::string html =
      chart_groups(charts_of(run.metrics),
                   charts_of(run.stats),
                   "Bookkeeping: times, memory, traffic between ranks, loss scales",
                   [&](const Chart& chart) { return figure_of(run, chart, points); });
  if (html.empty()) return "";
  return html +
         "<p>Horizontal axis: kimg, thousands of real pictures shown to the discriminator. " +
         (run.resumes.empty() ? "" : "Dotted lines upright: the run was resumed there. ") +
         "Point at a chart to read its values.</p>\n";
}

}  // namespace gantrain
