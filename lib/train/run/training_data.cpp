// SPDX-License-Identifier: Apache-2.0
#include "train/run/training_data.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "config/value.h"
#include "core/torch.h"
#include "data/labels/labels.h"
#include "data/options.h"
#include "train/options.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// As many as a sheet of pictures has, and no more than a model file's header should hold.
ClassTable table_of_vectors(const Dataset& dataset) {
  constexpr int64_t kMostExamples = 64, kMostNumbers = 16384;
  const LabelVectors& vectors = dataset.vectors();
  const int64_t length = vectors.length(), pictures = dataset.size();
  ClassTable table(static_cast<size_t>(length));
  table.ranges.resize(table.size());
  for (int64_t k = 0; k < length; ++k) {
    ClassRow& row = table[static_cast<size_t>(k)];
    NumberRange& range = table.ranges[static_cast<size_t>(k)];
    row.name = vectors.names[static_cast<size_t>(k)];
    range = {.least = vectors.of(0)[k], .mean = 0, .most = vectors.of(0)[k], .yes_or_no = true};
    for (int64_t i = 0; i < pictures; ++i) {
      const double value = static_cast<double>(vectors.of(i)[k]);
      row.pictures += value != 0 ? 1 : 0;
      range.least = std::min(range.least, value);
      range.most = std::max(range.most, value);
      range.mean += value / static_cast<double>(pictures);
      range.yes_or_no &= value == 0 || value == 1;
    }
  }
  const int64_t most =
      std::clamp<int64_t>(kMostNumbers / length, 1, std::min(kMostExamples, pictures));
  const std::vector<int64_t> order = Stream(0, "labels/examples").permutation(pictures);
  for (int64_t i = 0; i < most; ++i) {
    const float* vector = vectors.of(order[static_cast<size_t>(i)]);
    table.examples.emplace_back(vector, vector + length);
  }
  return table;
}

}  // namespace

DataOptions data_to_open(const Config& config) {
  auto data = config.read<DataOptions>();
  const fs::path run = resumed_run(config.read<RunOptions>());
  if (run.empty() || find_states(run).empty()) return data;
  const Json saved = parse_foreign(content_of(run / "config.json", kMostOfJson).value_or(""));
  if (saved.is_object() && saved.contains("classes") && saved["classes"].is_array())
    data.most_classes = static_cast<int64_t>(saved["classes"].size());
  return data;
}

ClassTable class_table_of(const Dataset& dataset) {
  if (dataset.vectors().length() > 0) return table_of_vectors(dataset);
  ClassTable table(static_cast<size_t>(dataset.classes()));
  for (size_t label = 0; label < table.size(); ++label)
    table[label].name = dataset.class_name(static_cast<int64_t>(label));
  if (table.empty()) return table;
  for (int64_t i = 0; i < dataset.size(); ++i)
    table[static_cast<size_t>(dataset.label(i))].pictures += 1;
  return table;
}

at::Tensor label_rows_of(const Dataset& dataset) {
  const LabelVectors& vectors = dataset.vectors();
  if (vectors.length() == 0) return {};
  return torch::tensor(vectors.values).reshape({dataset.size(), vectors.length()});
}

bool wants_labels(const DataOptions& data, const RecipeFacts& recipe, const Config& config) {
  if (data.cond == Cond::kOn) return true;
  return data.cond == Cond::kAuto && recipe.wants_labels && recipe.wants_labels(config);
}

ClassTable trained_classes(const ClassTable& of_data,
                           const DataOptions& data,
                           const RecipeFacts& recipe,
                           const Config& config) {
  if (data.cond == Cond::kOn && of_data.empty())
    fail(Exit::kInput,
         "--cond on: {} has no labels (sub-folders that hold all pictures, dataset.json or a CSV "
         "name them); --cond off trains without",
         data.path);
  if (!wants_labels(data, recipe, config)) return {};
  if (of_data.vectors() && !recipe.takes_vectors) {
    fail(
        Exit::kInput,
        "{}: its labels are vectors of {} ({}, ...), and {} is conditional on one class a picture "
        "alone; --cond off trains without labels, and {} help data says which recipes take vectors",
        data.path,
        counted(static_cast<int64_t>(of_data.size()), "number"),
        of_data.front().name,
        recipe.title,
        program());
  }
  return of_data;
}

