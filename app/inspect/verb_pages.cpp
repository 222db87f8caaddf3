// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "config/message.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "page/comparison.h"
#include "page/run_page.h"
#include "page/run_record.h"
#include "serve/access.h"
#include "serve/server.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

void check_run(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) fail(Exit::kInput, "{}: no such folder", folder);
  require_run_folder(folder);
}

struct ReportRequest {
  std::vector<std::string> runs;
  std::string out;
};

template <class Field>
void fields(ReportRequest& o, Field&& field) {
  field("runs", o.runs, said("RUN"), "run folders");
  field(
      "out", o.out, said("-o,--out"), "the page (one run: RUN/report.html; several: compare.html)");
}

int run_report(ReportRequest& request, Options&) {
  const std::vector<std::string>& runs = request.runs;
  if (runs.empty()) fail(Exit::kUsage, "report: of which run? gantrain report RUN...");
  for (const std::string& run : runs) check_run(run);
  std::string out = request.out;
  if (out.empty())
    out = runs.size() == 1 ? (fs::path(runs.front()) / "report.html").string() : "compare.html";
  write_file(out,
             runs.size() == 1 ? render_run_page(runs.front())
                              : render_comparison({runs.begin(), runs.end()}));
  fmt::print("{}\n", out);
  return 0;
}

void check(const ServeOptions& options) {
  std::error_code error;
  if (options.folder.empty())
    fail(Exit::kUsage, "serve: the runs of which folder? gantrain serve RUNS");
  if (!fs::exists(options.folder, error)) fail(Exit::kInput, "{}: no such folder", options.folder);
  if (!fs::is_directory(options.folder, error))
    fail(Exit::kInput, "{}: no folder of runs, but a file", options.folder);
  if (options.port < 0 || options.port > 65535)
    fail(Exit::kUsage, "--port {}: 0 to 65535 are allowed", options.port);
  if (options.token.empty() && !is_loopback(options.host)) {
    fail(Exit::kUsage,
         "--host {} lets other machines in: --token auto or --token FILE must be given, too",
         options.host);
  }
}

int run_serve(ServeOptions& options, Options&) {
  const std::string token = options.token;
  if (token == "auto") {
    options.token = random_token();
  } else if (!token.empty()) {
    options.token = token_in(token);
  }
  check(options);
  if (token == "auto") fmt::print("token {}\n", options.token);
  call_serve(message_of(options).dump());
  return 0;
}

}  // namespace

Verb report_verb() {
  return verb_of("report",
                 "the page of a run; of several runs one that compares them",
                 "The page of a run, report.html, written anew; of several runs one page that "
                 "compares them.",
                 run_report);
}

Verb serve_verb() {
  return verb_of("serve",
                 "the runs of a folder as live pages, and metrics for Prometheus",
                 "Live pages of a folder's runs: status, verdict, pictures and curves; /metrics "
                 "for Prometheus. Ctrl-C ends it.",
                 run_serve);
}

}  // namespace gantrain
