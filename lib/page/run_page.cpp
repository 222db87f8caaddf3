// SPDX-License-Identifier: Apache-2.0
#include "page/run_page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "page/charts.h"
#include "page/html.h"
#include "recipes/facts.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kRecentTicks = 5;  // by which speed is measured
constexpr size_t kRanksShown = 64;
constexpr size_t kMostOfMessage = 2000, kMostOfStack = 20'000;  // bytes

// The mean of a curve's last values.
std::optional<double> recent(const std::map<std::string, Curve>& curves, const std::string& name) {
  const Curve* curve = find_curve(curves, name);
  if (curve == nullptr) return std::nullopt;
  const size_t count = std::min(kRecentTicks, curve->size());
  double sum = 0;
  for (size_t i = curve->size() - count; i < curve->size(); ++i) sum += (*curve)[i].second;
  const double mean = sum / static_cast<double>(count);
  return std::isfinite(mean) ? std::optional(mean) : std::nullopt;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? "" : text_of(*found);
}

std::string length_text(const RunRecord& run) {
  const std::string total = setting(run, "train.kimg");
  const auto now = last_of(run.stats, "Progress/kimg");
  if (!now) return total.empty() ? "" : "0 of " + total + " kimg";
  return shortest(*now) + (total.empty() ? "" : " of " + total) + " kimg";
}

void add_speed(const RunRecord& run, Facts& facts) {
  const auto speed = images_per_second(run);
  if (speed)
    facts.emplace_back("Speed", fmt::format("{:.{}f} images/s", *speed, *speed < 10 ? 2 : 0));
  const auto left = seconds_to_go(run);
  if (left) facts.emplace_back("To go", "about " + short_duration(*left));
}

void add_metrics(const RunRecord& run, Facts& facts) {
  for (const auto& [name, curve] : run.metrics) {
    if (curve.empty() || starts_with(name, "swd/")) continue;
    facts.emplace_back(
        label_of(name),
        fmt::format("{:.4g} at {} kimg", curve.back().second, shortest(curve.back().first)));
  }
}

Facts facts_of(const RunRecord& run) {
  const std::string cells = setting(run, "data.resolution");
  const auto seconds = last_of(run.stats, "Timing/total_sec");
  const bool unheard = run.status == "running" && !run.at_work;
  Facts facts = {
      {"Status", unheard ? "running, says STATUS; nobody is at work" : run.status},
      {"Length", length_text(run)},
      {"Preset", setting(run, "preset")},
      {"Recipe", setting(run, "recipe")},
      {"Data", setting(run, "data.path")},
      {"Resolution", cells.empty() ? "" : cells + " pixels"},
      {"Classes", run.classes.empty() ? "" : std::to_string(run.classes.size())},
      {"Global batch", setting(run, "train.batch")},
      {"Ranks", text_in(run.environment, "ranks")},
      {"Device", text_in(run.environment, "device")},
      {"Host", text_in(run.environment, "host")},
  };
  add_speed(run, facts);
  if (seconds) facts.emplace_back("Time in training", short_duration(*seconds));
  add_metrics(run, facts);
  facts.emplace_back("Page written", timestamp());
  return facts;
}

const char* class_of(Judgement judgement) {
  switch (judgement) {
    case Judgement::kLearning:
      return "good";
    case Judgement::kLevelled:
    case Judgement::kNoFailure:
      return "plain";
    case Judgement::kNotImproving:
    case Judgement::kYoung:
    case Judgement::kStopped:
      return "unsure";
    default:
      return "bad";
  }
}

std::string text_or_dash(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "\u2013";
}

std::vector<std::string> row_of(const RankEnd& end) {
  const std::string code = end.signal ? "signal " + std::to_string(*end.signal)
                                      : "exit code " + text_or_dash(end.exit_code);
  return {std::to_string(end.rank) + (end.first_cause ? " (first cause)" : ""),
          end.host,
          end.phase,
          text_or_dash(end.iteration),
          end.kimg ? shortest(*end.kimg) : "\u2013",
          code,
          end.message.substr(0, kMostOfMessage)};
}

std::string rank_table(const std::vector<RankEnd>& ends) {
  if (ends.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const RankEnd& end : ends) {
    if (rows.size() < kRanksShown) rows.push_back(row_of(end));
  }
  std::string html =
      html_table({"Rank", "Host", "Phase", "Iteration", "kimg", "End", "Message"}, rows);
  if (ends.size() > kRanksShown)
    html += fmt::format("<p>{} more are in the folder errors.</p>\n", ends.size() - kRanksShown);
  return html;
}

std::string verdict_html(const Verdict& verdict) {
  const std::string definition = definition_of(verdict.rule);
  return fmt::format("<div class=\"verdict {}\"><b>{}</b>: {}<p>Rule: {}{}.</p></div>\n",
                     class_of(verdict.judgement),
                     escape_html(verdict.word),
                     escape_html(verdict.reason),
                     escape_html(verdict.rule),
                     definition.empty() ? "" : ": " + escape_html(definition));
}

