// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>
#include <ranges>

#include "config/value.h"
#include "core/random.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/directions.h"
#include "util/csv.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A .npy file, or the array `key` of a .npz file, all of it finite.
Tensor load_finite(const std::filesystem::path& path, const std::string& key) {
  Tensor values = is_npz(path) ? load_npz(path, key) : load_npy(path);
  if (!values.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: holds values that are not finite", path.string());
  return values;
}

Tensor mix(const Tensor& a, double of_a, const Tensor& b, double of_b) {
  return (a.to(at::kDouble) * of_a + b.to(at::kDouble) * of_b).to(a.scalar_type());
}

}  // namespace

Tensor latents_of_seeds(const std::vector<int64_t>& seeds, int64_t z_dim) {
  std::vector<Tensor> rows;
  for (const int64_t seed : seeds) {
    const std::vector<double> draws = NumpyRandom(static_cast<uint32_t>(seed)).randn(z_dim);
    rows.push_back(torch::tensor(draws, at::kDouble).to(at::kFloat));
  }
  return torch::stack(rows);
}

Tensor latents_of_file(const std::filesystem::path& path, int64_t z_dim) {
  const Tensor z = load_finite(path, "z");
  if (z.dim() != 2 || z.size(1) != z_dim) {
    fail(Exit::kInput,
         "{}: shape {}; [N, {}] is needed",
         path.string(),
         shape_text(z.sizes()),
         z_dim);
  }
  return z;
}

Tensor styles_of_file(const std::filesystem::path& path, int64_t num_ws, int64_t w_dim) {
  const Tensor w = load_finite(path, "w");
  if (w.dim() == 2 && w.size(1) == w_dim)
    return w.unsqueeze(1).expand({w.size(0), num_ws, w_dim}).contiguous();
  if (w.dim() != 3 || w.size(1) != num_ws || w.size(2) != w_dim) {
    fail(Exit::kInput,
         "{}: shape {}; [N, {}, {}] (a row a layer) or [N, {}] (one for all layers) is needed",
         path.string(),
         shape_text(w.sizes()),
         num_ws,
         w_dim,
         w_dim);
  }
  return w;
}

Tensor linear(const Tensor& a, const Tensor& b, double t) { return mix(a, 1 - t, b, t); }

Tensor spherical(const Tensor& a, const Tensor& b, double t) {
  const Tensor x = a.to(at::kDouble).flatten(), y = b.to(at::kDouble).flatten();
  const double lengths = x.norm().item<double>() * y.norm().item<double>();
  const double cosine = lengths > 0 ? x.dot(y).item<double>() / lengths : 1;
  const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
  constexpr double kParallel = 1e-6;  // sin(angle) below: no great circle, or any
  if (std::sin(angle) < kParallel) return linear(a, b, t);
  return mix(
      a, std::sin((1 - t) * angle) / std::sin(angle), b, std::sin(t * angle) / std::sin(angle));
}

namespace {

constexpr size_t kNamed = 6;  // classes that a message names

// Each label once, where it comes first.
std::vector<int64_t> without_repeats(const std::vector<int64_t>& labels) {
  std::vector<int64_t> once;
  for (const int64_t label : labels) {
    if (std::find(once.begin(), once.end(), label) == once.end()) once.push_back(label);
  }
  return once;
}

std::string name_of(int64_t label, const ClassTable& table) {
  const auto at = static_cast<size_t>(label);
  return at < table.size() ? table[at].name : std::to_string(label);
}

}  // namespace

namespace {

// The rows of a CSV file with labels: its columns in the order of the model's numbers.
class LabelRows {
 public:
  LabelRows(const std::string& file, int64_t numbers, const ClassTable& table)
      : file_(file), numbers_(static_cast<size_t>(numbers)), table_(table) {}

