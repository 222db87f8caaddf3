// SPDX-License-Identifier: Apache-2.0
// `gantrain metrics`: measures, prints, and appends to a run's metric-NAME.jsonl.
#include <ATen/Parallel.h>

#include <memory>

#include "local_world.h"
#include "metric_sets.h"
#include "train/run_folder.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"
#include "work_progress.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kLongest = 30 * 24 * 3600;  // seconds that ranks may work
constexpr double kTimeout = 24 * 3600;        // seconds that ranks wait for each other

// What is counted: "subsets" of "subsets for kid".
std::string unit_of(const std::string& doing) {
  if (doing.find("pictures") != std::string::npos) return "pictures";
  return doing.substr(0, doing.find(' '));
}

// One line of progress for each kind of work, on rank 0.
Between progress_of(const Group& group) {
  if (group.rank() != 0) return [](const MetricProgress&) {};
  struct Shown {
    std::string doing;
    std::unique_ptr<WorkProgress> line;
  };
  return [shown = std::make_shared<Shown>()](const MetricProgress& progress) {
    if (!shown->line || shown->doing != progress.doing) {
      shown->line.reset();
      shown->line = std::make_unique<WorkProgress>(progress.doing, unit_of(progress.doing));
      shown->doing = progress.doing;
    }
    shown->line->show(progress.done, progress.of);
  };
}

// A line of metric-NAME.jsonl, in the form that training writes.
Json line_of(const MetricResult& result,
             const MetricsRequest& request,
             const MeasuredModel* model) {
  Json line = to_json(result);
  if (model != nullptr) {
    const std::string snapshot = model->file.filename().string();
    line["snapshot"] = snapshot;
    line["snapshot_pkl"] = snapshot;
    line["kimg"] = model->images < 0 ? Json() : Json(static_cast<double>(model->images) / 1000);
  }
  line["num_gpus"] = request.ranks;
  line["total_time_str"] = short_duration(result.seconds);
  line["timestamp"] = unix_seconds();
  return line;
}

Json lines_of(const std::vector<MetricResult>& results,
              const MetricsRequest& request,
              const MeasuredModel* model) {
  Json lines = Json::array();
  for (const MetricResult& result : results) lines.push_back(line_of(result, request, model));
  return lines;
}

// Appends a line to the run's file of its metric. What was measured is printed in any case: a
// folder that is full or read-only costs a warning alone.
void keep(const MeasuredModel& model, const Json& line) {
  const std::string name = line["metric"];
  try {
    append_line(fs::path(model.run) / ("metric-" + name + ".jsonl"), line.dump());
  } catch (const UserError& e) {
    warn("{}; this result is printed alone", e.what());
  }
}

// Returns the lines of all models, one after the other, as one JSON array.
Json measure_on_rank(const MetricsRequest& request, const Rendezvous& meeting) {
  at::set_num_threads(static_cast<int>(request.threads));
  if (meeting.ranks.rank != 0) set_log({Level::kError, Level::kError, {}, ""});
  const at::Device device = request.how.cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  const auto group = Group::join(meeting, BackendKind::kGloo, device, kTimeout);
  const Between between = progress_of(*group);
  if (!request.images.empty())
    return lines_of(measure_images(request, *group, between), request, nullptr);
  Json all = Json::array();
  for (const MeasuredModel& model : measured_models(request)) {
    const Json lines = lines_of(measure_model(request, model, *group, between), request, &model);
    for (const Json& line : lines) {
      if (group->rank() == 0 && !model.run.empty()) keep(model, line);
      all.push_back(line);
    }
  }
  return all;
}

Json measure_all(const MetricsRequest& request) {
  if (!request.features.empty()) {
    at::set_num_threads(static_cast<int>(request.threads));
    return lines_of(measure_features(request), request, nullptr);
  }
  if (request.ranks == 1) return measure_on_rank(request, {});
  const auto body = [&](const Rendezvous& meeting) {
    return measure_on_rank(request, meeting).dump();
  };
  return Json::parse(run_local_world(request.ranks, kLongest, body).front());
}

// "fid 12.34  (50000 fakes, 70000 reals, inception.pt 6f64..., lanczos, seed 0, model-000200...)"
std::string text_of_line(const Json& line) {
  std::string text;
  for (const auto& [name, value] : line["results"].items())
    text += fmt::format("{}{} {}",
                        text.empty() ? "" : "  ",
                        name,
                        value.is_number() ? fmt::format("{:.5g}", value.get<double>()) : "none");
  const Json& recipe = line["recipe"];
  std::vector<std::string> notes;
  for (const char* kind : {"fakes", "reals"}) {
    if (recipe.contains(kind)) notes.push_back(fmt::format("{} {}", recipe[kind].dump(), kind));
  }
  if (recipe.contains("detector")) {
    notes.push_back(fmt::format("{} {:.12}",
                                recipe["detector"].get<std::string>(),
                                recipe["detector_sha256"].get<std::string>()));
  }
  if (recipe.contains("filter")) notes.push_back(recipe["filter"]);
  notes.push_back("seed " + recipe["seed"].dump());
  if (line.contains("snapshot")) notes.push_back(line["snapshot"]);
  return fmt::format("{}  ({})", text, join(notes, ", "));
}

}  // namespace

int metrics(const MetricsRequest& request) {
  const Json lines = measure_all(request);
  for (const Json& line : lines)
    fmt::print("{}\n", request.json ? line.dump() : text_of_line(line));
  if (request.how.model.empty()) {
    info("next    gantrain metrics --help");
  } else {
    info("next    {}", generate_command(request.how.model));
  }
  return 0;
}

}  // namespace gantrain