std::string summary_html(const RunRecord& run) {
  std::string html = "<h1>" + escape_html(run.name) + "</h1>\n";
  for (const Verdict& verdict : judge(run)) html += verdict_html(verdict);
  return html;
}

// How the ranks of a failed run ended and the command that goes on; "" where there is nothing to
// say.
std::string ending_section(const RunRecord& run) {
  if (run.status == "running" && run.at_work) return "";
  std::string html;
  if (exit_code_of(run.status)) html += rank_table(run.ends);
  const bool failed = !html.empty();
  if (failed) {
    const RankEnd& first = run.ends.front();
    if (!first.last_state.empty())
      html += "<p>Last state: <code>" + escape_html(first.last_state) + "</code></p>\n";
    html +=
        html_folded("Stack of the crash",
                    first.stack.empty()
                        ? ""
                        : "<pre>" + escape_html(first.stack.substr(0, kMostOfStack)) + "</pre>\n");
  }
  std::string next = run.next;
  if (failed && !run.ends.front().resume.empty()) next = run.ends.front().resume;
  // It died without a word: what started it goes on.
  if (run.status == "running") next = run.command;
  if (!next.empty()) html += "<p>What can be run next:</p>\n<pre>" + escape_html(next) + "</pre>\n";
  return html_section(failed ? "How it ended" : "Next", html);
}

constexpr double kLeastPause = 10;  // seconds
constexpr double kShare = 50;       // a page may take 2 % of the time

std::string incident_section(const RunRecord& run) {
  if (run.incidents.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  int64_t errors = 0;
  for (const Incident& incident : run.incidents) {
    rows.push_back({incident.time, incident.text});
    errors += incident.is_error ? 1 : 0;
  }
  const std::string table = html_table({"Time", "Incident"}, rows);
  constexpr size_t kFew = 12;
  if (rows.size() <= kFew) return html_section("Incidents", table);
  return html_section("Incidents",
                      html_folded(fmt::format("{} lines, {} errors", rows.size(), errors), table));
}

std::string setting_rows(const RunRecord& run, bool defaults) {
  std::vector<std::vector<std::string>> rows;
  for (const Setting& one : run.settings) {
    if ((one.origin == "default") == defaults) rows.push_back({one.key, one.value, one.origin});
  }
  return rows.empty() ? "" : html_table({"Key", "Value", "Origin"}, rows);
}

std::string settings_section(const RunRecord& run) {
  std::string html;
  if (!run.command.empty()) html += "<pre>" + escape_html(run.command) + "</pre>\n";
  html += setting_rows(run, false);
  html += html_folded("Keys that have their defaults", setting_rows(run, true));
  return html_section("Configuration", html);
}

std::string environment_section(const RunRecord& run) {
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::vector<std::string>> variables;
  for (const auto& [key, value] : run.environment.items()) {
    if (!value.is_object()) {
      facts.emplace_back(key, text_of(value));
      continue;
    }
    for (const auto& [name, inner] : value.items()) variables.push_back({name, text_of(inner)});
  }
  std::string html = html_facts(facts);
  if (!variables.empty()) html += html_table({"Variable", "Value"}, variables);
  return html_section("Environment", html);
}

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

// "stopped" of "stopped 40 kimg (STOP), resumable": the verdict says the rest.
std::string state_of(const RunRecord& run) {
  if (run.status == "running" && !run.at_work) return "dead";
  return run.status.substr(0, run.status.find(' '));
}

// What the training has come to: how it was stopped is no news in a comparison.
Verdict verdict_to_compare(const RunRecord& run) {
  const std::vector<Verdict> verdicts = judge(run);
  return verdicts.front().judgement == Judgement::kStopped ? verdicts.back() : verdicts.front();
}

std::string run_table(const std::vector<RunRecord>& runs) {
  std::string html;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const Verdict verdict = verdict_to_compare(run);
    const auto kimg = last_of(run.stats, "Progress/kimg");
    html += fmt::format(
        "<tr><td><span class=\"key key{}\"></span>{}</td><td>{}</td><td class=\"short\">{}</td>"
        "<td class=\"short\">{}</td></tr>\n",
        i % kColours,
        escape_html(run.name),
        escape_html(verdict.word + ": " + verdict.reason),
        escape_html(state_of(run)),
        kimg ? shortest(*kimg) : "");
  }
  return html_table_of({"Run", "Verdict", "Status", "kimg"}, html);
}

bool has_key(const RunRecord& run, const std::string& key) {
  return std::ranges::any_of(run.settings, [&](const Setting& one) { return one.key == key; });
}

// Whether the key means something to each of the runs: to be a key of a recipe that not all of them
// train, or to be missing in one, is no difference to look at.
bool is_shared(const std::vector<RunRecord>& runs, const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  const bool of_recipe = std::ranges::any_of(
      recipe_facts(), [&](const RecipeFacts& recipe) { return recipe.name == section; });
  return std::ranges::all_of(runs, [&](const RunRecord& run) {
    return has_key(run, key) && (!of_recipe || setting(run, "recipe") == section);
  });
}

