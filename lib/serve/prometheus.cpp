// SPDX-License-Identifier: Apache-2.0
#include "serve/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "config/value.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  Labels labels;  // beside the run's name
  double value = 0;
};

// Between quotes a backslash, a quote and a newline are escaped; what is no UTF-8 is replaced.
std::string label_value(const std::string& text) {
  const std::string dumped = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char c : Json::parse(dumped).get<std::string>()) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return number(value);
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
        lines += fmt::format("{}{{run=\"{}\"", name, label_value(run.name));
        for (const auto& [label, value] : sample.labels)
          lines += fmt::format(",{}=\"{}\"", label, label_value(value));
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
      return run.*value ? std::vector<Sample>{{{}, *(run.*value)}} : std::vector<Sample>{};
    });
  }

  const std::string& str() const { return text_; }

 private:
  const std::vector<RunView>& runs_;
  std::string text_;
};

std::vector<Sample> states_of(const RunView& run) {
  std::vector<Sample> samples;
  for (const char* state : {"running", "done", "stopped", "failed", "ended", "dead", "unknown"}) {
    samples.push_back({{{"status", state}}, run.state == state ? 1.0 : 0.0});
  }
  return samples;
}

}  // namespace

std::string prometheus_text(const std::vector<RunView>& runs, double now) {
  Text text(runs);
  text.add("gantrain_status", "1 for the status that the run has.", states_of);
  text.add("gantrain_verdict", "1, with the verdict on the run as a label.", [](const RunView& r) {
    return std::vector<Sample>{{{{"verdict", r.verdict.word}}, 1}};
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
             return run.last_tick ? std::vector<Sample>{{{}, std::max(0.0, now - *run.last_tick)}}
                                  : std::vector<Sample>{};
           });
  text.add("gantrain_loss", "The last tick's mean.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, value] : run.losses) samples.push_back({{{"loss", name}}, value});
    return samples;
  });
  text.add("gantrain_metric", "The last result.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, at] : run.metrics) samples.push_back({{{"metric", name}}, at.second});
    return samples;
  });
  text.add("gantrain_metric_kimg", "Where the last result was measured.", [](const RunView& run) {
    std::vector<Sample> samples;
    for (const auto& [name, at] : run.metrics) samples.push_back({{{"metric", name}}, at.first});
    return samples;
  });
  return text.str();
}

}  // namespace gantrain