std::vector<int64_t> pictures_of_classes(const ClassTable& table) {
  std::vector<int64_t> counts;
  if (table.vectors()) return counts;
  for (const ClassRow& row : table) counts.push_back(row.pictures);
  return counts;
}

using Which = InputStreams::Which;

namespace {

constexpr size_t kMostLines = 20;

// What the classes from `first` on have in common: "... and 80 more classes, 12 to 50 pictures
// each".
std::string summary(const ClassTable& table, size_t first) {
  const auto fewer = [](const ClassRow& a, const ClassRow& b) { return a.pictures < b.pictures; };
  const auto [least, most] =
      std::minmax_element(table.begin() + static_cast<long>(first), table.end(), fewer);
  return fmt::format("... and {}, with {} to {} each",
                     counted(static_cast<int64_t>(table.size() - first), "more class"),
                     least->pictures,
                     counted(most->pictures, "picture"));
}

std::vector<std::string> number_lines(const ClassTable& table) {
  std::vector<std::string> lines;
  for (size_t k = 0; k < std::min(table.size(), kMostLines); ++k) {
    const NumberRange& range = table.ranges[k];
    lines.push_back(
        range.yes_or_no
            ? fmt::format("{}  in {}", table[k].name, counted(table[k].pictures, "picture"))
            : fmt::format("{}  {:.4g} to {:.4g}, mean {:.4g}",
                          table[k].name,
                          range.least,
                          range.most,
                          range.mean));
  }
  if (table.size() > kMostLines)
    lines.push_back(fmt::format("... and {} more", table.size() - kMostLines));
  return lines;
}

// A number that is the same for all pictures teaches nothing.
std::vector<std::string> number_warnings(const ClassTable& table) {
  std::vector<std::string> names;
  for (size_t k = 0; k < table.size(); ++k) {
    if (table.ranges[k].least == table.ranges[k].most) names.push_back(table[k].name);
  }
  if (names.empty()) return {};
  return {
      fmt::format("{} of the labels {} the same for all pictures ({}); is that what they should "
                  "say?",
                  counted(static_cast<int64_t>(names.size()), "number"),
                  names.size() == 1 ? "is" : "are",
                  join(names, ", "))};
}

// In LibTorch's own terms for any accelerator: the CUDA side need not be linked.
class DeviceStreams final : public InputStreams {
 public:
  DeviceStreams(at::Device device, int64_t events)
      : device_(device),
        implementation_(device.type()),
        copying_(implementation_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)) {
    for (int64_t i = 0; i < events; ++i) events_.emplace_back(device.type());
  }

  at::Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(true));
  }
  at::Tensor device_memory(at::IntArrayRef sizes, at::ScalarType type) override {
    return at::empty(sizes, at::TensorOptions(device_).dtype(type));
  }
  void run(Which stream, const std::function<void()>& work) override {
    const c10::StreamGuard on(stream_of(stream));
    work();
  }
  void record(Event event, Which stream) override { at(event).record(stream_of(stream)); }
  void begin_after(Event event, Which stream) override { at(event).block(stream_of(stream)); }
  void wait(Event event) override { at(event).synchronize(); }

 private:
  c10::Event& at(Event event) { return events_.at(static_cast<size_t>(event)); }
  // The computing stream is the thread's current one, which a capture of graphs may replace.
  c10::Stream stream_of(Which stream) const {
    return stream == Which::kCopying ? copying_ : implementation_.getStream(device_);
  }

  at::Device device_;
  c10::impl::VirtualGuardImpl implementation_;
  c10::Stream copying_;
  std::vector<c10::Event> events_;
};

}  // namespace

