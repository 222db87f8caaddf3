// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <functional>

#include "config/value.h"
#include "page/html.h"
#include "page/run_page.h"
#include "page/run_record.h"
#include "serve/server.h"
#include "util/hash.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

// What a live page has beyond page_files(). live.js leaves open what is open, and a slider where it
// stands; a server that has ended it asks less and less often.
const EmbeddedFiles& serve_files();

namespace {

constexpr int kDeepest = 4;
// Looked at in all, and files of a folder inside: a data set may lie among the runs.
constexpr size_t kMostEntries = 200'000, kMostFiles = 5'000;

std::optional<double> seconds_of(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  const auto age = fs::file_time_type::clock::now() - time;
  return unix_seconds() - std::chrono::duration<double>(age).count();
}

// Folders in a folder that are neither hidden nor links; `seen` counts all that was looked at.
std::vector<fs::path> folders_in(const fs::path& folder, size_t most_files, size_t& seen) {
  std::vector<fs::path> folders;
  std::error_code error;
  size_t files = 0;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && seen < kMostEntries && files < most_files;
       at.increment(error), ++seen) {
    std::error_code gone;
    if (!at->is_directory(gone) || at->is_symlink(gone)) {
      ++files;
    } else if (!starts_with(at->path().filename().string(), ".")) {
      folders.push_back(at->path());
    }
  }
  return folders;
}

std::string state_of(const RunRecord& run) {
  const std::string word = run.status.substr(0, run.status.find(' '));
  if (word == "running") return run.at_work ? "running" : "dead";
  for (const char* known : {"done", "stopped", "failed", "ended"}) {
    if (word == known) return word;
  }
  return "unknown";
}

}  // namespace

std::vector<FoundRun> find_runs(const fs::path& root) {
  std::error_code error;
  if (is_run_folder(root)) {
    const fs::path whole = fs::canonical(root, error);
    return {{(error ? root : whole).filename(), root}};
  }
  std::vector<FoundRun> runs;
  std::vector<fs::path> level = {root};
  size_t seen = 0;
  for (int depth = 1; depth <= kDeepest && !level.empty(); ++depth) {
    std::vector<fs::path> deeper;
    for (const fs::path& folder : level) {
      for (const fs::path& inside :
           folders_in(folder, depth == 1 ? kMostEntries : kMostFiles, seen)) {
        if (is_run_folder(inside)) {
          runs.push_back({inside.lexically_relative(root), inside});
        } else {
          deeper.push_back(inside);
        }
      }
    }
    level = std::move(deeper);
  }
  std::ranges::sort(runs, {}, &FoundRun::name);
  return runs;
}

RunView view_of(const FoundRun& found) {
  const RunRecord run = read_run_record(found.folder);
  RunView view;
  view.name = found.name;
  view.folder = found.folder;
  view.status = run.status;
  view.state = state_of(run);
  view.verdict = judge(run).front();
  view.kimg = last_of(run.stats, "Progress/kimg");
  view.target_kimg = number_setting(run, "train.kimg");
  view.images_per_second = images_per_second(run);
  view.seconds_to_go = seconds_to_go(run);
  view.ranks = last_of(run.stats, "Progress/ranks");
  view.slowest_rank = last_of(run.stats, "Ranks/slowest");
  view.slowest_behind = last_of(run.stats, "Ranks/behind");
  view.last_tick = seconds_of(found.folder / "stats.jsonl");
  for (const auto& [name, curve] : run.stats) {
    if (starts_with(name, "Loss/") && !curve.empty())
      view.losses[name.substr(5)] = curve.back().second;
  }
  for (const auto& [name, curve] : run.metrics) {
    if (!curve.empty()) view.metrics[name] = curve.back();
  }
  return view;
}

std::string stamp_of(const fs::path& folder) {
  std::vector<fs::path> files = {folder / "STATUS", folder / "samples/latest.png"};
  for (const fs::path& path : paths_in(folder, "", "")) {
    const std::string extension = path.extension();
    if (extension == ".jsonl" || extension == ".json" || extension == ".txt") files.push_back(path);
  }
  std::ranges::sort(files);
  std::string stamp;
  for (const fs::path& file : files) {
    std::error_code missing;
    const auto time = fs::last_write_time(file, missing).time_since_epoch().count();
    const auto size = missing ? 0 : fs::file_size(file, missing);
    if (!missing) stamp += fmt::format("{:x}.{:x}-", time, size);
  }
  return fmt::format("{:016x}", hash64(stamp));  // short enough for a URL
}

