// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// The classes that a command draws.
struct ClassChoice {
  std::vector<int64_t> labels;  // in the order of drawing; empty for unconditional models
  bool asked = false;           // by --class; if not, they are all classes of the model
};

// Reads `--class`. The table may be empty. `styles_given`: the latents are w, in which the class is
// already. Throws UserError(kUsage) where the model has no classes or not these.
ClassChoice choose_classes(const Generator& generator,
                           const ModelRequest& request,
                           const ClassTable& table,
                           bool styles_given = false);

// One picture of a command: a row of latents, and the class it is drawn in.
struct LabelledRow {
  int64_t row = 0;
  std::optional<int64_t> label;
};

// Every row in every class, sorted by class. Where no class was asked for and these would be more
// than `most`, the rows take the classes in turn instead: row i has class i mod classes. It takes
// no memory for a row.
class LabelledRows {
 public:
  LabelledRows(int64_t rows, const ClassChoice& choice, int64_t most);

  int64_t size() const { return size_; }
  LabelledRow operator[](int64_t index) const;  // index: 0 to size() - 1
  // The classes that have a row, in the order of the rows; empty for an unconditional model.
  const std::vector<int64_t>& labels() const { return labels_; }

 private:
  std::vector<int64_t> labels_;
  int64_t rows_;
  bool in_turn_;
  int64_t size_;
};

// Returns the classes for a message, "classes circle, square and 8 more"; "" for a single one or
// none.
std::string class_line(const LabelledRows& rows, const ClassTable& table);

// Returns the part of a file's name that tells the class: "-class2" where several classes are
// drawn, else "".
std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice);

}  // namespace gantrain