  Tensor all() {
    std::vector<int64_t> lines;
    const auto rows = read_csv(read_file(file_), file_, &lines);
    if (rows.empty()) fail(Exit::kInput, "{}: holds no label", file_);
    const bool header = !std::ranges::all_of(rows.front(), [](const std::string& field) {
      return field.empty() || parse_double(field).has_value();
    });
    places_.resize(rows.front().size());
    std::iota(places_.begin(), places_.end(), int64_t{0});
    if (header) find_places(rows.front());
    std::vector<Tensor> labels;
    for (size_t i = header ? 1 : 0; i < rows.size(); ++i) labels.push_back(row(rows[i], lines[i]));
    if (labels.empty()) fail(Exit::kInput, "{}: holds no label", file_);
    return torch::stack(labels);
  }

 private:
  // Columns with the usual names of files and seeds are passed over.
  void find_places(const std::vector<std::string>& header) {
    static const std::vector<std::string> kOthers = {
        "file_name", "filename", "file", "path", "image", "picture", "seed", "id"};
    std::vector<std::string> known;
    for (const ClassRow& one : table_) known.push_back(one.name);
    for (size_t i = 0; i < header.size(); ++i) {
      const auto found = std::ranges::find(known, header[i]);
      const auto place = parse_int(header[i]);
      if (found != known.end()) {
        places_[i] = found - known.begin();
      } else if (place && *place >= 0 && *place < static_cast<int64_t>(numbers_)) {
        places_[i] = *place;
      } else if (std::ranges::count(kOthers, lower(header[i])) > 0) {
        places_[i] = -1;
      } else {
        fail(Exit::kInput,
             "{}: line 1: \"{}\" is no number of the model's labels{}",
             file_,
             header[i],
             did_you_mean(header[i], known));
      }
    }
  }

  Tensor row(const std::vector<std::string>& fields, int64_t line) const {
    std::vector<float> label(numbers_, 0);
    for (size_t k = 0; k < table_.ranges.size() && k < numbers_; ++k)
      label[k] = static_cast<float>(table_.ranges[k].usual());
    const bool by_place = std::ranges::equal(
        places_, std::views::iota(int64_t{0}, static_cast<int64_t>(places_.size())));
    const size_t wanted = by_place ? numbers_ : places_.size();
    if (fields.size() != wanted || fields.size() != places_.size()) {
      fail(Exit::kInput,
           "{}: line {}: {}, and the model's labels have {}",
           file_,
           line,
           counted(static_cast<int64_t>(fields.size()), "field"),
           counted(static_cast<int64_t>(wanted), "number"));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (places_[i] < 0 || fields[i].empty()) continue;
      const auto value = parse_double(fields[i]);
      const auto number = static_cast<float>(value.value_or(NAN));
      if (!std::isfinite(number))
        fail(Exit::kInput, "{}: line {}: {} is no finite number", file_, line, fields[i]);
      label[static_cast<size_t>(places_[i])] = number;
    }
    return torch::tensor(label);
  }

  const std::string& file_;
  size_t numbers_;
  const ClassTable& table_;
  std::vector<int64_t> places_;  // of each column among the numbers; -1: it is none of them
};

bool names_file(const std::string& text) {
  std::error_code ignored;
  const std::string end = lower(std::filesystem::path(text).extension().string());
  return end == ".csv" || end == ".npy" || end == ".npz" ||
         std::filesystem::is_regular_file(text, ignored);
}

// [M, numbers]
Tensor labels_of_file(const std::string& file, int64_t numbers, const ClassTable& table) {
  const std::string end = lower(std::filesystem::path(file).extension().string());
  if (end != ".npy" && end != ".npz") return LabelRows(file, numbers, table).all();
  Tensor rows = is_npz(file) ? load_npz(file, "labels") : load_npy(file);
  if (rows.dim() == 1) rows = rows.unsqueeze(0);
  if (rows.dim() != 2 || rows.size(1) != numbers)
    fail(Exit::kInput, "{}: shape {}; [N, {}] is needed", file, shape_text(rows.sizes()), numbers);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    if (!rows[i].isfinite().all().item<bool>())
      fail(Exit::kInput, "{}: row {} holds a value that is not finite", file, i);
  }
  return rows;
}

