// SPDX-License-Identifier: Apache-2.0
#include "page/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "page/chart_section.h"
#include "page/html.h"
#include "page/picture_section.h"
#include "page/run_record.h"
#include "page/summary.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr double kLeastPause = 10;  // seconds
constexpr double kShare = 50;       // a page may take 2 % of the time

// The log may lie on the same full disk.
void try_to_warn(const char* reason) {
  try {
    warn("the run's page is not up to date: {}", reason);
  } catch (const UserError&) {
    // Whoever writes next says so and ends the run; a page is no reason to.
  }
}

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

}  // namespace

std::string report_body(const RunRecord& run, EmbeddedPictures& store) {
  store.begin_page();
  std::string body = summary_html(run);
  body += ending_section(run);
  body += picture_section(run, store);
  body += chart_sections(run);
  body += incident_section(run);
  body += settings_section(run);
  body += environment_section(run);
  return body;
}

std::string render_report(const fs::path& run_folder, EmbeddedPictures& store) {
  const RunRecord run = read_run_record(run_folder);
  const std::string body = report_body(run, store);
  return html_page(judge(run).front().word + " \u00b7 " + run.name, body);
}

std::string render_report(const fs::path& run_folder) {
  EmbeddedPictures store;
  return render_report(run_folder, store);
}

void write_report(const fs::path& run_folder) {
  write_file(run_folder / "report.html", render_report(run_folder));
}

void PageWriter::write(const fs::path& run_folder) {
  try {
    write_file(run_folder / "report.html", render_report(run_folder, pictures_));
  } catch (const std::exception& e) {
    if (!warned_) try_to_warn(e.what());
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

}  // namespace gantrain
