// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/torch.h"
#include "draw/classes.h"
#include "draw/draw.h"
#include "draw/job.h"
#include "draw/latents.h"
#include "draw/painter.h"
#include "draw/picture_folder.h"
#include "report/grid.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

// The latents of a request. Those of seeds are made when they are asked for: there may be millions.
class Latents {
 public:
  Latents(const GenerateRequest& request, Generator& generator)
      : seeds_(request.seeds), z_dim_(generator.z_dim()), styles_(!request.w.empty()) {
    if (!seeds_.empty()) return;
    of_file_ = styles_ ? styles_of_file(request.w, generator.num_ws(), generator.w_dim())
                       : latents_of_file(request.z, z_dim_);
  }

  int64_t size() const { return seeds_.empty() ? of_file_.size(0) : seeds_.size(); }
  bool styles() const { return styles_; }  // they are w, not z
  // Of one picture: its latent, the key of its noise, and the name of its file.
  at::Tensor operator[](int64_t i) const {
    return seeds_.empty() ? of_file_[i] : latents_of_seeds({seeds_[i]}, z_dim_)[0];
  }
  uint64_t noise_seed(int64_t i) const {
    return static_cast<uint64_t>(seeds_.empty() ? i : seeds_[i]);
  }
  std::string name(int64_t i) const {
    const char* what = styles_ ? "w" : "z";
    return fmt::format("{}{:04}", seeds_.empty() ? what : "seed", noise_seed(i));
  }

 private:
  SeedList seeds_;
  int64_t z_dim_;
  bool styles_;
  at::Tensor of_file_;  // [N, ...] float32
};

constexpr int64_t kMostUnasked = 1024;  // pictures, where no class was asked for
constexpr int64_t kWidestClass = 32;    // pictures of one class side by side in a grid

// A grid of pictures in the order of `rows`. Each of several classes begins a line of its own,
// unless the classes only take turns.
Image grid_of(const std::vector<at::Tensor>& pictures, const LabelledRows& rows, int64_t latents) {
  const auto count = static_cast<int64_t>(pictures.size());
  if (count == latents) {
    const auto square = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    return tile(torch::stack(pictures), square);
  }
  const int64_t columns = std::min(latents, kWidestClass);
  std::vector<at::Tensor> cells;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && rows[i].label != rows[i - 1].label) {
      while (static_cast<int64_t>(cells.size()) % columns != 0)
        cells.push_back(torch::zeros_like(pictures.front()));
    }
    cells.push_back(pictures[static_cast<size_t>(i)]);
  }
  return tile(torch::stack(cells), columns);
}

}  // namespace

void draw_pictures(Generator& generator, const GenerateRequest& request, const ClassTable& table) {
  const bool styles = !request.w.empty();
  Painter painter(generator, request.how, styles);
  if (styles) require_styles(generator, "--w " + request.w, painter.model());
  const ClassChoice choice = choose_classes(generator, request.how, table, styles);
  const Latents latents(request, generator);
  const LabelledRows rows(latents.size(), choice, kMostUnasked);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format);
  std::vector<at::Tensor> all;
  Job job(rows.size(), "pictures");
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto [row, label] = rows[i];
    const uint64_t noise_seed = latents.noise_seed(row);
    const at::Tensor image = latents.styles() ? painter.picture_of_styles(latents[row], noise_seed)
                                              : painter.picture(latents[row], noise_seed, label);
    if (!request.grid.empty()) all.push_back(to_bytes(image));
    if (folder) folder->write(latents.name(row) + class_suffix(label, choice), image);
    job.step();
  }
  if (!request.grid.empty())
    write_file(request.grid, encode_png(grid_of(all, rows, latents.size())));
  const std::string classes = class_line(rows, table);
  info("{} picture{}{} in {}",
       rows.size(),
       rows.size() == 1 ? "" : "s",
       classes.empty() ? "" : fmt::format(" ({})", classes),
       request.outdir.empty() ? request.grid : request.outdir);
}

}  // namespace gantrain
