// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"
#include "util/text.h"

namespace gantrain {

// The names of all metrics and what each needs; no torch, so that command lines and configurations
// are checked before anything is loaded.

const EmbeddedFiles& metric_files();

// One row of metrics.txt.
struct MetricRow {
  std::string name;
  std::string help;
  std::string key;  // the number in MetricResult::results by which models are compared
  bool lower_is_better, needs_reals, needs_detector, needs_lite0, needs_generator, needs_shapes,
      needs_attributes, needs_rows;

  // Whether it compares features of pictures, whatever network they come from.
  bool needs_features() const { return needs_detector || needs_lite0; }
  bool is_better(double value, double than) const {
    return lower_is_better ? value < than : value > than;
  }
  // What its row in a list ends with: " *" and " +" for the one network and the other.
  const char* network_mark() const { return needs_detector ? " *" : needs_lite0 ? " +" : ""; }
};

const std::vector<MetricRow>& metric_table();

// Returns a row by name. Throws UserError(kUsage) with the nearest names.
const MetricRow& find_metric(const std::string& name);

// Returns the names in a list with commas between, each once, in the order given; "none" and ""
// have none. Throws UserError(kUsage) that names `where` ("metrics.names", "--metrics") and the
// nearest names.
std::vector<std::string> parse_metrics(const std::string& where, const std::string& text);

// What a measurement can start from.
struct MetricGround {
  bool reals = true;
  bool detector = false;
  bool lite0 = false;  // the weights of EfficientNet-Lite0
  bool generator = true;
  bool shapes = false;      // the reals are synth:shapes
  bool attributes = false;  // they are synth:shapes-attributes
};

// Throws UserError(kUsage) that names the first metric which needs what is not there, and how to
// give it.
void check_metrics(const std::vector<std::string>& names, const MetricGround& ground);

// Whether two results of one metric may be compared: they depend on the same detector, pictures,
// numbers of pictures, filter and seed. `a` and `b` are the member "recipe" of two lines of
// metric-NAME.jsonl; lines of older versions have none, and are comparable among themselves.
bool same_recipe(const Json& a, const Json& b);

}  // namespace gantrain
