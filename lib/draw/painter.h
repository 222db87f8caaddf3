// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// All latents are float32 on the CPU.

// [N, z_dim]: row i is numpy's RandomState(seeds[i]).randn(z_dim), as in the reference tools.
at::Tensor latents_of_seeds(const std::vector<int64_t>& seeds, int64_t z_dim);

// [N, z_dim] of a .npy file, or of "z" of a .npz file. Throws UserError(kInput) naming file and
// both shapes.
at::Tensor latents_of_file(const std::filesystem::path& path, int64_t z_dim);

// [N, num_ws, w_dim] of a .npy file of that shape, or of [N, w_dim], one row for all layers; or of
// the array "w" of a .npz file. Throws UserError(kInput) naming file and both shapes.
at::Tensor styles_of_file(const std::filesystem::path& path, int64_t num_ws, int64_t w_dim);

// Interpolates between a (t = 0) and b (t = 1), exact at both ends: along the great circle through
// both directions (Shoemake 1985), for one vector of any shape, or along a straight line.
at::Tensor spherical(const at::Tensor& a, const at::Tensor& b, double t);
at::Tensor linear(const at::Tensor& a, const at::Tensor& b, double t);

// The classes that a command draws.
struct ClassChoice {
  std::vector<int64_t> labels;  // in the order of drawing; empty for unconditional models
  bool asked = false;           // by --class; if not, they are all classes of the model
  // float32 [M, classes()]: label k stands for row k. Undefined: labels are classes. Of classes
  // among the numbers of vectors, all other numbers are as usual.
  at::Tensor vectors = {};
  // Whether picture i has label i, and not every picture every label; of --label FILE, whose name
  // this is, there must be as many.
  bool in_turn = false;
  std::string file = "";

  // What a generator is given for these labels: int64 [M], float32 [M, L]; undefined without
  // labels.
  at::Tensor tensor() const;
};

// Reads `--class` and `--label`. A model whose labels are vectors draws those of real pictures
// where neither is given, as far as it knows any. `styles_given`: the latents are w, in which the
// label is already. Throws UserError(kUsage) where the model has no labels or not these,
// UserError(kInput) that names the file and the line of a label that does not fit.
ClassChoice choose_classes(const Generator& generator,
                           const ModelRequest& request,
                           const ClassTable& table,
                           bool styles_given = false);

// Whether this value of --label is a file, and not numbers by name.
bool names_label_file(const std::string& text);

// One picture of a command: a row of latents, and the class it is drawn in.
struct LabelledRow {
  int64_t row = 0;
  std::optional<int64_t> label;
};

// Every row in every class, sorted by class. Where no class was asked for and these would be more
// than `most`, row i has class i mod classes instead. It takes no memory for a row.
class LabelledRows {
 public:
  // Throws UserError(kUsage) where a file has neither one label nor as many as there are rows;
  // `each`: what else it could have one for each of, "4 seeds".
  LabelledRows(int64_t rows, const ClassChoice& choice, int64_t most, const std::string& each = "");

  int64_t size() const { return size_; }
  LabelledRow operator[](int64_t index) const;  // index: 0 to size() - 1
  // The classes that have a row, in the order of the rows; empty for an unconditional model.
  const std::vector<int64_t>& labels() const { return labels_; }
  bool are_classes() const { return named_; }
  // All classes, of which there may be more than rows.
  int64_t of_classes() const { return classes_; }

 private:
  std::vector<int64_t> labels_;
  int64_t rows_;
  bool in_turn_;
  bool paired_;  // row i has label i, from the first again after the last
  bool named_;   // labels are classes
  int64_t classes_;
  int64_t size_;
};

// Returns "classes circle, square and 8 more" for a message, and where not every class has a row of
// how many they are; "" for a single one that was asked for or is the only one, or none.
std::string class_line(const LabelledRows& rows, const ClassTable& table);

// Returns "-class2" for a file's name where several classes are drawn, else "".
std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice);

// A direction of w that is in use (draw/directions.h).
struct DirectionEdit {
  at::Tensor step;                // [num_ws, w_dim] float64: what a strength of 1 adds to w
  std::vector<double> strengths;  // one, or those that a walk passes at even distances
};

// A generator with the SynthesisOptions of a request. It draws one picture at a time, so that a
// latent gives the same picture whatever is drawn beside it.
class Painter {
 public:
  // Throws UserError(kUsage) naming the flag that this model cannot use and what it allows.
  // `styles_given`: the latents are w, in which truncation is already.
  Painter(Generator& generator, const ModelRequest& request, bool styles_given = false);

  // From now on labels stand for these rows (ClassChoice::vectors), unless they are undefined.
  void use(const at::Tensor& vectors) { vectors_ = vectors; }

  // z [z_dim] -> [C, H, W] float32 on the CPU, the network's own output. `noise_seed` keys random
  // noise. A conditional model needs a label.
  at::Tensor picture(const at::Tensor& z, uint64_t noise_seed, std::optional<int64_t> label = {});
  // The same of a label that is given as a tensor of one row; undefined: none.
  at::Tensor picture_of(const at::Tensor& z, uint64_t noise_seed, const at::Tensor& label);
  // The layers' latents of z, truncated: [num_ws, w_dim] float32 on the CPU; and the picture of
  // such latents, to which directions are added here.
  at::Tensor map(const at::Tensor& z, std::optional<int64_t> label = {});
  at::Tensor picture_of_styles(const at::Tensor& ws, uint64_t noise_seed);

  // From now on draws pictures that are moved and edited as the request says at this place of a
  // walk, 0 to 1.
  void move_to(double place);

  Generator& generator() { return generator_; }
  const std::string& model() const { return model_; }
  const SynthesisOptions& synthesis() const { return synthesis_; }

 private:
  at::Tensor tensor_of(std::optional<int64_t> label) const;
  void read_truncation(const ModelRequest& request, bool styles_given);
  void read_noise(const ModelRequest& request);
  void read_level(const ModelRequest& request);
  void read_move(const ModelRequest& request);
  at::Tensor synthesised(const at::Tensor& ws, const SynthesisOptions& options);
  at::Tensor checked(at::Tensor picture);  // warns of the first that is not finite

  Generator& generator_;
  std::string model_;  // for messages
  SynthesisOptions synthesis_;
  PictureMove move_;
  MovableInput* movable_ = nullptr;  // the generator, where pictures are moved
  at::Tensor inverse_;               // [3, 3] of the present move
  std::vector<DirectionEdit> edits_;
  at::Tensor added_;    // [num_ws, w_dim] to every w at the present place; undefined: nothing
  at::Tensor vectors_;  // of labels
  bool warned_ = false;
};

// Throws UserError(kUsage) unless the generator has latents of layers: "--mix: MODEL has none".
void require_styles(const Generator& generator, const std::string& flag, const std::string& model);

}  // namespace gantrain
