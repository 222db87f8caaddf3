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
};

// Reads `--class`. `styles_given`: the latents are w, in which the class is already. Throws
// UserError(kUsage) where the model has no classes or not these.
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
// than `most`, row i has class i mod classes instead. It takes no memory for a row.
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

// Returns "classes circle, square and 8 more" for a message; "" for a single one or none.
std::string class_line(const LabelledRows& rows, const ClassTable& table);

// Returns "-class2" for a file's name where several classes are drawn, else "".
std::string class_suffix(const std::optional<int64_t>& label, const ClassChoice& choice);

// A generator with the SynthesisOptions of a request. It draws one picture at a time, so that a
// latent gives the same picture whatever is drawn beside it.
class Painter {
 public:
  // Throws UserError(kUsage) naming the flag that this model cannot use and what it allows.
  // `styles_given`: the latents are w, in which truncation is already.
  Painter(Generator& generator, const ModelRequest& request, bool styles_given = false);

  // z [z_dim] -> [C, H, W] float32 on the CPU, the network's own output. `noise_seed` keys random
  // noise. A conditional model needs a label.
  at::Tensor picture(const at::Tensor& z, uint64_t noise_seed, std::optional<int64_t> label = {});
  // The layers' latents of z, truncated: [num_ws, w_dim] float32 on the CPU; and their picture.
  at::Tensor map(const at::Tensor& z, std::optional<int64_t> label = {});
  at::Tensor picture_of_styles(const at::Tensor& ws, uint64_t noise_seed);

  // From now on draws pictures that are moved as the request says at this place of a walk, 0 to 1.
  void move_to(double place);

  Generator& generator() { return generator_; }
  const std::string& model() const { return model_; }
  const SynthesisOptions& synthesis() const { return synthesis_; }

 private:
  void read_truncation(const ModelRequest& request, bool styles_given);
  void read_noise(const ModelRequest& request);
  void read_level(const ModelRequest& request);
  void read_move(const ModelRequest& request);

  Generator& generator_;
  std::string model_;  // for messages
  SynthesisOptions synthesis_;
  PictureMove move_;
  MovableInput* movable_ = nullptr;  // the generator, where pictures are moved
  at::Tensor inverse_;               // [3, 3] of the present move
};

// Throws UserError(kUsage) unless the generator has latents of layers: "--mix: MODEL has none".
void require_styles(const Generator& generator, const std::string& flag, const std::string& model);

}  // namespace gantrain
