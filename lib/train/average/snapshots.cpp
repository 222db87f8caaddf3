// SPDX-License-Identifier: Apache-2.0
#include "train/average/snapshots.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/torch.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kAverages = "gantrain.averages";  // in the metadata
constexpr int64_t kSnapshots = 64;                      // of a run, where nobody says how often
// The root mean square of bfloat16's relative rounding error, the mantissa being spread as usual:
// 2^-7 (integral of m^-3 / (12 log 2) from 1 to 2)^(1/2).
constexpr double kBfloat16Error = 1.66e-3;

std::string group_of(double length) { return shortest(length) + "/"; }

// What metadata says of the averages in a file; `base` is where the snapshot was made by which they
// are told.
Json averages_json(int64_t images, std::optional<int64_t> base) {
  Json json = {{"images", images}, {"lengths", kKeptLengths}};
  if (base) json["base"] = *base;
  return json;
}

// The kept averages, "0.05/NAME": the tensors themselves.
NamedTensors kept_averages(const TrainingStep& step) {
  const PowerAverages& kept = *step.power_averages();
  NamedTensors all;
  for (size_t i = 0; i < kept.lengths().size(); ++i) {
    for (const auto& [name, tensor] : kept.of(i))
      all.emplace_back(group_of(kept.lengths()[i]) + name, tensor);
  }
  return all;
}

}  // namespace

ModelFile average_snapshot(const TrainingStep& step,
                           const Counters& counters,
                           const SnapshotBase* base,
                           const ClassTable& classes) {
  const torch::NoGradGuard no_grad;
  const ModelFile now = model_file(step, counters, /*raw=*/false, classes);
  ModelFile snapshot{{}, now.metadata};
  const auto told_by = base == nullptr ? std::nullopt : std::optional(base->images);
  snapshot.metadata[kAverages] = averages_json(counters.images_seen, told_by).dump();
  for (const auto& [name, tensor] : kept_averages(step)) {
    const bool whole = base == nullptr;
    snapshot.tensors.emplace_back(
        name, whole ? tensor : (tensor - base->averages.at(name)).to(at::kBFloat16));
  }
  std::set<std::string> parameters;
  for (const auto& [name, tensor] : step.power_averages()->of(0)) parameters.insert(name);
  for (const auto& [name, tensor] : now.tensors) {
    if (!parameters.contains(name)) snapshot.tensors.emplace_back(name, tensor);
  }
  return snapshot;
}

SnapshotWriter::SnapshotWriter(const TrainingStep& step, const Config& config)
    : step_(step),
      options_(config.read<EmaOptions>()),
      images_(config.read<TrainOptions>().kimg.images),
      cadence_(std::max<int64_t>(
          options_.snapshot_every ? options_.snapshot_every->images : images_ / kSnapshots, 1)) {}

int64_t SnapshotWriter::bytes() const {
  return bytes_in(options_.snapshot_type == SnapshotType::kBf16);
}

int64_t SnapshotWriter::bytes_of_first() const { return bytes_in(/*half=*/false); }

int64_t SnapshotWriter::bytes_in(bool half) const {
  if (step_.power_averages() == nullptr) return 0;
  int64_t bytes = 0, parameters = 0;
  for (const auto& [name, tensor] : state_of(*step_.average().network()))
    bytes += static_cast<int64_t>(tensor.nbytes());
  for (const auto& [name, tensor] : step_.power_averages()->of(0)) {
    bytes -= static_cast<int64_t>(tensor.nbytes());
    parameters += half ? 2 * tensor.numel() : static_cast<int64_t>(tensor.nbytes());
  }
  return bytes + parameters * static_cast<int64_t>(kKeptLengths.size());
}

bool SnapshotWriter::is_due(int64_t before, int64_t now) const {
  if (step_.power_averages() == nullptr) return false;
  return now >= images_ || crossed(before, now, cadence_);
}

namespace {

fs::path path_of_snapshot(const fs::path& run, int64_t images) {
  const std::string name = kimg_name(images, /*fractions=*/true);
  return run / "averages" / ("average-" + name + ".safetensors");
}

}  // namespace

void SnapshotWriter::complete(const fs::path& run,
                              const Counters& counters,
                              const ClassTable& classes) {
  const int64_t now = counters.images_seen;
  std::error_code error;
  const bool due = now > 0 && is_due(now - step_.plan().batch, now);
  if (due && !fs::exists(path_of_snapshot(run, now), error)) write(run, counters, classes);
}

void SnapshotWriter::write(const fs::path& run,
                           const Counters& counters,
                           const ClassTable& classes) {
  const fs::path folder = run / "averages";
  make_writable_folder(folder);
  const bool half = options_.snapshot_type == SnapshotType::kBf16;
  if (half && !base_) find_base(run);
  CheckpointWriter::Save save;
  save.model_path = path_of_snapshot(run, counters.images_seen);
  save.model = average_snapshot(step_, counters, half && base_ ? &*base_ : nullptr, classes);
  writer_.save(std::move(save), {});
  if (!half || base_) return;
  base_ = SnapshotBase{counters.images_seen, {}};
  for (const auto& [averaged, tensor] : kept_averages(step_))
    base_->averages[averaged] = tensor.detach().clone();
}

