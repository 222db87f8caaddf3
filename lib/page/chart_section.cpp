// SPDX-License-Identifier: Apache-2.0
#include "page/chart_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "page/healthy.h"
#include "page/html.h"

namespace gantrain {

namespace {

constexpr size_t kPointsOfPage = 30'000;  // of about 15 bytes
constexpr size_t kColours = 8;

std::string last_value(const Curve& curve) {
  return curve.empty() ? "" : fmt::format(" Last: {:.4g}.", curve.back().second);
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

std::string cells(const RunRecord& run,
                  const std::vector<Chart>& charts,
                  bool bookkeeping,
                  size_t points) {
  std::string html;
  for (const Chart& chart : charts) {
    if (chart.bookkeeping == bookkeeping) html += figure_of(run, chart, points);
  }
  return html.empty() ? "" : "<div class=\"cells\">\n" + html + "</div>\n";
}

}  // namespace

size_t points_for(size_t curves) {
  return std::clamp<size_t>(kPointsOfPage / std::max<size_t>(curves, 1), 10, kMostPoints);
}

std::string chart_figure(const Chart& chart,
                         const ChartMarks& marks,
                         const std::vector<std::string>& sentences,
                         size_t points) {
  std::vector<Line> lines;
  std::string legend;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const ExplainedCurve& curve = chart.curves[i];
    lines.push_back({curve.name, curve.curve});
    legend += fmt::format("<p><span class=\"key key{}\"></span><b>{}</b> {}{}</p>\n",
                          i % kColours,
                          escape_html(curve.name),
                          escape_html(curve.meaning),
                          last_value(curve.curve));
  }
  for (const std::string& sentence : sentences) legend += "<p>" + escape_html(sentence) + "</p>\n";
  return fmt::format("<figure>\n<h3>{}</h3>\n{}\n<div class=\"values\"></div>\n{}</figure>\n",
                     escape_html(chart.title),
                     line_chart(lines, marks, points),
                     legend);
}

std::string chart_sections(const RunRecord& run) {
  const size_t points = points_for(run.stats.size() + run.metrics.size());
  const std::vector<Chart> metrics = charts_of(run.metrics);
  const std::vector<Chart> stats = charts_of(run.stats);
  std::string html = html_section("Quality", cells(run, metrics, false, points));
  html += html_section("Training", cells(run, stats, false, points));
  const std::string bookkeeping = cells(run, stats, true, points);
  html +=
      html_folded("Bookkeeping: times, memory, traffic between ranks, loss scales", bookkeeping);
  if (html.empty()) return "";
  return html +
         "<p>Horizontal axis: kimg, thousands of real pictures shown to the discriminator. " +
         (run.resumes.empty() ? "" : "Dotted lines upright: the run was resumed there. ") +
         "Point at a chart to read its values.</p>\n";
}

}  // namespace gantrain
