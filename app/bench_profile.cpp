// SPDX-License-Identifier: Apache-2.0
#include "bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace gantrain {

namespace {

constexpr const char* kRest = "rest";  // the phase of what is outside phases

struct Row {
  double seconds = 0, forward = 0, backward = 0, calls = 0;
  std::map<std::string, double> phases;
  std::map<std::string, Row> shapes;

  void add(const OperatorTime& time, double weight, double steps) {
    const double share = time.seconds * weight / steps;
    seconds += share;
    (time.backward ? backward : forward) += share;
    phases[time.phase] += share;
    calls += time.calls / steps;
  }

  Json to_json(const std::string& name) const {
    return {{"name", name},
            {"seconds", seconds},
            {"forward", forward},
            {"backward", backward},
            {"calls", calls},
            {"phases", phases}};
  }
};

std::vector<std::pair<std::string, const Row*>> longest_first(
    const std::map<std::string, Row>& rows) {
  std::vector<std::pair<std::string, const Row*>> all;
  for (const auto& [name, row] : rows) all.emplace_back(name, &row);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second->seconds > b.second->seconds;
  });
  return all;
}

Json json_of(const std::string& name, const Row& row) {
  constexpr size_t kShapes = 8;
  Json json = row.to_json(name);
  json["shapes"] = Json::array();
  for (const auto& [shape, part] : longest_first(row.shapes)) {
    if (json["shapes"].size() < kShapes) json["shapes"].push_back(part->to_json(shape));
  }
  return json;
}

// Seconds of a mean iteration, by phase.
std::map<std::string, double> phase_seconds(const StepTimes& times) {
  const auto mean = [](const std::vector<double>& seconds) {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum / static_cast<double>(seconds.size());
  };
  std::map<std::string, double> all = {{kRest, mean(times.rest)}};
  for (const auto& [name, phase] : times.phases)
    all[name] = mean(phase.seconds) / static_cast<double>(phase.interval);
  return all;
}

void print_row(const Json& row, double total, const Json& phases, const std::string& name) {
  fmt::print("  {:<52} {:>8.3f} {:>6.1f} % {:>7.0f} {:>8.3f} {:>8.3f}",
             name,
             row.at("seconds").get<double>(),
             100 * row.at("seconds").get<double>() / total,
             row.at("calls").get<double>(),
             row.at("forward").get<double>(),
             row.at("backward").get<double>());
  for (const auto& [phase, seconds] : phases.items())
    fmt::print(" {:>8.3f}", row.at("phases").value(phase, 0.0));
  fmt::print("\n");
}

}  // namespace

Json summary_of(const StepProfile& profile) {
  const std::map<std::string, double> phases = phase_seconds(profile.times);
  std::map<std::string, Row> rows;
  Row outside;
  for (const auto& [phase, seconds] : phases) outside.phases[phase] = seconds;
  for (const OperatorTime& time : profile.operators) {
    const auto phase = profile.times.phases.find(time.phase);
    const double weight =
        phase == profile.times.phases.end() ? 1 : 1.0 / static_cast<double>(phase->second.interval);
    Row& row = rows[time.name];
    row.add(time, weight, profile.steps);
    row.shapes[time.shapes].add(time, weight, profile.steps);
    outside.phases[time.phase] -= time.seconds * weight / profile.steps;
  }
  Json summary = {{"phases", phases},
                  {"system", profile.system / profile.steps},
                  {"faults", profile.faults / profile.steps},
                  {"peak_bytes", profile.times.peak_bytes}};
  double total = 0;
  for (const auto& [phase, seconds] : phases) total += seconds;
  summary["seconds"] = total;
  for (const auto& [name, row] : longest_first(rows))
    summary["operators"].push_back(json_of(name, *row));
  for (const auto& [phase, seconds] : outside.phases) outside.seconds += seconds;
  summary["operators"].push_back(json_of("outside operators", outside));
  return summary;
}

void print_profile(const Json& summary) {
  constexpr size_t kRows = 40, kWithShapes = 16;
  const double total = summary.at("seconds");
  const Json& phases = summary.at("phases");
  fmt::print(
      "self seconds of a mean iteration; calls of an iteration with all phases; of operators "
      "within "
      "backward passes: \"backward\"; cl: channels-last, ~: other strides\n"
      "in an iteration with all phases the kernel takes {:.2f} s, and there are {:.0f} page "
      "faults; "
      "peak memory {:.0f} MB\n"
      "  {:<52} {:>8} {:>8} {:>7} {:>8} {:>8}",
      summary.at("system").get<double>(),
      summary.at("faults").get<double>(),
      summary.at("peak_bytes").get<double>() / 1e6,
      "operator",
      "self",
      "share",
      "calls",
      "forward",
      "backward");
  for (const auto& [phase, seconds] : phases.items()) fmt::print(" {:>8}", phase);
  fmt::print("\n");
  const Json& rows = summary.at("operators");
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    if (!last && (i >= kRows || rows[i].at("seconds").get<double>() < 5e-4 * total)) continue;
    print_row(rows[i], total, phases, rows[i].at("name").get<std::string>().substr(0, 52));
    if (i >= kWithShapes) continue;
    for (const Json& shape : rows[i].at("shapes")) {
      if (shape.at("seconds").get<double>() > 0.002 * total)
        print_row(shape, total, phases, "    " + shape.at("name").get<std::string>().substr(0, 48));
    }
  }
  print_row({{"seconds", total}, {"calls", 0}, {"forward", 0}, {"backward", 0}, {"phases", phases}},
            total,
            phases,
            "all");
}

}  // namespace gantrain