namespace {

// A snapshot that was read.
struct Snapshot {
  fs::path path;
  TensorFile file;
  std::optional<int64_t> base;  // where the snapshot was made by which its averages are told
};

Snapshot read_snapshot(const NumberedFile& numbered) {
  Snapshot snapshot{numbered.path, load_safetensors(numbered.path), {}};
  const auto at = snapshot.file.metadata.find(kAverages);
  const Json said = at == snapshot.file.metadata.end() ? Json() : parse_foreign<Json>(at->second);
  if (said.is_object() && said.contains("base") && said["base"].is_number_integer())
    snapshot.base = said["base"].get<int64_t>();
  if (said != averages_json(numbered.images, snapshot.base))
    fail(Exit::kInput,
         "{}: no snapshot of averages at {} kimg: its metadata {} is {}",
         numbered.path.string(),
         kimg_text(numbered.images),
         kAverages,
         said.is_null() ? "missing" : said.dump());
  return snapshot;
}

// Throws UserError(kInput) unless the snapshot has a tensor of that name and shape.
const at::Tensor& average_in(const TensorMap& averages,
                             const std::string& name,
                             const at::Tensor& like,
                             const fs::path& path) {
  const auto at = averages.find(name);
  if (at == averages.end() || at->second.sizes() != like.sizes())
    fail(Exit::kInput, "{}: its tensors are not those of the other snapshots", path.string());
  return at->second;
}

}  // namespace

void SnapshotWriter::find_base(const fs::path& run) {
  std::vector<NumberedFile> files = find_averages(run);
  std::ranges::reverse(files);  // oldest first
  for (const NumberedFile& file : files) {
    const Snapshot snapshot = read_snapshot(file);
    if (snapshot.base) continue;
    base_ = SnapshotBase{file.images, {}};
    for (const auto& [name, tensor] : kept_averages(step_))
      base_->averages[name] =
          average_in(snapshot.file.tensors, name, tensor, file.path).to(tensor.options());
    return;
  }
}

namespace {

// The models that come of snapshots which are read one after the other.
class Mixture {
 public:
  // `profiles`: those of the snapshots, oldest first, all kept lengths of each.
  Mixture(const std::vector<PowerProfile>& profiles, const std::vector<double>& lengths)
      : images_(static_cast<int64_t>(profiles.back().images)) {
    for (const double length : lengths) {
      const PowerProfile wanted{profiles.back().images, gamma_of_length(length)};
      parts_.push_back({length, combine_profiles(profiles, wanted), {}, 0});
    }
  }

  // Adds the next snapshot; `base` are the averages by which its own are told, empty without.
  void add(const Snapshot& snapshot, const TensorMap& base) {
    const torch::NoGradGuard no_grad;
    for (const double kept : kKeptLengths) {
      TensorMap parameters = parameters_of(snapshot, group_of(kept), base);
      check_names(snapshot, parameters);
      for (Part& part : parts_) add(part, parameters);
      add_noise(snapshot, group_of(kept));
      if (next_ == 0) first_ = parameters;
      last_ = std::move(parameters);
      ++next_;
    }
  }

  // `newest` is the snapshot that was added last.
  std::vector<AveragedModel> models(const Snapshot& newest) const {
    std::vector<AveragedModel> all;
    for (const Part& part : parts_)
      all.push_back(
          {part.length, images_, model_of(part, newest), part.combination.misfit, rounding(part)});
    return all;
  }

 private:
  struct Part {
    double length;
    Combination combination;
    TensorMap sums;       // float64
    double noise_square;  // of the rounding of snapshots in bfloat16
  };

  static TensorMap parameters_of(const Snapshot& snapshot,
                                 const std::string& group,
                                 const TensorMap& base) {
    TensorMap found;
    for (const auto& [name, tensor] : snapshot.file.tensors) {
      if (!name.starts_with(group)) continue;
      at::Tensor& whole = found[name.substr(group.size())] = tensor;
      if (!snapshot.base) continue;
      const at::Tensor& under = average_in(base, name, tensor, snapshot.path);
      whole = (tensor.to(at::kDouble) + under.to(at::kDouble)).to(under.scalar_type());
    }
    return found;
  }

  // What was rounded to bfloat16 is what the file itself holds.
  void add_noise(const Snapshot& snapshot, const std::string& group) {
    double square = 0;
    for (const auto& [name, tensor] : snapshot.file.tensors) {
      if (name.starts_with(group) && tensor.scalar_type() == at::kBFloat16)
        square += tensor.to(at::kDouble).square().sum().item<double>();
    }
    for (Part& part : parts_)
      part.noise_square +=
          std::pow(kBfloat16Error * part.combination.factors.at(next_), 2) * square;
  }

