// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "page/comparison.h"
#include "page/report.h"
#include "page/run_record.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

void check_run(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) fail(Exit::kInput, "{}: no such folder", folder);
  if (is_run_folder(folder)) return;
  fail(Exit::kInput,
       "{}: no run folder; it holds neither config.json, STATUS nor stats.jsonl",
       folder);
}

}  // namespace

int report_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "The page of a run, report.html, written anew; of several runs one page that compares them.",
      "gantrain report");
  std::vector<std::string> runs;
  std::string out;
  app.add_option("RUN", runs, "run folders");
  app.add_option("-o,--out", out, "the page (one run: RUN/report.html; several: compare.html)");
  if (!parse(app, arguments)) return 0;
  if (runs.empty()) fail(Exit::kUsage, "report: of which run? gantrain report RUN...");
  for (const std::string& run : runs) check_run(run);
  if (out.empty())
    out = runs.size() == 1 ? (fs::path(runs.front()) / "report.html").string() : "compare.html";
  write_file(out,
             runs.size() == 1 ? render_report(runs.front())
                              : render_comparison({runs.begin(), runs.end()}));
  fmt::print("{}\n", out);
  return 0;
}

}  // namespace gantrain