// One row for each label of a model.
ClassChoice choice_of(const Tensor& vectors) {
  ClassChoice choice{.labels = std::vector<int64_t>(static_cast<size_t>(vectors.size(0)))};
  std::iota(choice.labels.begin(), choice.labels.end(), int64_t{0});
  choice.vectors = vectors;
  choice.in_turn = vectors.size(0) > 1;
  return choice;
}

ClassChoice choose_label(const Generator& generator,
                         const ModelRequest& request,
                         const ClassTable& table) {
  const std::string flag = "--label " + request.label;
  const int64_t numbers = generator.classes();
  if (numbers == 0)
    fail(Exit::kUsage, "{}: {} is unconditional; leave it out", flag, request.model);
  if (!generator.takes_vectors()) {
    fail(
        Exit::kUsage, "{}: {} is conditional on one class a picture: --class", flag, request.model);
  }
  const ClassTable& known = static_cast<int64_t>(table.size()) == numbers ? table : ClassTable{};
  if (!names_file(request.label))
    return choice_of(
        torch::tensor(vector_of_text("--label", request.label, numbers, known)).unsqueeze(0));
  ClassChoice choice = choice_of(labels_of_file(request.label, numbers, known));
  choice.file = request.label;
  return choice;
}

}  // namespace

Tensor ClassChoice::tensor() const {
  if (labels.empty()) return {};
  const Tensor numbers = torch::tensor(labels, at::kLong);
  return vectors.defined() ? vectors.index_select(0, numbers) : numbers;
}

ClassChoice choose_classes(const Generator& generator,
                           const ModelRequest& request,
                           const ClassTable& table,
                           bool styles_given) {
  const bool asked = !request.classes.empty();
  if (!request.label.empty() && styles_given) {
    fail(Exit::kUsage,
         "--label {}: latents of layers (--w) have their label in them; leave it out",
         request.label);
  }
  if (!request.label.empty()) return choose_label(generator, request, table);
  if (asked && styles_given) {
    fail(Exit::kUsage,
         "--class {}: latents of layers (--w) have their class in them; leave it out",
         request.classes);
  }
  const int64_t classes = generator.classes();
  if (asked && classes == 0) {
    fail(Exit::kUsage,
         "--class {}: {} is unconditional; models that were trained with labels have classes; "
         "leave it out",
         request.classes,
         request.model);
  }
  if (classes == 0 || styles_given) return {};
  if (asked) {
    // A table of another length belongs to other classes: its names say nothing about these.
    const bool fits = static_cast<int64_t>(table.size()) == classes;
    const ClassTable& names = fits ? table : ClassTable{};
    return {without_repeats(parse_classes(request.classes, classes, names)), true};
  }
  if (table.vectors() && !table.examples.empty() && static_cast<int64_t>(table.size()) == classes) {
    std::vector<Tensor> rows;
    for (const std::vector<float>& example : table.examples) rows.push_back(torch::tensor(example));
    return choice_of(torch::stack(rows));
  }
  ClassChoice all{std::vector<int64_t>(static_cast<size_t>(classes)), false};
  std::iota(all.labels.begin(), all.labels.end(), 0);
  return all;
}

LabelledRows::LabelledRows(int64_t rows, const ClassChoice& choice, int64_t most)
    : labels_(choice.labels),
      rows_(rows),
      paired_(choice.in_turn),
      named_(!choice.vectors.defined()) {
  if (!choice.file.empty() && paired_ && static_cast<int64_t>(labels_.size()) != rows) {
    fail(Exit::kUsage,
         "--label {}: {}; one for all is needed, or one for each of {}",
         choice.file,
         counted(static_cast<int64_t>(labels_.size()), "label"),
         counted(rows, "picture"));
  }
  const auto classes = static_cast<int64_t>(labels_.size());
  in_turn_ = paired_ || (classes > 0 && named_ && !choice.asked && rows > most / classes);
  size_ = in_turn_ || classes == 0 ? rows : rows * classes;
  if (rows < classes && (in_turn_ || rows == 0)) labels_.resize(static_cast<size_t>(rows));
}