namespace {

std::string or_dash(const std::optional<double>& value, const std::string& text) {
  return value ? text : "\u2013";
}

std::string last_losses(const RunView& run) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : run.losses) {
    if (ends_with(name, "/loss"))
      parts.push_back(fmt::format("{} {:.3g}", name.substr(0, name.size() - 5), value));
  }
  return parts.empty() ? "\u2013" : join(parts, ", ");
}

// A text of many words behind its first ones, to be opened.
std::string folded(const std::string& first, const std::string& all) {
  if (all.empty() || all == first) return escape_html(first);
  return "<details><summary>" + escape_html(first) + "</summary>" + escape_html(all) + "</details>";
}

std::string status_html(const RunView& run) {
  if (run.state == "dead") return folded("dead", "STATUS says \"running\"; nobody is at work");
  const std::string word = run.status.substr(0, run.status.find(' '));
  return word == "done" ? word : folded(word, run.status);  // "done 200 kimg" is another column's
}

// Each cell names its column, for narrow screens, on which a run is a block of lines.
std::string row_of(const RunView& run) {
  const std::string total = run.target_kimg ? " of " + shortest(*run.target_kimg) : "";
  std::string html = fmt::format("<tr><td><a href=\"/run/{}\">{}</a></td>",
                                 percent_encoded(run.name, "/"),
                                 escape_html(run.name));
  const auto add = [&html](const char* head, const std::string& cell) {
    html += fmt::format("<td data-head=\"{}\">{}</td>", head, cell);
  };
  add("Status", status_html(run));
  add("kimg", or_dash(run.kimg, shortest(run.kimg.value_or(0)) + total));
  add("Images/s",
      or_dash(run.images_per_second, fmt::format("{:.1f}", run.images_per_second.value_or(0))));
  add("To go", or_dash(run.seconds_to_go, short_duration(run.seconds_to_go.value_or(0))));
  add("Losses", escape_html(last_losses(run)));
  add("Verdict", folded(run.verdict.word, run.verdict.reason));
  return html + "</tr>\n";
}

}  // namespace

std::string list_html(const std::vector<RunView>& runs, const std::string& folder) {
  std::string html = "<h1>Runs</h1>\n";
  if (runs.empty()) {
    return html + "<p>There are no runs in <code>" + escape_html(folder) +
           "</code> yet: gantrain --out makes them there. This page shows them as they come.</p>\n";
  }
  html +=
      "<table class=\"runs\">\n<tr><th>Run</th><th>Status</th><th>kimg</th>"
      "<th>Images/s</th><th>To go</th><th>Losses</th><th>Verdict</th></tr>\n";
  for (const RunView& run : runs) html += row_of(run);
  return html + "</table>\n";
}

std::string web_page(const WebPage& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n"
      "<link rel=\"stylesheet\" href=\"/page.css\">\n<script src=\"/page.js\" defer></script>\n"
      "</head>\n<body>\n{}<main data-stamp=\"{}\">\n{}</main>\n</body>\n</html>\n",
      escape_html(page.title),
      page.above,
      escape_html(page.stamp),
      page.inner);
}

std::string run_header(const std::string& name,
                       bool running,
                       bool has_token,
                       const std::string& said) {
  std::string html = "<nav><a href=\"/\">all runs</a>\n";
  const std::string to = "/run/" + percent_encoded(name, "/");
  if (running && has_token) {
    html += fmt::format(
        "<form method=\"post\"><input type=\"password\" name=\"token\" placeholder=\"token\" "
        "aria-label=\"token\" autocomplete=\"off\" required>"
        "<button formaction=\"{0}/save\" title=\"a state and a model, now\">SAVE"
        "</button><button formaction=\"{0}/stop\" title=\"saves and ends the run\">STOP</button>"
        "</form>\n",
        to);
  } else if (running) {
    html += "<span>serve --token auto has buttons to save and stop here</span>\n";
  }
  if (!said.empty()) html += "<b>" + escape_html(said) + "</b>\n";
  return html + "</nav>\n";
}

