// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_table.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const MetricRow& row : metric_table()) names.emplace_back(row.name);
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
  static const std::vector<MetricRow> table = {
      {.name = "swd",
       .help = "sliced Wasserstein distance of patches x 1000 (Karras et al. 2018)",
       .key = "swd",
       .lower_is_better = true,
       .needs_reals = true},
      {.name = "msssim",
       .help = "MS-SSIM of pairs of fakes: lower is more diverse (Wang et al. 2003)",
       .key = "msssim",
       .lower_is_better = true},
      {.name = "diversity",
       .help = "mean distance between fakes over that between reals: 1 alike, 0 collapsed",
       .key = "diversity",
       .needs_reals = true},
      {.name = "modes",
       .help = "how many of the ten shapes of synth:shapes the fakes show",
       .key = "modes",
       .needs_reals = true,
       .needs_shapes = true},
      {.name = "fid",
       .help = "Frechet inception distance (Heusel et al. 2017)",
       .key = "fid",
       .lower_is_better = true,
       .needs_reals = true,
       .needs_detector = true},
      {.name = "kid",
       .help = "kernel inception distance, 100 subsets of up to 1000 (Binkowski et al. 2018)",
       .key = "kid",
       .lower_is_better = true,
       .needs_reals = true,
       .needs_detector = true},
      {.name = "pr",
       .help = "precision and recall, 3 neighbours (Kynkaanniemi et al. 2019)",
       .key = "precision",
       .needs_reals = true,
       .needs_detector = true},
      {.name = "dc",
       .help = "density and coverage, 5 neighbours (Naeem et al. 2020)",
       .key = "coverage",
       .needs_reals = true,
       .needs_detector = true},
      {.name = "is",
       .help = "inception score, 10 splits (Salimans et al. 2016)",
       .key = "is",
       .needs_detector = true},
      {.name = "ppl",
       .help = "perceptual path length at the ends of paths (Karras et al. 2019)",
       .key = "ppl",
       .lower_is_better = true,
       .needs_detector = true,
       .needs_generator = true},
      {.name = "eqt",
       .help = "how exactly pictures move with G's input by whole pixels, dB (Karras et al. 2021)",
       .key = "eqt",
       .needs_generator = true},
      {.name = "eqt_frac",
       .help = "the same by fractions of pixels, dB",
       .key = "eqt_frac",
       .needs_generator = true},
      {.name = "eqr", .help = "the same by rotations, dB", .key = "eqr", .needs_generator = true},
      {.name = "fd",
       .help = "Frechet distance of any detector's features",
       .key = "fd",
       .lower_is_better = true,
       .needs_reals = true,
       .needs_detector = true},
  };
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
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
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
          "is inception-2015-12-05.pt of StyleGAN2-ADA (gantrain help metrics); without a file "
          "there "
          "are swd, msssim and diversity",
          name);
    }
    if (row.needs_reals && !ground.reals)
      fail(Exit::kUsage, "{} compares with real pictures: --data PATH", name);
    if (row.needs_generator && !ground.generator)
      fail(Exit::kUsage, "{} needs the generator itself: give a run or a model file", name);
    if (row.needs_shapes && !ground.shapes)
      fail(Exit::kUsage, "{} counts the shapes of --data synth:shapes; this is other data", name);
  }
}

bool same_recipe(const Json& a, const Json& b) { return a == b; }

}  // namespace gantrain
