// SPDX-License-Identifier: Apache-2.0
// Which labels are drawn: what --class and --label were given, files of labels, and the label of
// each picture.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "util/csv.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr size_t kNamed = 6;  // classes that a message names

// Each label once, where it comes first.
std::vector<int64_t> without_repeats(const std::vector<int64_t>& labels) {
  std::vector<int64_t> once;
  for (const int64_t label : labels) {
    if (!contains(once, label)) once.push_back(label);
  }
  return once;
}

std::string name_of(int64_t label, const ClassTable& table) {
  const auto at = static_cast<size_t>(label);
  return at < table.size() ? table[at].name : std::to_string(label);
}

// The rows of a CSV file with labels: its columns in the order of the model's numbers.
class LabelRows {
 public:
  LabelRows(const std::string& file, int64_t numbers, const ClassTable& table)
      : file_(file), numbers_(static_cast<size_t>(numbers)), table_(table) {}

  Tensor all() {
    std::vector<int64_t> lines;
    const auto rows = read_csv(read_file(file_), file_, &lines);
    if (rows.empty()) fail(Exit::kInput, "{}: holds no label", file_);
    named_ = !std::ranges::all_of(rows.front(), [](const std::string& field) {
      return field.empty() || parse_double(field).has_value();
    });
    places_.assign(named_ ? rows.front().size() : numbers_, -1);
    if (named_) {
      find_places(rows.front());
    } else {
      std::iota(places_.begin(), places_.end(), int64_t{0});
    }
    std::vector<Tensor> labels;
    for (size_t i = named_ ? 1 : 0; i < rows.size(); ++i) labels.push_back(row(rows[i], lines[i]));
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
      } else if (contains(kOthers, lower(header[i]))) {
        places_[i] = -1;
      } else {
        fail(
            Exit::kInput,
            "{}: line 1: \"{}\" is neither a finite number nor one of the model's labels by name{}",
            file_,
            header[i],
            did_you_mean(header[i], known));
      }
    }
    for (size_t i = 0; i < header.size(); ++i) {
      const auto before = places_.begin() + static_cast<long>(i);
      if (places_[i] >= 0 && std::count(places_.begin(), before, places_[i]) > 0)
        fail(Exit::kInput, "{}: line 1: {} is there twice", file_, header[i]);
    }
  }

  Tensor row(const std::vector<std::string>& fields, int64_t line) const {
    std::vector<float> label(numbers_, 0);
    for (size_t k = 0; k < table_.ranges.size() && k < numbers_; ++k)
      label[k] = static_cast<float>(table_.ranges[k].usual());
    if (fields.size() != places_.size()) {
      fail(Exit::kInput,
           "{}: line {}: {}, and {} {}",
           file_,
           line,
           counted(static_cast<int64_t>(fields.size()), "field"),
           named_ ? "line 1 has" : "the model's labels have",
           counted(static_cast<int64_t>(places_.size()), named_ ? "name" : "number"));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (places_[i] < 0 || fields[i].empty()) continue;
      const auto value = parse_double(fields[i]);
      const auto number = static_cast<float>(value.value_or(NAN));
      const auto place = static_cast<size_t>(places_[i]);
      if (!std::isfinite(number)) {
        fail(Exit::kInput,
             "{}: line {}: {}: {} is no finite number",
             file_,
             line,
             name_of(places_[i], table_),
             fields[i]);
      }
      label[place] = number;
    }
    return torch::tensor(label);
  }

  const std::string& file_;
  size_t numbers_;
  const ClassTable& table_;
  bool named_ = false;           // the first line has the names of the columns
  std::vector<int64_t> places_;  // of each column among the numbers; -1: it is none of them
};