std::vector<std::string> class_lines(const ClassTable& table) {
  if (table.vectors()) return number_lines(table);
  const size_t shown = table.size() <= kMostLines ? table.size() : kMostLines - 1;
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, table[i].name.size());
  constexpr size_t kWidest = 40;
  width = std::min(width, kWidest);
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(fmt::format(
        "{:>4}  {:<{}}  {}", i, table[i].name, width, counted(table[i].pictures, "picture")));
  }
  if (shown < table.size()) lines.push_back(summary(table, shown));
  return lines;
}

std::vector<std::string> class_warnings(const ClassTable& table) {
  if (table.vectors()) return number_warnings(table);
  constexpr size_t kNamed = 5;
  const auto line = [&](int64_t pictures, const char* have) -> std::string {
    std::vector<std::string> names;
    size_t count = 0;
    for (const ClassRow& row : table) {
      if (row.pictures != pictures) continue;
      if (++count <= kNamed) names.push_back(row.name);
    }
    if (count == 0) return "";
    return fmt::format("{} of {} classes {} {} ({}{}); is that what the labels should say?",
                       count,
                       table.size(),
                       count == 1 ? "has" : "have",
                       have,
                       join(names, ", "),
                       count > kNamed ? ", ..." : "");
  };
  std::vector<std::string> lines;
  for (const std::string& text : {line(0, "no picture"), line(1, "one picture in all")}) {
    if (!text.empty()) lines.push_back(text);
  }
  return lines;
}

std::string class_difference(const ClassTable& saved, const ClassTable& now) {
  if (saved.empty()) return "";
  if (saved.vectors() != now.vectors() && !now.empty())
    return now.vectors() ? "labels are vectors now, and were classes"
                         : "labels are classes now, and were vectors";
  const size_t common = std::min(saved.size(), now.size());
  if (saved.size() == now.size() && !now.vectors() && are_unnamed(saved)) return "";
  for (size_t i = 0; i < common; ++i) {
    if (saved[i].name == now[i].name) continue;
    return fmt::format("class {} is \"{}\" and was \"{}\"", i, now[i].name, saved[i].name);
  }
  if (saved.size() == now.size()) return "";
  const bool more = now.size() > saved.size();
  return fmt::format("now {}, before {}: \"{}\" {}",
                     counted(static_cast<int64_t>(now.size()), "class"),
                     saved.size(),
                     more ? now[common].name : saved[common].name,
                     more ? "is new" : "is missing");
}

std::unique_ptr<InputStreams> streams_of(at::Device device, int64_t events) {
  return std::make_unique<DeviceStreams>(device, events);
}

DeviceInput::DeviceInput(std::unique_ptr<InputStreams> streams, at::ScalarType type)
    : streams_(std::move(streams)) {
  half_range_ = streams_->device_memory({}, type);
  // A GPU multiplies by the reciprocal of a divisor that the host holds, which rounds differently.
  half_range_.fill_(127.5);
}

DeviceInput::~DeviceInput() = default;

// Gives a lane memory for such a tensor, unless it has it. Memory of the device may have been used
// before by work that the computing stream has not finished yet: copies begin after that.
void DeviceInput::fit(Lane& lane, const at::Tensor& like, InputStreams::Event used) {
  const bool fits = lane.host.defined() && lane.host.sizes() == like.sizes() &&
                    lane.host.scalar_type() == like.scalar_type();
  if (fits) return;
  lane.host = streams_->host_memory(like.sizes(), like.scalar_type());
  lane.device = streams_->device_memory(like.sizes(), like.scalar_type());
  streams_->record(used, Which::kComputing);
}