std::vector<std::string> all_keys(const std::vector<RunRecord>& runs) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const RunRecord& run : runs) {
    for (const Setting& one : run.settings) {
      if (seen.insert(one.key).second) keys.push_back(one.key);
    }
  }
  return keys;
}

std::string differences(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> shared, others;
  for (const std::string& key : all_keys(runs)) {
    std::vector<std::string> row = {key};
    for (const RunRecord& run : runs) row.push_back(setting(run, key));
    const std::set<std::string> values(row.begin() + 1, row.end());
    if (values.size() > 1) (is_shared(runs, key) ? shared : others).push_back(row);
  }
  if (shared.empty() && others.empty()) return "<p>The configurations are the same.</p>\n";
  std::vector<std::string> heads = {"Key"};
  for (const RunRecord& run : runs) heads.push_back(run.name);
  const std::string count = std::to_string(others.size()) + (others.size() == 1 ? " key" : " keys");
  return (shared.empty() ? "<p>Keys that all runs have are the same.</p>\n"
                         : html_table(heads, shared)) +
         html_folded(count + " that not all of these runs have, such as those of another recipe",
                     others.empty() ? "" : html_table(heads, others));
}

std::string grids(const std::vector<RunRecord>& runs) {
  EmbeddedPictures store;
  const PictureLimits limits = {.side = 1024,
                                .bytes = std::min(kMostPictureBytes, kPictureBytes / runs.size())};
  std::string html;
  for (const RunRecord& run : runs) {
    const auto url = store.url_of(folder_in(run.folder, "samples") / "latest.png", limits);
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
      Chart chart{label_of(one.name), {}, known.bookkeeping};
      for (const RunRecord& run : runs) {
        const auto found = (run.*curves_of).find(one.name);
        const Curve curve = found == (run.*curves_of).end() ? Curve() : found->second;
        chart.curves.push_back({run.name, curve, curve.empty() ? "Not measured." : ""});
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

std::optional<double> images_per_second(const RunRecord& run) {
  const auto seconds = recent(run.stats, "Timing/sec_per_kimg");
  return seconds && *seconds > 0 ? std::optional(1000 / *seconds) : std::nullopt;
}

std::optional<double> seconds_to_go(const RunRecord& run) {
  const auto speed = images_per_second(run);
  const auto now = last_of(run.stats, "Progress/kimg");
  const auto total = number_setting(run, "train.kimg");
  if (run.status != "running" || !run.at_work || !speed || !now || !total || *total <= *now)
    return std::nullopt;
  return (*total - *now) * 1000 / *speed;
}

std::string run_page_body(const RunRecord& run, EmbeddedPictures& store) {
  store.begin_page();
  std::string body = summary_html(run);
  // On a narrow screen facts, and what can be done next, stand behind the pictures.
  const char* ending = exit_code_of(run.status) ? "" : " class=\"next\"";
  body += fmt::format(
      "<div class=\"top\">\n<div "
      "class=\"facts\">\n{}</div>\n<div{}>\n{}</div>\n<div>\n{}</div>\n</div>\n",
      html_facts(facts_of(run)),
      ending,
      ending_section(run),
      picture_section(run, store));
  body += chart_sections(run);
  body += incident_section(run);
  body += settings_section(run);
  body += environment_section(run);
  return body;
}

std::string render_run_page(const fs::path& run_folder, EmbeddedPictures& store) {
  const RunRecord run = read_run_record(run_folder);
  const std::string body = run_page_body(run, store);
  return html_page(judge(run).front().word + " \u00b7 " + run.name, body);
}

std::string render_run_page(const fs::path& run_folder) {
  EmbeddedPictures store;
  return render_run_page(run_folder, store);
}

void write_run_page(const fs::path& run_folder) {
  write_file(run_folder / "report.html", render_run_page(run_folder));
}

void PageWriter::write(const fs::path& run_folder) {
  try {
    write_file(run_folder / "report.html", render_run_page(run_folder, pictures_));
  } catch (const std::exception& e) {
    if (!warned_) try_to_warn(fmt::format("the run's page is not up to date: {}", e.what()));
    warned_ = true;
  }
}

void PageWriter::write_if_due(const fs::path& run_folder, double now) {
  if (!is_due(now)) return;
  const double start = monotonic_seconds();
  write(run_folder);
  const double end = monotonic_seconds();
  next_ = end + std::max(kLeastPause, kShare * (end - start));
}

std::string render_comparison(const std::vector<fs::path>& run_folders) {
  std::vector<RunRecord> runs;
  for (const fs::path& folder : run_folders) {
    require_run_folder(folder);
    runs.push_back(read_run_record(folder));
  }
  // One that has just begun, or died early, is shown without curves.
  if (std::ranges::all_of(runs, [](const RunRecord& run) { return run.stats.empty(); })) {
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
