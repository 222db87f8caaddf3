// SPDX-License-Identifier: Apache-2.0
// What `gantrain bench modes` computes: stacked pictures, their classifier, and what models know.
#include "bench/modes.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "bench/requests.h"
#include "core/parallel.h"
#include "core/tensor_files.h"
#include "draw/drawing.h"
#include "metrics/pictures.h"
#include "train/save/run_folder.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kClassifierFile = "classifier.safetensors";
constexpr int64_t kAtOnce = 128;  // pictures that are drawn and classified together
constexpr int64_t kMostRead = 1'000'000;
constexpr double kTrained = 6. / 7;  // of the pictures: MNIST's 60,000 of 70,000

// The pictures that the classifier is trained on, and those that it has not seen.
struct Halves {
  ClassPictures all, known, unknown;
};

Halves read_halves(const BenchModesRequest& request) {
  DataOptions options;
  options.path = request.data;
  options.resolution = square_of(kModesPixels);
  options.channels = 1;
  options.fit = Fit::kPad;
  options.cond = Cond::kOn;
  options.cache_mb = 0;
  options.synth_size = 20'000;
  const auto dataset = open_dataset(options);
  Halves halves{.all =
                    read_class_pictures(*dataset, kMostRead, static_cast<uint64_t>(request.seed))};
  const int64_t pictures = halves.all.pictures.size(0);
  const auto known = static_cast<int64_t>(kTrained * static_cast<double>(pictures));
  if (known == 0) fail(Exit::kInput, "{}: one picture is too few", request.data);
  const auto part = [&](int64_t first, int64_t count) {
    return ClassPictures{halves.all.pictures.narrow(0, first, count),
                         halves.all.labels.narrow(0, first, count),
                         halves.all.classes};
  };
  halves.known = part(0, known);
  halves.unknown = part(known, pictures - known);
  return halves;
}

// What a folder holds must be what is asked for now.
void check_same(const CountedModes& before, const BenchModesRequest& request) {
  const auto check = [&](const char* flag, const auto& was, const auto& now) {
    if (was == now) return;
    fail(Exit::kUsage,
         "{}: was made with {} {}, not {}; -o another folder begins anew",
         request.folder,
         flag,
         was,
         now);
  };
  check("--data", before.data, request.data);
  check("--seed", before.seed, request.seed);
  check("--stacked", before.stacked, request.stacked);
  check("--samples", before.samples, request.samples);
  check("--epochs", before.epochs, request.epochs);
}

CountedModel result_of(const at::Tensor& modes, int64_t all, const std::string& name) {
  const ModeCount count = count_modes(modes, all);
  return {.name = name, .modes = count.modes, .kl = count.kl};
}

// Stacked pictures and a classifier in the folder, and what is said of both.
CountedModes prepare(const BenchModesRequest& request, const fs::path& folder) {
  const auto seed = static_cast<uint64_t>(request.seed);
  const Halves halves = read_halves(request);
  CountedModes modes{.data = request.data,
                     .seed = request.seed,
                     .stacked = request.stacked,
                     .samples = request.samples,
                     .epochs = request.epochs,
                     .classes = halves.all.classes};
  info("modes   {} of {} classes; the classifier passes over {} {} times",
       counted(halves.all.pictures.size(0), "picture"),
       modes.classes,
       halves.known.pictures.size(0),
       request.epochs);
  ModeClassifier classifier(modes.classes, kModesPixels, seed);
  classifier.train(halves.known, request.epochs, seed);
  modes.accuracy = classifier.accuracy(halves.unknown);
  // Others than those that are trained on.
  const at::Tensor reals =
      stack_pictures(halves.all, request.samples, seed + 1).permute({0, 3, 1, 2}).contiguous();
  modes.reals = result_of(modes_of(classifier, reals, modes.classes), modes.all(), "real pictures");
  make_writable_folder((folder / kStackedFile).parent_path());
  save_npy(folder / kStackedFile, stack_pictures(halves.all, request.stacked, seed));
  save_safetensors(folder / kClassifierFile, classifier.weights(), {});
  write_state_file(folder / kModesFile, modes);  // last: what it tells of is there
  return modes;
}

ModeClassifier load_classifier(const fs::path& folder, const CountedModes& modes) {
  ModeClassifier classifier(modes.classes, kModesPixels, /*seed=*/0);
  classifier.set_weights(load_safetensors(folder / kClassifierFile).tensors);
  return classifier;
}

CountedModel count(const BenchModesRequest& request,
                   const std::string& model,
                   const CountedModes& modes,
                   const ModeClassifier& classifier) {
  ModelRequest how{.model = model, .device = request.device, .cuda = request.cuda};
  const fs::path file = find_model(model);
  const DrawingModel drawing = load_drawing_model(how);
  GeneratedPictures pictures(
      *drawing.generator,
      {.size = request.samples, .seed = static_cast<uint64_t>(request.seed), .purpose = "modes"});
  std::vector<at::Tensor> found;
  for (int64_t first = 0; first < request.samples; first += kAtOnce) {
    std::vector<int64_t> numbers;
    for (int64_t i = first; i < std::min(first + kAtOnce, request.samples); ++i)
      numbers.push_back(i);
    const at::Tensor made = pictures.get(numbers);
    if (made.size(1) != 3 || made.size(2) != kModesPixels || made.size(3) != kModesPixels) {
      fail(Exit::kInput,
           "{}: makes pictures of {}x{} pixels and {}, not of {}x{} and 3 channels, as the stacked "
           "ones are",
           file.string(),
           made.size(3),
           made.size(2),
           counted(made.size(1), "channel"),
           kModesPixels,
           kModesPixels);
    }
    found.push_back(modes_of(classifier, made, modes.classes));
  }
  CountedModel result = result_of(
      at::cat(found), modes.all(), (fs::path(model) / "").parent_path().filename().string());
  result.model = file.string();
  result.images = images_of_model(file);
  return result;
}

}  // namespace

int bench_modes(const BenchModesRequest& request) {
  use_threads(request.threads);
  const fs::path folder = request.folder;
  auto modes = read_state_file<CountedModes>(folder / kModesFile);
  if (modes) check_same(*modes, request);
  for (const std::string& model : request.models) find_model(model);  // throws before the work
  if (!modes) modes = prepare(request, folder);
  if (request.models.empty()) return 0;
  const ModeClassifier classifier = load_classifier(folder, *modes);
  for (const std::string& model : request.models) {
    const CountedModel found = count(request, model, *modes, classifier);
    std::erase_if(modes->models,
                  [&](const CountedModel& before) { return before.model == found.model; });
    modes->models.push_back(found);
    write_state_file(folder / kModesFile, *modes);
  }
  return 0;
}

}  // namespace gantrain