// [M, numbers]
Tensor labels_of_file(const std::string& file, int64_t numbers, const ClassTable& table) {
  const std::string end = lower(std::filesystem::path(file).extension().string());
  if (end != ".npy" && end != ".npz") return LabelRows(file, numbers, table).all();
  Tensor rows = is_npz(file) ? load_npz(file, "labels") : load_npy(file);
  if (rows.dim() == 1) rows = rows.unsqueeze(0);
  if (rows.dim() != 2 || rows.size(1) != numbers)
    fail(Exit::kInput,
         "{}: shape [{}]; [N, {}] is needed",
         file,
         fmt::join(rows.sizes(), ", "),
         numbers);
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
  if (!names_label_file(request.label))
    return choice_of(
        torch::tensor(vector_of_text("--label", request.label, numbers, known)).unsqueeze(0));
  ClassChoice choice = choice_of(labels_of_file(request.label, numbers, known));
  choice.file = request.label;
  return choice;
}

// Row k has a 1 in place k, and what is usual in the others: [L, L].
Tensor rows_of_classes(const std::vector<int64_t>& asked,
                       const ModelRequest& request,
                       const ClassTable& table) {
  std::vector<double> usual;
  for (const NumberRange& range : table.ranges) usual.push_back(range.usual());
  const Tensor rows =
      torch::tensor(usual).to(at::kFloat).repeat({static_cast<int64_t>(table.size()), 1});
  for (const int64_t k : asked) {
    const NumberRange& range = table.ranges[static_cast<size_t>(k)];
    if (!range.yes_or_no) {
      fail(Exit::kUsage,
           "--class {}: {} is no class, but a value from {:.4g} to {:.4g}: --label {}={:.4g}",
           request.classes,
           name_of(k, table),
           range.least,
           range.most,
           name_of(k, table),
           range.mean);
    }
    rows[k][k] = 1;
  }
  return rows;
}

}  // namespace

Tensor ClassChoice::tensor() const {
  if (labels.empty()) return {};
  const Tensor numbers = torch::tensor(labels, at::kLong);
  return vectors.defined() ? vectors.index_select(0, numbers) : numbers;
}

bool names_label_file(const std::string& text) {
  std::error_code ignored;
  const std::string end = lower(std::filesystem::path(text).extension().string());
  return end == ".csv" || end == ".npy" || end == ".npz" ||
         std::filesystem::is_regular_file(text, ignored);
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
    ClassChoice choice = {without_repeats(parse_classes(request.classes, classes, names)), true};
    if (fits && table.vectors()) choice.vectors = rows_of_classes(choice.labels, request, table);
    return choice;
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

LabelledRows::LabelledRows(int64_t rows,
                           const ClassChoice& choice,
                           int64_t most,
                           const std::string& each)
    : labels_(choice.labels),
      rows_(rows),
      paired_(choice.in_turn),
      named_(!choice.vectors.defined() || choice.asked),
      classes_(static_cast<int64_t>(choice.labels.size())) {
  if (!choice.file.empty() && paired_ && static_cast<int64_t>(labels_.size()) != rows) {
    const std::string all = !each.empty() ? each : rows > 1 ? counted(rows, "picture") : "";
    fail(Exit::kUsage,
         "--label {}: {}; one for all is needed{}{}",
         choice.file,
         counted(static_cast<int64_t>(labels_.size()), "label"),
         all.empty() ? "" : ", or one for each of ",
         all);
  }
  in_turn_ = paired_ || (classes_ > 0 && named_ && !choice.asked && rows > most / classes_);
  size_ = in_turn_ || classes_ == 0 ? rows : rows * classes_;
  if (rows < classes_ && (in_turn_ || rows == 0)) labels_.resize(static_cast<size_t>(rows));
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
  const bool all = static_cast<int64_t>(labels.size()) == rows.of_classes();
  const bool several = labels.size() > 1;
  if (labels.empty() || !rows.are_classes() || (all && !several)) return "";
  std::string line = several ? "classes " : "class ";
  for (size_t i = 0; i < std::min(labels.size(), kNamed); ++i) {
    line += (i == 0 ? "" : ", ") + name_of(labels[i], table);
  }
  if (labels.size() > kNamed) line += fmt::format(" and {} more", labels.size() - kNamed);
  if (!all)
    line += fmt::format("{} of {}; --class chooses", several ? "" : " alone", rows.of_classes());
  return line;
}

std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice) {
  return label && choice.labels.size() > 1 && !choice.in_turn ? fmt::format("-class{}", *label)
                                                              : "";
}

}  // namespace gantrain
