// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/worlds.h"
#include "config/resolve.h"
#include "core/parallel.h"
#include "data/containers/source.h"
#include "distributed/group.h"
#include "draw/drawing.h"
#include "draw/painter.h"
#include "main/requests.h"
#include "metrics/detector.h"
#include "metrics/measure.h"
#include "report/console.h"
#include "train/run/training_data.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// What is compared: a generator with its data, and two sets of pictures.

// A model file that is measured.
struct MeasuredModel {
  fs::path file;
  std::string run;      // its run folder, or "" where a file was given
  int64_t images = -1;  // images seen in training, as its name tells; -1: it does not
};

constexpr const char* kShapes = "synth:shapes";
constexpr int64_t kFakes = 50'000;           // of the published evaluations
constexpr int64_t kFakesOfPatches = 16'384;  // of swd's, Karras et al. 2018, sec. 5
constexpr int64_t kAll = -1;

at::Device device_of(const MetricsRequest& request) {
  return request.how.cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

// The options with which pictures are loaded once, all alike.
void apply_flags(const MetricsRequest& request, DataOptions& options) {
  if (request.fit) options.fit = *request.fit;
  if (request.filter) options.filter = *request.filter;
  options.cache_mb = 0;
}

std::vector<std::string> names_of(const MetricsRequest& request, bool reals) {
  if (!request.names.empty()) return request.names;
  if (!request.detector.empty()) return {reals ? "fid" : "is"};
  if (!request.lite0.empty() && reals) return {"fd_lite0"};
  if (!reals) return {"msssim"};
  return {"swd", "msssim", "diversity"};
}

// What a rank measures with, one model after the other. Networks are loaded where the first of them
// is measured.
struct Equipment {
  std::shared_ptr<Group> group;
  std::optional<Detector> detector = {};
  std::optional<Lite0Features> lite0 = {};
  OpenedPictures reals = {};  // of the model before, most often those of the next one
};

// Measures metrics of features and the others with numbers of fakes of their own, where none was
// given, and returns the results in the order of the names.
std::vector<MetricResult> measure_in_order(const MetricsRequest& request,
                                           const std::vector<std::string>& names,
                                           Equipment& with,
                                           MetricInput input) {
  if (!request.detector.empty()) {
    if (!with.detector)
      with.detector.emplace(request.detector, input.device, request.detector_sha256);
    input.detector = &*with.detector;
  }
  if (!request.lite0.empty()) {
    if (!with.lite0) with.lite0.emplace(request.lite0, input.device);
    input.lite0 = &*with.lite0;
  }
  const auto choose = [&](bool features) {
    std::vector<std::string> some;
    std::copy_if(names.begin(), names.end(), std::back_inserter(some), [&](const auto& name) {
      return find_metric(name).needs_features() == features;
    });
    const int64_t all = input.made == nullptr ? input.fakes->size()
                        : features            ? kFakes
                                              : kFakesOfPatches;
    input.images = request.fake_count.value_or(all);
    return some;
  };
  for (const bool features : {false, true}) check_input(choose(features), input);
  std::map<std::string, MetricResult> by_name;
  for (const bool features : {false, true}) {
    const std::vector<std::string> some = choose(features);
    for (MetricResult& result : measure(some, input)) by_name[result.metric] = std::move(result);
  }
  std::vector<MetricResult> results;
  for (const std::string& name : names) results.push_back(std::move(by_name[name]));
  return results;
}

// What is counted: "subsets" of "subsets for kid".
std::string unit_of(const std::string& doing) {
  if (doing.find("pictures") != std::string::npos) return "pictures";
  return doing.substr(0, doing.find(' '));
}

// One line of progress for each kind of work, on rank 0.
std::function<void(const MetricProgress&)> progress_of(const Group& group) {
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

MetricInput input_of(const MetricsRequest& request, const Equipment& with) {
  return {.group = *with.group,
          .device = device_of(request),
          .real_images = request.real_count.value_or(kAll),
          .seed = static_cast<uint64_t>(request.seed),
          .per_class = request.per_class,
          .cache = request.cache,
          .between = progress_of(*with.group)};
}

// The weight of each class among the fakes: its number of pictures in the data, where this has the
// classes of the model, and 0 for those that --class leaves out.
std::vector<int64_t> weights_of(const std::vector<int64_t>& chosen,
                                const Generator& generator,
                                const Dataset* data) {
  const auto classes = static_cast<size_t>(generator.classes());
  std::vector<int64_t> weights(classes, 1);
  const ClassTable counted = data == nullptr ? ClassTable() : class_table_of(*data);
  if (counted.size() == classes && !counted.vectors()) {
    for (size_t label = 0; label < classes; ++label) weights[label] = counted[label].pictures;
  }
  if (chosen.empty()) return weights;
  for (size_t label = 0; label < classes; ++label) {
    const bool wanted = contains(chosen, static_cast<int64_t>(label));
    weights[label] = wanted ? std::max<int64_t>(weights[label], 1) : 0;
  }
  return weights;
}

// The labels of fakes of a model that takes vectors: those of the data's pictures, in an order
// drawn by lot, or else the model's own examples, or what --label and --class say.
at::Tensor label_rows_of(const ModelRequest& how,
                         const DrawingModel& model,
                         const Dataset* data,
                         uint64_t seed) {
  const bool fits = data != nullptr && data->vectors().length() == model.generator->classes();
  if (how.label.empty() && how.classes.empty() && fits) {
    const std::vector<int64_t> order = Stream(seed, "fakes/labels").permutation(data->size());
    return label_rows_of(*data).index_select(0, at::tensor(order, at::kLong));
  }
  const at::Tensor labels = choose_classes(*model.generator, how, model.classes).tensor();
  if (labels.dim() == 2) return labels;  // else classes: a 1 in their places
  return at::eye(model.generator->classes()).index_select(0, labels);
}

// What --class asks for, by number; of a model that takes vectors, numbers of them that are 0 or 1.
std::vector<int64_t> classes_of(const ModelRequest& how,
                                const Generator& generator,
                                const ClassTable& table) {
  if (how.classes.empty()) return {};
  if (table.vectors()) return choose_classes(generator, how, table).labels;
  if (generator.classes() == 0)
    fail(Exit::kUsage, "--class {}: {} has no classes", how.classes, how.model);
  return parse_classes(how.classes, generator.classes(), table);
}

// The classes of real pictures that fakes are compared with: those of --class, where the data has
// the model's labels; else all of them, which is said.
std::vector<int64_t> classes_of_reals(const std::vector<int64_t>& chosen,
                                      const ModelRequest& how,
                                      const Generator& generator,
                                      const Dataset& data) {
  const int64_t labels = std::max(data.classes(), data.vectors().length());
  if (!chosen.empty() && labels == generator.classes()) return chosen;
  if (chosen.empty() && how.label.empty()) return {};
  const std::string flag = chosen.empty() ? "--label " + how.label : "--class " + how.classes;
  const char* has = labels == 0 ? "no labels" : "other labels too";
  warn("{}: compared with all pictures of the data, which has {}", flag, has);
  return {};
}

std::vector<std::string> class_names(const ClassTable& table) {
  std::vector<std::string> names;
  for (const ClassRow& row : table) names.push_back(row.name);
  return names;
}

Size own_size(const DataOptions& options) {
  if (starts_with(options.path, "synth:")) return options.resolution;
  if (const auto size = common_size(*open_source(options))) return *size;
  fail(Exit::kInput, "{}: holds no pictures", options.path);
}

struct OpenedImages {
  DataOptions options;
  std::shared_ptr<const Dataset> dataset;
};

OpenedImages open_images(const MetricsRequest& request,
                         const std::string& path,
                         std::optional<int64_t> channels) {
  OpenedImages images;
  images.options.path = path;
  apply_flags(request, images.options);
  images.options.scaled_jpeg = ScaledJpeg::kOff;
  images.options.channels = channels;
  images.options.resolution = request.resolution ? *request.resolution : own_size(images.options);
  images.dataset = open_dataset(images.options);
  return images;
}

void check_same_classes(const MetricsRequest& request, const Dataset& reals, const Dataset& fakes) {
  if (!request.per_class) return;
  if (!class_table_of(reals).empty() &&
      class_names(class_table_of(reals)) == class_names(class_table_of(fakes)))
    return;
  fail(Exit::kInput,
       "--per-class: {} and {} must have the same classes (sub-folders, dataset.json)",
       request.images[0],
       request.images[1]);
}

// --class and --per-class match the data's classes with the model's by number, so each number must
// have the same name in both. Throws UserError(kInput) that names the first that differs.
void check_classes(const MetricsRequest& request,
                   const ModelRequest& how,
                   const ClassTable& table,
                   const Dataset& data) {
  const char* flag = request.per_class ? "--per-class" : "--class";
  if (request.per_class && data.classes() == 0 && data.vectors().length() == 0)
    fail(Exit::kInput, "--per-class: {} has no labels", data.description());
  const bool matched = request.per_class || !how.classes.empty();
  if (!matched || table.empty() || class_table_of(data).empty()) return;
  const std::vector<std::string> of_model = class_names(table),
                                 of_data = class_names(class_table_of(data));
  if (are_unnamed(table) && of_model.size() == of_data.size()) return;
  for (size_t label = 0; label < std::max(of_model.size(), of_data.size()); ++label) {
    const std::string model = label < of_model.size() ? of_model[label] : "none";
    const std::string own = label < of_data.size() ? of_data[label] : "none";
    if (model == own) continue;
    fail(Exit::kInput,
         "{}: class {} is \"{}\" in {} and \"{}\" in the data ({})",
         flag,
         label,
         model,
         how.model,
         own,
         data.description());
  }
}

// The models that the request is about: one file, or the newest or all models of a run.
std::vector<MeasuredModel> measured_models(const MetricsRequest& request) {
  const fs::path given = request.how.model;
  std::error_code error;
  if (!fs::is_directory(given, error)) return {{.file = find_model(given)}};
  const fs::path newest = find_model(given);  // says what is wrong where there is none
  std::vector<MeasuredModel> models;
  for (const NumberedFile& model : find_models(given))
    models.push_back({model.path, given.string(), model.images});
  if (models.empty()) return {{.file = newest}};  // of a folder that was exported
  if (!request.all_models) models.resize(1);
  std::reverse(models.begin(), models.end());
  return models;
}

// Measures a model. Collective. Throws UserError that names what does not fit.
std::vector<MetricResult> measure_model(const MetricsRequest& request,
                                        const MeasuredModel& model,
                                        Equipment& with) {
  const auto seed = static_cast<uint64_t>(request.seed);
  ModelRequest how = request.how;
  how.model = model.file.string();
  const DrawingModel drawing = load_drawing_model(how);
  Generator& generator = *drawing.generator;
  const SynthesisOptions drawn = Painter(generator, how).synthesis();  // checks the flags
  if (request.per_class && generator.classes() == 0)
    fail(Exit::kUsage, "--per-class: {} has no classes", how.model);
  const fs::path of_run = request.run.empty() ? model.file : fs::path(request.run) / "model";
  std::optional<DataOptions> data = data_of_run(of_run, request.data);
  const bool shapes = data && data->path == kShapes;
  const std::vector<std::string> names = names_of(request, data.has_value());
  check_metrics(names,
                {.reals = data.has_value(),
                 .detector = !request.detector.empty(),
                 .lite0 = !request.lite0.empty(),
                 .generator = true,
                 .shapes = shapes,
                 .attributes = data && data->path == kAttributeShapes});
  const std::vector<int64_t> chosen = classes_of(how, generator, drawing.classes);
  std::shared_ptr<const Dataset> dataset;
  Pictures* reals = nullptr;
  if (data) {
    apply_flags(request, *data);
    if (!drawing.classes.vectors()) data->most_classes = generator.classes();
    const at::Tensor fake = GeneratedPictures(generator, {.size = 1}).get({0});
    data->resolution = {.width = fake.size(3), .height = fake.size(2)};
    data->channels = fake.size(1);
    dataset = open_data_of_run(of_run, request.data, *data, [&] { return with.reals.open(*data); });
    check_classes(request, how, drawing.classes, *dataset);
    reals = &with.reals.pictures({.data = *data,
                                  .seed = seed,
                                  .mirror = request.mirror,
                                  .classes = classes_of_reals(chosen, how, generator, *dataset)});
  }
  GeneratedPictures::Options options{.size = request.fake_count.value_or(kFakes),
                                     .seed = seed,
                                     .synthesis = drawn,
                                     .class_names = class_names(drawing.classes)};
  if (drawing.classes.vectors() || !how.label.empty()) {
    options.label_rows = label_rows_of(how, drawing, dataset.get(), seed);
  } else if (generator.classes() > 0) {
    options.class_weights = weights_of(chosen, generator, dataset.get());
  }
  GeneratedPictures fakes(generator, options);

  MetricInput input = input_of(request, with);
  input.reals = reals;
  input.fakes = input.made = &fakes;
  input.shapes = shapes;
  input.attributes = data && data->path == kAttributeShapes;
  return measure_in_order(request, names, with, input);
}

// The same for two sets of pictures.
std::vector<MetricResult> measure_images(const MetricsRequest& request, Equipment& with) {
  const OpenedImages real = open_images(request, request.images[0], std::nullopt);
  const OpenedImages fake = open_images(request, request.images[1], real.dataset->channels());
  check_same_classes(request, *real.dataset, *fake.dataset);
  const std::vector<std::string> names = names_of(request, true);
  check_metrics(names,
                {.reals = true,
                 .detector = !request.detector.empty(),
                 .lite0 = !request.lite0.empty(),
                 .generator = false,
                 .shapes = real.options.path == kShapes});
  // In the order of their names, so that other programs can tell which pictures make pairs.
  DatasetPictures reals(
      real.dataset,
      {.data = real.options, .shuffled = false, .mirror = request.mirror, .classes = {}});
  DatasetPictures fakes(fake.dataset, {.data = fake.options, .shuffled = false, .classes = {}});
  MetricInput input = input_of(request, with);
  input.reals = &reals;
  input.fakes = &fakes;
  input.shapes = real.options.path == kShapes;
  return measure_in_order(request, names, with, input);
}

// `gantrain metrics`: measures, prints, and appends to a run's metric-NAME.jsonl.

constexpr int64_t kLongest = 30 * 24 * 3600;  // seconds that ranks may work
constexpr double kTimeout = 24 * 3600;        // seconds that ranks wait for each other

// Lines of metric-NAME.jsonl, in the form that training writes.
Json lines_of(const std::vector<MetricResult>& results,
              const MetricsRequest& request,
              const MeasuredModel* model) {
  Json lines = Json::array();
  for (const MetricResult& result : results) {
    Json& line = lines.emplace_back(to_json(result));
    if (model != nullptr) {
      const std::string snapshot = model->file.filename().string();
      line["snapshot"] = snapshot;
      line["snapshot_pkl"] = snapshot;
      line["kimg"] = model->images < 0 ? Json() : Json(static_cast<double>(model->images) / 1000);
    }
    line["num_gpus"] = request.ranks;
    line["total_time_str"] = short_duration(result.seconds);
    line["timestamp"] = unix_seconds();
  }
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

Equipment equip(const MetricsRequest& request, const Rendezvous& meeting) {
  use_threads(request.threads);
  if (meeting.ranks.rank != 0) set_log({Level::kError, Level::kError, {}, ""});
  return {Group::join(meeting, BackendKind::kGloo, device_of(request), kTimeout)};
}

// Returns the lines of all models, one after the other, as one JSON array.
Json measure_on_rank(const MetricsRequest& request, const Rendezvous& meeting) {
  Equipment with = equip(request, meeting);
  if (!request.images.empty()) return lines_of(measure_images(request, with), request, nullptr);
  Json all = Json::array();
  for (const MeasuredModel& model : measured_models(request)) {
    const Json lines = lines_of(measure_model(request, model, with), request, &model);
    for (const Json& line : lines) {
      if (with.group->rank() == 0 && !model.run.empty()) keep(model, line);
      all.push_back(line);
    }
  }
  return all;
}

// What `metrics` prints: a JSON array with one object for each metric of each model.
Json metric_lines(const MetricsRequest& request) {
  if (!request.features.empty()) {
    use_threads(request.threads);
    const FeatureFiles files = {request.features[0],
                                request.features[1],
                                request.probabilities,
                                request.names,
                                request.seed};
    return lines_of(measure_features(files), request, nullptr);
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

void measure_models(const MetricsRequest& request,
                    const std::vector<std::string>& models,
                    const std::function<void(size_t model, const Json& line)>& take) {
  Equipment with = equip(request, {});
  for (size_t i = 0; i < models.size(); ++i) {
    const MeasuredModel model = {.file = find_model(models[i])};
    for (const Json& line : lines_of(measure_model(request, model, with), request, &model))
      take(i, line);
  }
}

int metrics(const MetricsRequest& request) {
  const Json lines = metric_lines(request);
  for (const Json& line : lines)
    fmt::print("{}\n", request.json ? line.dump() : one_line(text_of_line(line)));
  if (request.how.model.empty()) {
    info("next    {} metrics --help", program());
  } else {
    info("next    {}", generate_command(request.how.model));
  }
  return 0;
}

}  // namespace gantrain
