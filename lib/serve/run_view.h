// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "page/verdict.h"

namespace gantrain {

// A run folder below the one that is served.
struct FoundRun {
  std::string name;  // its path below the folder, "a/b"; the folder's own name if it is the run
  std::filesystem::path folder;
};

// Returns the runs of a folder by name: itself if it is one, else those at most four levels below.
// Links and hidden folders are not followed, so that nothing outside is found.
std::vector<FoundRun> find_runs(const std::filesystem::path& root);

// What a line of the list, and the metrics for Prometheus, tell about a run.
struct RunView {
  std::string name;
  std::filesystem::path folder;
  std::string status;  // the line of STATUS
  std::string state;   // "running", "done", "stopped", "failed", "ended", "dead", "unknown"
  Verdict verdict;
  std::optional<double> kimg, target_kimg, images_per_second, seconds_to_go;
  std::optional<double> last_tick;                           // seconds since 1970
  std::map<std::string, double> losses;                      // the last ones, "G/loss"
  std::map<std::string, std::pair<double, double>> metrics;  // the last ones: kimg, value
  bool running() const { return state == "running"; }
};

RunView view_of(const FoundRun& run);

// Returns a text that changes when a file of the run does from which a page is made.
std::string stamp_of(const std::filesystem::path& run_folder);

// Percent-encodes a run's name for a path of a URL; '/' stays.
std::string url_path(const std::string& name);

// The list of runs as HTML. `folder` is what is said to have no runs where it has none.
std::string list_html(const std::vector<RunView>& runs, const std::string& folder);

// Returns a whole page around what is refreshed, `inner`. It takes style and script from the server
// (/page.css, /page.js); the script asks for `inner` anew where `stamp` is no longer up to date.
// `above` is HTML that stays.
struct WebPage {
  std::string title, above, inner, stamp;
};
std::string web_page(const WebPage& page);

// What stands above a run: the way back and, of a run at work, SAVE and STOP with a field for the
// token, or how to have them where the server has no token. `said` is shown, too.
std::string run_header(const std::string& name,
                       bool running,
                       bool has_token,
                       const std::string& said);

std::string page_style();
std::string page_script();

// Returns the runs' numbers in Prometheus' text format, version 0.0.4: one HELP and one TYPE line a
// metric, then a line for each run that has it. `now` is in seconds since 1970.
std::string prometheus_text(const std::vector<RunView>& runs, double now);

}  // namespace gantrain
