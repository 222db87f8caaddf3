// SPDX-License-Identifier: Apache-2.0
#include "draw/directions.h"

#include <algorithm>
#include <numeric>

#include "config/config.h"
#include "core/tensor_files.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "draw/draw.h"
#include "draw/frames.h"
#include "draw/painter.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr double kRank = 1e-12;  // of the largest eigenvalue

// Of each row [K, d] the largest component becomes positive.
Tensor with_fixed_signs(const Tensor& rows) {
  const Tensor stored = rows.to(at::kFloat);
  const Tensor largest = stored.abs().argmax(1, /*keepdim=*/true);
  return rows * stored.gather(1, largest).sign().to(rows.scalar_type());
}

}  // namespace

PrincipalAxes principal_axes(const Tensor& matrix, int64_t count) {
  const Tensor symmetric = (matrix + matrix.t()).to(at::kDouble) / 2;
  const auto [rising, columns] = at::linalg_eigh(symmetric);
  const Tensor values = rising.flip(0);
  const double most = values[0].item<double>();
  const int64_t rank = most > 0 ? values.gt(most * kRank).sum().item<int64_t>() : 0;
  const int64_t kept = std::min(count, rank);
  const Tensor rows = columns.t().flip(0).narrow(0, 0, kept);
  return {.vectors = kept > 0 ? with_fixed_signs(rows) : rows,
          .values = values.narrow(0, 0, kept),
          .total = symmetric.trace().item<double>()};
}