  void check_names(const Snapshot& snapshot, const TensorMap& parameters) const {
    const TensorMap& before = next_ == 0 ? parameters : last_;
    const bool same = !parameters.empty() &&
                      std::ranges::equal(parameters, before, [](const auto& a, const auto& b) {
                        return a.first == b.first && a.second.sizes() == b.second.sizes();
                      });
    if (!same)
      fail(Exit::kInput,
           "{}: its tensors are not those of the snapshots before it",
           snapshot.path.string());
  }

  void add(Part& part, const TensorMap& parameters) const {
    const double factor = part.combination.factors.at(next_);
    for (const auto& [name, tensor] : parameters) {
      const at::Tensor exact = tensor.to(at::kDouble);
      at::Tensor& sum = part.sums[name];
      if (!sum.defined()) sum = at::zeros_like(exact);
      sum.add_(exact, factor);
    }
  }

  double rounding(const Part& part) const {
    if (part.noise_square == 0) return 0;
    double moved = 0;
    for (const auto& [name, tensor] : last_)
      moved +=
          (tensor.to(at::kDouble) - first_.at(name).to(at::kDouble)).square().sum().item<double>();
    return moved > 0 ? std::sqrt(part.noise_square / moved) : 0;
  }

  ModelFile model_of(const Part& part, const Snapshot& newest) const {
    ModelFile model{{}, newest.file.metadata};
    model.metadata.erase(kAverages);
    model.metadata["gantrain.average"] = shortest(part.length);
    for (const auto& [name, sum] : part.sums) {
      const at::ScalarType stored = last_.at(name).scalar_type();
      model.tensors.emplace_back(name, sum.to(stored == at::kBFloat16 ? at::kFloat : stored));
    }
    for (const auto& [name, tensor] : newest.file.tensors) {
      const bool averaged = std::ranges::any_of(
          kKeptLengths, [&name = name](double kept) { return name.starts_with(group_of(kept)); });
      if (!averaged) model.tensors.emplace_back(name, tensor);
    }
    return model;
  }

  int64_t images_;  // at the newest one
  std::vector<Part> parts_;
  size_t next_ = 0;  // number of the profile
  TensorMap first_, last_;
};

}  // namespace

std::vector<AveragedModel> average_models(const fs::path& run,
                                          const std::vector<double>& lengths,
                                          std::optional<int64_t> until) {
  std::vector<NumberedFile> files = find_averages(run);
  std::erase_if(files, [&](const NumberedFile& file) {
    return file.images == 0 || file.images > until.value_or(file.images);
  });
  std::ranges::reverse(files);  // oldest first
  if (files.size() < 2)
    fail(Exit::kInput,
         "{}: holds {} of averages{}, and two at least are needed; a run keeps them with --set "
         "ema.posthoc=on, one each ema.snapshot_every kimg",
         (run / "averages").string(),
         files.empty() ? "no snapshot" : "one snapshot alone",
         until ? " up to " + kimg_text(*until) + " kimg" : "");
  std::vector<PowerProfile> profiles;
  for (const NumberedFile& file : files) {
    for (const double kept : kKeptLengths)
      profiles.push_back({static_cast<double>(file.images), gamma_of_length(kept)});
  }
  Mixture mixture(profiles, lengths);
  Snapshot newest;
  std::optional<SnapshotBase> base;
  for (const NumberedFile& file : files) {
    Snapshot snapshot = read_snapshot(file);
    const std::string model = snapshot.file.metadata["gantrain.model"];
    if (newest.path != fs::path() && model != newest.file.metadata["gantrain.model"])
      fail(Exit::kInput, "{}: of another model than {}", file.path.string(), newest.path.string());
    if (!snapshot.base && !base) base = SnapshotBase{file.images, snapshot.file.tensors};
    if (snapshot.base && (!base || base->images != *snapshot.base))
      fail(Exit::kInput,
           "{}: holds differences to the snapshot at {} kimg, which is not the oldest one of full "
           "precision here",
           file.path.string(),
           kimg_text(*snapshot.base));
    mixture.add(snapshot, snapshot.base ? base->averages : TensorMap());
    newest = std::move(snapshot);
  }
  return mixture.models(newest);
}

void check_disk(const std::filesystem::path& folder,
                const CheckpointWriter::Save& save,
                const SnapshotWriter& snapshots,
                const SaveOptions& options,
                const RunLength& length,
                std::optional<int64_t> models_kept) {
  SaveBytes each = bytes_of(save);
  each.snapshot = snapshots.bytes();
  each.first_snapshot = snapshots.bytes_of_first();
  const DiskNeed need =
      disk_need(each, options, length.images, length.images_seen, models_kept, snapshots.cadence());
  if (need.snapshots > 0) info("disk    {}", to_text(need));
  check_disk(folder, need);
}

}  // namespace gantrain