std::string page_style() {
  return fmt::format("\n{}\n{}", page_files().at("style.css"), serve_files().at("live.css"));
}

std::string page_script() {
  return fmt::format("\n{}\n{}", page_files().at("script.js"), serve_files().at("live.js"));
}

namespace {

struct Sample {
  std::string label, label_value;  // beside the run's name; "": there is none
  double value = 0;
};

// Between quotes a backslash, a quote and a newline are escaped; what is no UTF-8 is replaced.
std::string escaped(const std::string& text) {
  const std::string dumped = json_line(Json(text));
  std::string out;
  for (const char c : Json::parse(dumped).get<std::string>()) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return shortest(value);
}

class Text {
 public:
  explicit Text(const std::vector<RunView>& runs) : runs_(runs) {}

  void add(const std::string& name,
           const std::string& help,
           const std::function<std::vector<Sample>(const RunView&)>& samples_of) {
    std::string lines;
    for (const RunView& run : runs_) {
      for (const Sample& sample : samples_of(run)) {
        lines += fmt::format("{}{{run=\"{}\"", name, escaped(run.name));
        if (!sample.label.empty())
          lines += fmt::format(",{}=\"{}\"", sample.label, escaped(sample.label_value));
        lines += fmt::format("}} {}\n", value_text(sample.value));
      }
    }
    if (lines.empty()) return;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} gauge\n{}", name, help, name, lines);
  }

  void add(const std::string& name,
           const std::string& help,
           std::optional<double> RunView::*value) {
    add(name, help, [value](const RunView& run) {
      return run.*value ? std::vector<Sample>{{"", "", *(run.*value)}} : std::vector<Sample>{};
    });
  }

  const std::string& str() const { return text_; }

 private:
  const std::vector<RunView>& runs_;
  std::string text_;
};

std::vector<Sample> states_of(const RunView& run) {
  std::vector<Sample> samples;
  for (const char* state : {"running", "done", "stopped", "failed", "ended", "dead", "unknown"})
    samples.push_back({"status", state, run.state == state ? 1.0 : 0.0});
  return samples;
}

}  // namespace

std::string prometheus_text(const std::vector<RunView>& runs, double now) {
  Text text(runs);
  text.add("gantrain_status", "1 for the status that the run has.", states_of);
  text.add("gantrain_verdict", "1, with the verdict on the run as a label.", [](const RunView& r) {
    return std::vector<Sample>{{"verdict", r.verdict.word, 1}};
  });
  text.add("gantrain_kimg", "Thousands of real images seen.", &RunView::kimg);
  text.add("gantrain_target_kimg", "Thousands of real images to see.", &RunView::target_kimg);
  text.add("gantrain_images_per_second",
           "Real images per second in the last ticks.",
           &RunView::images_per_second);
  text.add("gantrain_seconds_to_go", "Expected seconds to the end.", &RunView::seconds_to_go);
  text.add("gantrain_seconds_since_tick",
           "Seconds since the last line of stats.jsonl.",
           [now](const RunView& run) {
             return run.last_tick
                        ? std::vector<Sample>{{"", "", std::max(0.0, now - *run.last_tick)}}
                        : std::vector<Sample>{};
           });
  text.add("gantrain_ranks", "Ranks of an elastic run that train.", &RunView::ranks);
  text.add("gantrain_slowest_rank", "The rank that computes longest.", &RunView::slowest_rank);
  text.add("gantrain_slowest_rank_behind",
           "By which share of the other ranks' time it computes longer.",
           &RunView::slowest_behind);
  text.add("gantrain_loss", "The last tick's mean.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, value] : run.losses) samples.push_back({"loss", name, value});
    return samples;
  });
  text.add("gantrain_metric", "The last result.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, at] : run.metrics) samples.push_back({"metric", name, at.second});
    return samples;
  });
  text.add("gantrain_metric_kimg", "Where the last result was measured.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, at] : run.metrics) samples.push_back({"metric", name, at.first});
    return samples;
  });
  return text.str();
}

}  // namespace gantrain