Tensor gram_of_unit_rows(const std::vector<Tensor>& weights) {
  Tensor sum;
  for (const Tensor& weight : weights) {
    const Tensor rows = weight.detach().to(at::kCPU, at::kDouble);
    const Tensor lengths = rows.norm(2, 1, /*keepdim=*/true);
    const Tensor a = rows / torch::where(lengths > 0, lengths, torch::ones_like(lengths));
    const Tensor part = at::matmul(a.t(), a);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

void RunningCovariance::add(const Tensor& rows) {
  const Tensor x = rows.to(at::kDouble);
  const int64_t more = x.size(0), all = count_ + more;
  const Tensor mean = x.mean(0), centred = x - mean;
  const Tensor scatter = at::matmul(centred.t(), centred);
  if (count_ == 0) {
    mean_ = mean;
    scatter_ = scatter;
  } else {
    const Tensor apart = mean - mean_;
    const double share = static_cast<double>(more) / static_cast<double>(all);
    scatter_ = scatter_ + scatter + at::outer(apart, apart) * (static_cast<double>(count_) * share);
    mean_ = mean_ + apart * share;
  }
  count_ = all;
}

Tensor RunningCovariance::covariance() const { return scatter_ / static_cast<double>(count_ - 1); }

namespace {

constexpr const char* kFormat = "gantrain directions 1";
constexpr int64_t kUsualCount = 10;  // directions
constexpr int64_t kMapped = 1000;    // latents at a time

std::vector<int64_t> checked_layers(const EditRequest& request, int64_t layers, int64_t level) {
  std::vector<int64_t> all(static_cast<size_t>(layers));
  std::iota(all.begin(), all.end(), int64_t{0});
  const std::vector<int64_t>& asked = request.layers.numbers;
  if (asked.empty()) return all;
  if (asked.back() < layers) return asked;
  fail(Exit::kUsage,
       "--layers: layer {}: {}{} has {}, 0 to {}",
       asked.back(),
       request.how.model,
       level == 0 ? "" : fmt::format(" at {} pixels", level),
       counted(layers, "layer"),
       layers - 1);
}

int64_t checked_count(const EditRequest& request, int64_t w_dim) {
  const int64_t count = request.count.value_or(std::min(kUsualCount, w_dim));
  if (count > w_dim) {
    fail(Exit::kUsage,
         "--count {}: w of {} has {} numbers, so there are at most that many directions",
         count,
         request.how.model,
         w_dim);
  }
  return count;
}

// The weights of these layers by their names.
std::vector<Tensor> weights_of(Generator& generator, const std::vector<std::string>& names) {
  const NamedTensors state = state_of(*generator.network());
  const std::map<std::string, Tensor> all(state.begin(), state.end());
  std::vector<Tensor> weights;
  for (const std::string& name : names) weights.push_back(all.at(name));
  return weights;
}

// Mean and covariance of the w of seeds 0 to samples - 1; seed i has the label labels[i mod ...].
RunningCovariance covariance_of_w(Generator& generator, int64_t samples, const Tensor& labels) {
  RunningCovariance found;
  Job job(samples, "samples");
  for (int64_t first = 0; first < samples; first += kMapped) {
    std::vector<int64_t> seeds(static_cast<size_t>(std::min(kMapped, samples - first)));
    std::iota(seeds.begin(), seeds.end(), first);
    const Tensor z = latents_of_seeds(seeds, generator.z_dim());
    const Tensor numbers = torch::tensor(seeds, at::kLong);
    const Tensor c =
        labels.defined() ? labels.index_select(0, numbers.remainder(labels.size(0))) : Tensor();
    found.add(generator.map(z, c, {}).select(1, 0).detach().cpu());
    job.step_to(first + z.size(0));
  }
  return found;
}

// The axes of a matrix, of which there may be fewer than `count`. `what`: the matrix, for messages.
PrincipalAxes axes_of(const Tensor& matrix, int64_t count, const std::string& what) {
  if (!matrix.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: values that are not finite", what);
  PrincipalAxes axes = principal_axes(matrix, count);
  const int64_t found = axes.values.size(0);
  if (found == 0) fail(Exit::kInput, "{}: all zero; there is no direction", what);
  if (found < count) {
    warn("{} instead of {}: {} has rank {}; along all other directions nothing changes",
         counted(found, "direction"),
         count,
         what,
         found);
  }
  return axes;
}

std::vector<int64_t> numbers_of(const Json& list, const std::string& file) {
  constexpr uint64_t kMost = 1 << 20;
  std::vector<int64_t> numbers;
  for (const Json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > kMost)
      fail(Exit::kInput, "{} (about): layers: {} is no layer", file, item.dump());
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

// The text "about" of a file, checked; empty where another program wrote it without.
Json about_of(const std::filesystem::path& npz, const std::string& file) {
  const Json about = parse_json(load_npz_text(npz, "about"), file + " (about)", Exit::kInput);
  if (!about.is_object() || !about.contains("format") || about["format"] != kFormat) {
    fail(Exit::kInput,
         "{} (about): its format is not \"{}\": another program or another version wrote it",
         file,
         kFormat);
  }
  return about;
}

void check_shape(const Tensor& array, at::IntArrayRef shape, const std::string& what) {
  if (array.sizes() != shape) {
    fail(Exit::kInput,
         "{}: shape [{}]; [{}] is needed",
         what,
         fmt::join(array.sizes(), ", "),
         fmt::join(shape, ", "));
  }
  if (!array.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: holds values that are not finite", what);
}

// The layers that a direction moves: those that were asked for, else the file's.
std::vector<int64_t> layers_of(const DirectionUse& use,
                               const Directions& directions,
                               const DirectionRequest& request,
                               const std::string& model,
                               int64_t num_ws) {
  const bool asked = !use.layers.numbers.empty();
  std::vector<int64_t> layers = asked ? use.layers.numbers : directions.layers;
  if (layers.empty()) {
    layers.resize(static_cast<size_t>(num_ws));
    std::iota(layers.begin(), layers.end(), int64_t{0});
  }
  const int64_t last = *std::max_element(layers.begin(), layers.end());
  if (last < num_ws) return layers;
  fail(asked ? Exit::kUsage : Exit::kInput,
       "{}: layer {}: {} has {}, 0 to {}",
       asked ? "--direction " + use.text : request.file,
       last,
       model,
       counted(num_ws, "layer"),
       num_ws - 1);
}

}  // namespace

Tensor step_of(const Directions& directions,
               int64_t k,
               const std::vector<int64_t>& layers,
               int64_t num_ws) {
  const Tensor vector = directions.vectors[k].to(at::kDouble);
  const Tensor step = torch::zeros({num_ws, vector.size(0)}, at::kDouble);
  for (const int64_t layer : layers)
    step[layer].copy_(vector * directions.lengths[k].item<double>());
  return step;
}

Directions find_directions(Generator& generator,
                           const EditRequest& request,
                           int64_t level,
                           const Tensor& labels) {
  const torch::NoGradGuard no_grad;
  const std::vector<std::string> names = generator.style_weights(level);
  Directions found;
  found.layers = checked_layers(request, static_cast<int64_t>(names.size()), level);
  const int64_t count = checked_count(request, generator.w_dim());
  found.about = {{"format", kFormat},
                 {"method", Value<DirectionMethod>::to_json(request.method)},
                 {"model", sha256_of(state_of(*generator.network()))},
                 {"w_dim", generator.w_dim()},
                 {"num_ws", generator.num_ws()},
                 {"layers", found.layers}};
  PrincipalAxes axes;
  if (request.method == DirectionMethod::kSefa) {
    std::vector<std::string> chosen;
    for (const int64_t layer : found.layers) chosen.push_back(names[static_cast<size_t>(layer)]);
    found.about["weights"] = chosen;
    axes = axes_of(
        gram_of_unit_rows(weights_of(generator, chosen)), count, "the layers' style weights");
    found.lengths = torch::ones({axes.values.size(0)});
  } else {
    found.about["samples"] = request.samples;
    if (labels.defined() && labels.dim() == 1)
      found.about["classes"] = std::vector<int64_t>(
          labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel());
    if (labels.defined() && labels.dim() == 2) found.about["labels"] = labels.size(0);
    const RunningCovariance w = covariance_of_w(generator, request.samples, labels);
    axes = axes_of(w.covariance(), count, "the covariance of w");
    found.lengths = axes.values.sqrt().to(at::kFloat);
    found.mean = w.mean().to(at::kFloat);
  }
  found.about["total"] = axes.total;
  found.vectors = axes.vectors.to(at::kFloat).contiguous();
  found.values = axes.values.to(at::kFloat).contiguous();
  return found;
}

void save_directions(const std::filesystem::path& npz, const Directions& directions) {
  NamedTensors arrays = {{"directions", directions.vectors}, {"lengths", directions.lengths}};
  if (directions.values.defined()) arrays.emplace_back("values", directions.values);
  if (directions.mean.defined()) arrays.emplace_back("mean", directions.mean);
  save_npz(npz, arrays, {{"about", directions.about.dump(-1, ' ', /*ensure_ascii=*/true)}});
}

Json to_json(const Directions& directions) {
  const auto numbers = [](const Tensor& row) {
    const Tensor flat = row.contiguous();
    return std::vector<float>(flat.const_data_ptr<float>(),
                              flat.const_data_ptr<float>() + flat.numel());
  };
  Json json = directions.about;
  if (directions.mean.defined()) json["mean"] = numbers(directions.mean);
  json["directions"] = Json::array();
  for (int64_t k = 0; k < directions.vectors.size(0); ++k) {
    json["directions"].push_back({{"number", k},
                                  {"value", directions.values[k].item<float>()},
                                  {"length", directions.lengths[k].item<float>()},
                                  {"vector", numbers(directions.vectors[k])}});
  }
  return json;
}

Directions load_directions(const std::filesystem::path& npz) {
  const std::string file = npz.string();
  const std::vector<std::string> names = npz_names(npz);
  const auto has = [&](const char* name) { return contains(names, name); };
  Directions all;
  all.vectors = load_npz(npz, "directions");
  if (all.vectors.dim() != 2) {
    fail(Exit::kInput,
         "{} (directions): shape [{}]; [K, w_dim] is needed",
         file,
         fmt::join(all.vectors.sizes(), ", "));
  }
  const int64_t count = all.vectors.size(0);
  check_shape(all.vectors, {count, all.vectors.size(1)}, file + " (directions)");
  all.lengths = has("lengths") ? load_npz(npz, "lengths") : torch::ones({count});
  check_shape(all.lengths, {count}, file + " (lengths)");
  for (const auto& [name, array, shape] :
       {std::tuple{"values", &all.values, count}, {"mean", &all.mean, all.vectors.size(1)}}) {
    if (!has(name)) continue;
    *array = load_npz(npz, name);
    check_shape(*array, {shape}, fmt::format("{} ({})", file, name));
  }
  if (!has("about")) return all;
  all.about = about_of(npz, file);
  if (all.about.contains("layers")) all.layers = numbers_of(all.about["layers"], file);
  return all;
}

std::string shares_text(const Directions& found) {
  constexpr int64_t kNamed = 8;
  const double total = found.about["total"].get<double>();
  std::vector<std::string> shares;
  for (int64_t k = 0; k < std::min(kNamed, found.values.size(0)); ++k)
    shares.push_back(fmt::format("{:.1f}%", 100 * found.values[k].item<double>() / total));
  return fmt::format("{}{}", fmt::join(shares, ", "), found.values.size(0) > kNamed ? ", ..." : "");
}

std::vector<DirectionEdit> load_edits(Generator& generator,
                                      const DirectionRequest& request,
                                      const std::string& model) {
  if (request.uses.empty()) return {};
  const torch::NoGradGuard no_grad;
  require_styles(generator, "--direction " + request.uses.front().text, model);
  const Directions known = load_directions(request.file);
  const int64_t count = known.vectors.size(0), num_ws = generator.num_ws();
  if (known.vectors.size(1) != generator.w_dim()) {
    fail(Exit::kInput,
         "{}: directions of another model: they have {} numbers, and w of {} has {}",
         request.file,
         known.vectors.size(1),
         model,
         generator.w_dim());
  }
  const std::string own = sha256_of(state_of(*generator.network()));
  if (known.about.contains("model") && known.about["model"] != own) {
    warn(
        "{}: these directions were found in another model (SHA-256 {:.12}..., this one is "
        "{:.12}...)",
        request.file,
        text_of(known.about["model"]),
        own);
  }
  std::vector<DirectionEdit> edits;
  for (const DirectionUse& use : request.uses) {
    if (use.number >= count) {
      fail(Exit::kUsage,
           "--direction {}: {} has {}, 0 to {}",
           use.text,
           request.file,
           counted(count, "direction"),
           count - 1);
    }
    const std::vector<int64_t> layers = layers_of(use, known, request, model, num_ws);
    edits.push_back({step_of(known, use.number, layers, num_ws), use.strengths});
  }
  return edits;
}

namespace {

constexpr int64_t kMostRows = 64;                      // of a sheet
constexpr int64_t kMostSheetBytes = int64_t{1} << 30;  // of its pictures

// A line of the sheets: a seed's w, and its own picture.
struct SheetRow {
  int64_t seed;
  std::string name;    // "seed 3"
  at::Tensor ws;       // [num_ws, w_dim] float32
  at::Tensor picture;  // uint8 [C, H, W]
};

std::vector<SheetRow> sheet_rows(Painter& painter,
                                 const EditRequest& request,
                                 const ClassChoice& choice) {
  const LabelledRows rows(request.seeds.size(), choice, kMostRows);
  if (rows.size() > kMostRows) {
    const std::string& classes = request.how.classes;
    fail(Exit::kUsage,
         "--seeds {}{}: a sheet of {} lines; at most {} fit",
         request.seeds.text(),
         classes.empty() ? "" : " --class " + classes,
         rows.size(),
         kMostRows);
  }
  std::vector<SheetRow> all;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto [row, label] = rows[i];
    SheetRow line{.seed = request.seeds[row], .name = fmt::format("seed {}", request.seeds[row])};
    if (label && choice.labels.size() > 1 && !choice.in_turn)
      line.name += fmt::format(" c{}", *label);
    const at::Tensor z = latents_of_seeds({line.seed}, painter.generator().z_dim())[0];
    line.ws = painter.map(z, label);
    line.picture = to_bytes(painter.picture_of_styles(line.ws, static_cast<uint64_t>(line.seed)));
    all.push_back(std::move(line));
  }
  return all;
}

void check_sheet(const EditRequest& request, const std::vector<SheetRow>& rows) {
  const auto pictures = static_cast<int64_t>(rows.size()) * request.columns;
  if (pictures * rows.front().picture.numel() <= kMostSheetBytes) return;
  fail(Exit::kUsage,
       "--seeds {} --columns {}: sheets of {} pictures are too large; ask for fewer",
       request.seeds.text(),
       request.columns,
       pictures);
}

std::string sheet_name(int64_t direction) { return fmt::format("direction{:02}", direction); }

// `columns` strengths from -most to most.
std::vector<double> strengths_of(const EditRequest& request) {
  std::vector<double> all;
  const auto last = static_cast<double>(request.columns - 1);
  for (int64_t i = 0; i < request.columns; ++i)
    all.push_back(request.strength * (2 * static_cast<double>(i) - last) / last);
  return all;
}

Image sheet_of(Painter& painter,
               const std::vector<SheetRow>& rows,
               const std::vector<double>& strengths,
               const at::Tensor& step) {
  std::vector<at::Tensor> pictures;
  std::vector<std::string> captions;
  for (const SheetRow& row : rows) {
    for (const double strength : strengths) {
      const at::Tensor ws = row.ws + (step * strength).to(at::kFloat);
      const auto noise_seed = static_cast<uint64_t>(row.seed);
      pictures.push_back(strength == 0 ? row.picture
                                       : to_bytes(painter.picture_of_styles(ws, noise_seed)));
      captions.push_back(strength == 0 ? row.name + " 0"
                                       : fmt::format("{} {:+.3g}", row.name, strength));
    }
  }
  return captioned_tile(torch::stack(pictures), captions, static_cast<int64_t>(strengths.size()));
}

}  // namespace

Json draw_directions(Generator& generator, const EditRequest& request, const ClassTable& table) {
  require_styles(generator, "edit", request.how.model);
  Painter painter(generator, request.how);
  const ClassChoice choice = choose_classes(generator, request.how, table);
  painter.use(choice.vectors);
  const std::filesystem::path folder = request.outdir;
  const int64_t level = painter.synthesis().level;
  // What can be refused comes before the samples of w.
  checked_layers(request, static_cast<int64_t>(generator.style_weights(level).size()), level);
  checked_count(request, generator.w_dim());
  const std::vector<SheetRow> rows = sheet_rows(painter, request, choice);
  check_sheet(request, rows);
  if (request.method == DirectionMethod::kGanspace) make_writable_folder(folder);
  const Directions found = find_directions(generator, request, level, choice.tensor());
  make_writable_folder(folder);
  Json result = to_json(found);
  const std::string npz = (folder / "directions.npz").string();
  save_directions(npz, found);
  write_file(folder / "directions.json", result.dump() + "\n");
  const int64_t count = found.vectors.size(0);
  warn_of_earlier(folder, "direction", count, sheet_name);
  Job job(count, "sheets");
  for (int64_t k = 0; k < count; ++k) {
    const std::string file = (folder / (sheet_name(k) + ".png")).string();
    const at::Tensor step = step_of(found, k, found.layers, generator.num_ws());
    write_file(file, encode_png(sheet_of(painter, rows, strengths_of(request), step)));
    Json& direction = result["directions"][static_cast<size_t>(k)];
    direction.erase("vector");
    direction["sheet"] = file;
    job.step();
  }
  result.erase("mean");
  result["npz"] = npz;
  info("{} of layers {} in {}, {} of the {}",
       counted(count, "direction"),
       text_of(LayerList{found.layers}),
       npz,
       shares_text(found),
       request.method == DirectionMethod::kSefa ? "weights' squared length" : "variance of w");
  info("{} in {}, strengths from {} to {}",
       counted(count, "sheet"),
       (folder / "direction00.png").string() + (count > 1 ? ", ..." : ""),
       -request.strength,
       request.strength);
  return result;
}

}  // namespace gantrain