LabelledRow LabelledRows::operator[](int64_t index) const {
  if (labels_.empty()) return {index, std::nullopt};
  const auto classes = static_cast<int64_t>(labels_.size());
  if (paired_) return {index, labels_[static_cast<size_t>(index % classes)]};
  int64_t row = index % rows_;
  int64_t nth = index / rows_;  // of the classes
  if (in_turn_) {
    // The first classes have one row more where the rows are no multiple of the classes.
    const int64_t each = rows_ / classes;
    const int64_t longer = rows_ % classes;
    const int64_t in_longer = longer * (each + 1);
    const int64_t rest = index - in_longer;
    nth = rest < 0 ? index / (each + 1) : longer + rest / each;
    row = (rest < 0 ? index % (each + 1) : rest % each) * classes + nth;
  }
  return {row, labels_[static_cast<size_t>(nth)]};
}

std::string class_line(const LabelledRows& rows, const ClassTable& table) {
  const std::vector<int64_t>& labels = rows.labels();
  if (labels.size() < 2 || !rows.are_classes()) return "";
  std::string line = "classes ";
  for (size_t i = 0; i < std::min(labels.size(), kNamed); ++i) {
    line += (i == 0 ? "" : ", ") + name_of(labels[i], table);
  }
  if (labels.size() > kNamed) line += fmt::format(" and {} more", labels.size() - kNamed);
  return line;
}

std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice) {
  return label && choice.labels.size() > 1 && !choice.in_turn ? fmt::format("-class{}", *label)
                                                              : "";
}

namespace {

Tensor to_cpu(const Tensor& tensor) { return tensor.detach().to(at::kFloat).cpu(); }

bool moves(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return value != 0; });
}

// The value at a place from 0 to 1 of a way that passes these values at even distances.
double value_at(const std::vector<double>& values, double place) {
  const double last = static_cast<double>(values.size()) - 1, at = place * last;
  const double from = std::min(std::floor(at), std::max(last - 1, 0.0));
  const auto i = static_cast<size_t>(from);
  return i + 1 < values.size() ? std::lerp(values[i], values[i + 1], at - from) : values[i];
}

}  // namespace

void require_styles(const Generator& generator, const std::string& flag, const std::string& model) {
  if (generator.num_ws() > 0) return;
  fail(Exit::kUsage,
       "{}: {} has no w space; style-based models have it (StyleGAN 1, 2 and 3)",
       flag,
       model);
}

Painter::Painter(Generator& generator, const ModelRequest& request, bool styles_given)
    : generator_(generator), model_(request.model) {
  read_truncation(request, styles_given);
  read_noise(request);
  read_level(request);
  read_move(request);
  edits_ = load_edits(generator_, request.edits, model_);
  move_to(0);
}

void Painter::read_truncation(const ModelRequest& request, bool styles_given) {
  if (!request.trunc) return;
  // Psi 1 leaves every latent as it is, so that models without a w space take it, too.
  if (*request.trunc == 1 && !request.trunc_cutoff) return;
  synthesis_.trunc = *request.trunc;
  const std::string flag = fmt::format("--trunc {}", synthesis_.trunc);
  require_styles(generator_, flag, model_);
  if (styles_given)
    fail(Exit::kUsage, "{}: latents of layers (--w) are drawn as they are; leave it out", flag);
  if (!request.trunc_cutoff) return;
  synthesis_.trunc_cutoff = request.trunc_cutoff;
  if (*synthesis_.trunc_cutoff > generator_.num_ws()) {
    fail(Exit::kUsage,
         "--trunc-cutoff {}: {} has {}",
         *synthesis_.trunc_cutoff,
         model_,
         counted(generator_.num_ws(), "layer"));
  }
}