Batch DeviceInput::bring(const Batch& loaded) {
  const auto& [images, labels] = loaded;
  const int64_t slot = turn_++ % kBuffers;
  const InputStreams::Event copied = 2 * slot, used = 2 * slot + 1;
  Buffer& buffer = buffers_[static_cast<size_t>(slot)];
  streams_->wait(copied);  // the copy of two batches ago, out of the memory that is written now
  fit(buffer.images, images, used);
  buffer.images.host.copy_(images);
  if (labels.defined()) {
    fit(buffer.labels, labels, used);
    buffer.labels.host.copy_(labels);
  }

  // The closures share the tensors: streams may run them late.
  const Lane pictures = buffer.images, classes = labels.defined() ? buffer.labels : Lane{};
  streams_->begin_after(used, Which::kCopying);
  streams_->run(Which::kCopying, [pictures, classes] {
    pictures.device.copy_(pictures.host, /*non_blocking=*/true);
    if (classes.host.defined()) classes.device.copy_(classes.host, /*non_blocking=*/true);
  });
  streams_->record(copied, Which::kCopying);

  Batch batch;
  batch.real = at::empty(images.sizes(), half_range_.options());
  if (labels.defined()) batch.labels = at::empty_like(classes.device);
  streams_->begin_after(copied, Which::kComputing);
  const bool wide = images.scalar_type() == at::kUInt16;
  if (wide && !half_range_16_.defined()) {
    half_range_16_ = streams_->device_memory({}, half_range_.scalar_type());
    half_range_16_.fill_(32767.5);
  }
  const at::Tensor half_range = wide ? half_range_16_ : half_range_;
  streams_->run(Which::kComputing, [pictures, classes, batch, wide, half_range] {
    at::Tensor real = batch.real, numbers = batch.labels;
    if (wide) {  // which no arithmetic of LibTorch takes
      real.copy_(pictures.device);
      real.div_(half_range).sub_(1);
    } else {
      at::div_out(real, pictures.device, half_range).sub_(1);
    }
    if (numbers.defined()) numbers.copy_(classes.device);
  });
  streams_->record(used, Which::kComputing);
  return batch;
}

TrainingData::TrainingData(const TrainSetup& setup)
    : setup_(setup), options_(setup.config.read<DataOptions>()), dataset_(setup.dataset) {
  const auto train = setup.config.read<TrainOptions>();
  dtype_ = train.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat;
  seed_ = static_cast<uint64_t>(train.seed);
  setup_.callbacks.phase("opening data");
  if (!dataset_)
    dataset_ = open_dataset(data_to_open(setup_.config),
                            [this] { return setup_.callbacks.stop_signal() != 0; });
  classes_ = class_table_of(*dataset_);
  labels_used_ = !trained_classes(classes_, options_, setup.recipe.facts, setup.config).empty();
}

TrainingData::~TrainingData() = default;

at::Tensor TrainingData::label_rows() const {
  return labels_used_ ? label_rows_of(*dataset_) : at::Tensor();
}

std::vector<int64_t> TrainingData::class_counts() const {
  return pictures_of_classes(used_classes());
}

void TrainingData::begin(const Size& resolution,
                         int64_t batch,
                         int64_t images_seen,
                         int64_t units) {
  DataOptions of_stage = options_;
  of_stage.resolution = resolution;
  loader_.reset();  // its threads end before the next one's begin
  const RankInfo& ranks = setup_.rendezvous.ranks;
  const int64_t computing = setup_.device.is_cuda() ? kThreadsBesideGpu : at::get_num_threads();
  const int64_t workers = choose_workers(
      options_, {.cores = usable_cores(), .ranks = ranks.local_world, .computing = computing});
  loader_ = std::make_unique<Loader>(
      dataset_, of_stage, seed_, ranks, images_seen, batch, workers, units);
  if (!input_ && !setup_.device.is_cpu())
    input_ = std::make_unique<DeviceInput>(streams_of(setup_.device, DeviceInput::kEvents), dtype_);
}

Batch TrainingData::next() {
  setup_.callbacks.phase("loading data");
  Batch batch = loader_->next();
  if (!labels_used_) batch.labels = at::Tensor();
  if (input_) return input_->bring(batch);
  const double half = batch.real.scalar_type() == at::kUInt16 ? 32767.5 : 127.5;
  batch.real = batch.real.to(dtype_).div_(half).sub_(1);
  return batch;
}

}  // namespace gantrain
