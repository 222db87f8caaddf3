// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_table.h"

#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const MetricRow& row : metric_table()) names.push_back(row.name);
  return names;
}

const MetricRow* find_row(const std::string& name) {
  for (const MetricRow& row : metric_table()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace

const std::vector<MetricRow>& metric_table() {
  static const std::vector<MetricRow> table = [] {
    std::vector<MetricRow> rows;
    for (const auto& row : table_rows(metric_files().at("metrics.txt"), 4)) {
      const auto is = [words = split(row[2], ' ')](const char* word) {
        return contains(words, word);
      };
      rows.push_back({.name = row[0],
                      .help = row[3],
                      .key = row[1],
                      .lower_is_better = is("lower"),
                      .needs_reals = is("reals"),
                      .needs_detector = is("detector"),
                      .needs_lite0 = is("lite0"),
                      .needs_generator = is("generator"),
                      .needs_shapes = is("shapes"),
                      .needs_attributes = is("attributes"),
                      .needs_rows = is("rows")});
    }
    return rows;
  }();
  return table;
}

const MetricRow& find_metric(const std::string& name) {
  if (const MetricRow* row = find_row(name)) return *row;
  const std::vector<std::string> known = known_names();
  fail(Exit::kUsage,
       "{} is not a metric (there are {}){}",
       name,
       join(known, ", "),
       did_you_mean(name, known));
}

std::vector<std::string> parse_metrics(const std::string& where, const std::string& text) {
  std::vector<std::string> names;
  if (trim(text).empty() || trim(text) == "none") return names;
  for (const std::string& part : split(text, ',')) {
    const std::string name = trim(part);
    if (find_row(name) == nullptr) {
      const std::vector<std::string> known = known_names();
      fail(Exit::kUsage,
           "{} = {}: {} is not a metric (there are {}, none){}",
           where,
           text,
           name.empty() ? "\"\"" : name,
           join(known, ", "),
           did_you_mean(name, known));
    }
    if (!contains(names, name)) names.push_back(name);
  }
  return names;
}

void check_metrics(const std::vector<std::string>& names, const MetricGround& ground) {
  for (const std::string& name : names) {
    const MetricRow& row = find_metric(name);
    if (row.needs_detector && !ground.detector) {
      fail(
          Exit::kUsage,
          "{} needs a network that looks at pictures: --detector FILE, TorchScript; the public one "
          "is inception-2015-12-05.pt of StyleGAN2-ADA ({} help metrics); without a "
          "file there are swd, msssim and diversity",
          name,
          program());
    }
    if (row.needs_lite0 && !ground.lite0) {
      fail(
          Exit::kUsage,
          "{} needs the weights of EfficientNet-Lite0: --lite0 FILE ({} features says where to get "
          "it)",
          name,
          program());
    }
    if (row.needs_reals && !ground.reals)
      fail(Exit::kUsage, "{} compares with real pictures: --data PATH", name);
    if (row.needs_generator && !ground.generator)
      fail(Exit::kUsage, "{} needs the generator itself: give a run or a model file", name);
    if (row.needs_shapes && !ground.shapes)
      fail(Exit::kUsage, "{} counts the shapes of --data synth:shapes; this is other data", name);
    if (row.needs_attributes && !ground.attributes) {
      fail(Exit::kUsage,
           "{} looks for what labels of --data synth:shapes-attributes ask for; this is other data",
           name);
    }
  }
}

bool same_recipe(const Json& a, const Json& b) { return a == b; }

}  // namespace gantrain