void Painter::read_noise(const ModelRequest& request) {
  if (!request.noise_mode) return;
  if (!generator_.has_noise()) {
    fail(Exit::kUsage,
         "--noise-mode {}: {} has no noise inputs; StyleGAN 1 and 2 and FastGAN have them",
         names(NoiseMode{})[static_cast<size_t>(*request.noise_mode)],
         model_);
  }
  synthesis_.noise = *request.noise_mode;
}

void Painter::read_level(const ModelRequest& request) {
  const std::vector<int64_t> levels = generator_.levels();
  if (levels.empty() && (request.level || request.alpha)) {
    fail(Exit::kUsage,
         "{}: {} has no stages; progressive models have them (PGGAN, StyleGAN 1)",
         request.level ? fmt::format("--level {}", *request.level)
                       : "--alpha " + text_of(*request.alpha),
         model_);
  }
  synthesis_.alpha = request.alpha.value_or(synthesis_.alpha);
  synthesis_.level = request.level.value_or(synthesis_.level);
  if (synthesis_.level != 0 && std::count(levels.begin(), levels.end(), synthesis_.level) == 0) {
    fail(Exit::kUsage,
         "--level {}: {} has stages of {} pixels",
         synthesis_.level,
         model_,
         fmt::join(levels, ", "));
  }
}

void Painter::read_move(const ModelRequest& request) {
  move_ = request.move;
  const bool turns = moves(move_.degrees);
  if (!turns && !moves(move_.right) && !moves(move_.down)) return;
  movable_ = dynamic_cast<MovableInput*>(&generator_);
  if (movable_ == nullptr || (turns && !movable_->rotates())) {
    fail(Exit::kUsage,
         "{}: the input of {} cannot be {}; StyleGAN3's can",
         turns ? fmt::format("--rotate {}", fmt::join(move_.degrees, ":")) : "--translate",
         model_,
         turns ? "rotated" : "moved");
  }
}

// The inverse of [[c, s, x], [-s, c, y], [0, 0, 1]], y down (Karras et al. 2021, sec. 3.1).
void Painter::move_to(double place) {
  added_ = Tensor();
  for (const DirectionEdit& edit : edits_) {
    const Tensor part = edit.step * value_at(edit.strengths, place);
    added_ = added_.defined() ? added_ + part : part;
  }
  if (movable_ == nullptr) return;
  const double angle = value_at(move_.degrees, place) / 180 * std::numbers::pi;
  const double x = value_at(move_.right, place), y = value_at(move_.down, place);
  const double c = std::cos(angle), s = std::sin(angle);
  inverse_ = torch::tensor({c, -s, s * y - c * x, s, c, -s * x - c * y, 0.0, 0.0, 1.0}, at::kDouble)
                 .reshape({3, 3});
}

Tensor Painter::tensor_of(std::optional<int64_t> label) const {
  if (!label) return {};
  return vectors_.defined() ? vectors_.narrow(0, *label, 1) : torch::full({1}, *label, at::kLong);
}

Tensor Painter::picture(const Tensor& z, uint64_t noise_seed, std::optional<int64_t> label) {
  return picture_of(z, noise_seed, tensor_of(label));
}

Tensor Painter::picture_of(const Tensor& z, uint64_t noise_seed, const Tensor& label) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  const Tensor one = z.unsqueeze(0);
  if (movable_ == nullptr && !added_.defined())
    return to_cpu(generator_.images(one, label, options)[0]);
  return to_cpu(synthesised(generator_.map(one, label, options), options)[0]);
}

Tensor Painter::synthesised(const Tensor& ws, const SynthesisOptions& options) {
  const Tensor all = added_.defined() ? ws + added_.to(ws.options()) : ws;
  return movable_ == nullptr ? generator_.synthesize(all, options)
                             : movable_->synthesize_moved(all, inverse_, options);
}

Tensor Painter::map(const Tensor& z, std::optional<int64_t> label) {
  return to_cpu(generator_.map(z.unsqueeze(0), tensor_of(label), synthesis_)[0]);
}

Tensor Painter::picture_of_styles(const Tensor& ws, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return to_cpu(synthesised(ws.unsqueeze(0), options)[0]);
}

}  // namespace gantrain
