// SPDX-License-Identifier: Apache-2.0
#include "page/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "page/charts.h"
#include "page/html.h"
#include "page/pictures.h"
#include "page/run_page.h"
#include "page/run_record.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr size_t kPictureBytes = 2'400'000;  // of all grids together, before base64
constexpr size_t kMostPictureBytes = 450'000;

// Runs of one name are told apart by their paths.
void name_apart(std::vector<RunRecord>& runs) {
  std::map<std::string, int> count;
  for (const RunRecord& run : runs) count[run.name] += 1;
  for (RunRecord& run : runs) {
    if (count[run.name] > 1) run.name = run.folder.lexically_normal().string();
  }
}

std::vector<std::string> names_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(run.name);
  return names;
}

std::string run_table(const std::vector<RunRecord>& runs) {
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const Verdict verdict = judge(run).front();
    const auto kimg = last_of(run.stats, "Progress/kimg");
    html += fmt::format(
        "<tr><td><span class=\"key key{}\"></span>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        i % kColours,
        escape_html(run.name),
        escape_html(verdict.word + ": " + verdict.reason),
        escape_html(run.status),
        kimg ? shortest(*kimg) : "");
  }
  return html_table_of({"Run", "Verdict", "Status", "kimg"}, html);
}

std::string differences(const std::vector<RunRecord>& runs) {
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const Setting& one : run.settings) {
      if (std::find(keys.begin(), keys.end(), one.key) == keys.end()) keys.push_back(one.key);
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const RunRecord& run : runs) row.push_back(setting(run, key));
    const std::set<std::string> values(row.begin() + 1, row.end());
    if (values.size() > 1) rows.push_back(row);
  }
  if (rows.empty()) return "<p>The configurations are the same.</p>\n";
  std::vector<std::string> heads = names_of(runs);
  heads.insert(heads.begin(), "Key");
  return html_table(heads, rows);
}

std::string grids(const std::vector<RunRecord>& runs) {
  EmbeddedPictures store;
  const PictureLimits limits = {.side = 1024,
                                .bytes = std::min(kMostPictureBytes, kPictureBytes / runs.size())};
  std::string html;
  for (const RunRecord& run : runs) {
    const auto url = store.url_of(run.folder / "samples" / "latest.png", limits);
    html += grid_figure(run, run.name, "", url);
  }
  return html_cells(html);
}

using CurvesOf = std::map<std::string, Curve> RunRecord::*;

// The charts of all curves of one kind: one chart for each name, with a curve for each run that has
// it, in the run's colour. A run without it has an empty curve.
std::vector<Chart> common_charts(const std::vector<RunRecord>& runs, CurvesOf curves_of) {
  std::map<std::string, Curve> all;
  for (const RunRecord& run : runs) all.insert((run.*curves_of).begin(), (run.*curves_of).end());
  std::vector<Chart> charts;
  for (const Chart& known : charts_of(all)) {
    for (const ExplainedCurve& one : known.curves) {
      Chart chart{one.name, {}, known.bookkeeping};
      for (const RunRecord& run : runs) {
        const auto found = (run.*curves_of).find(one.name);
        const Curve curve = found == (run.*curves_of).end() ? Curve() : found->second;
        chart.curves.push_back({run.name, curve.empty() ? "Not measured." : "", curve});
      }
      charts.push_back(std::move(chart));
    }
  }
  return charts;
}

std::string curves(const std::vector<RunRecord>& runs) {
  const std::vector<Chart> metrics = common_charts(runs, &RunRecord::metrics);
  const std::vector<Chart> stats = common_charts(runs, &RunRecord::stats);
  const size_t points = points_for((metrics.size() + stats.size()) * runs.size());
  return chart_groups(metrics, stats, "Bookkeeping", [&](const Chart& chart) {
    return chart_figure(chart, {}, {}, points);
  });
}

}  // namespace

std::string render_comparison(const std::vector<fs::path>& run_folders) {
  std::vector<RunRecord> runs;
  for (const fs::path& folder : run_folders) {
    require_run_folder(folder);
    runs.push_back(read_run_record(folder));
  }
  // One that has just begun, or died early, is shown without curves.
  if (std::all_of(
          runs.begin(), runs.end(), [](const RunRecord& run) { return run.stats.empty(); })) {
    fail(
        Exit::kInput,
        "{}: stats.jsonl is missing or has no whole row, as in all of these runs: there is nothing "
        "to compare yet",
        run_folders.front().string());
  }
  name_apart(runs);
  const std::string title = fmt::format("{} runs compared", runs.size());
  std::string body = "<h1>" + title + "</h1>\n" + run_table(runs);
  body += html_section("What differs in the configuration", differences(runs));
  body += html_section("Latest pictures", grids(runs));
  body += curves(runs);
  return html_page(title, body);
}

}  // namespace gantrain
