// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>

#include "core/torch.h"
#include "draw/classes.h"
#include "draw/draw.h"
#include "draw/job.h"
#include "draw/latents.h"
#include "draw/painter.h"
#include "draw/picture_folder.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

constexpr int64_t kMostUnasked = 16;  // classes, where none was asked for

void check_layers(const std::vector<int64_t>& layers, const Painter& painter, int64_t num_ws) {
  for (const int64_t layer : layers) {
    if (layer < num_ws) continue;
    fail(Exit::kUsage,
         "--mix: layer {}: {} has {} layers, 0 to {}",
         layer,
         painter.model(),
         num_ws,
         num_ws - 1);
  }
}

// The seeds' own latents and pictures in one class, and what comes of mixing them.
class Mixer {
 public:
  Mixer(Painter& painter, const std::vector<int64_t>& layers, std::optional<int64_t> label)
      : painter_(painter), layers_(torch::tensor(layers, at::kLong)), label_(label) {}

  // [C, H, W]: seed's own picture.
  at::Tensor own(int64_t seed) { return of(seed).picture; }

  at::Tensor mixed(int64_t row, int64_t column) {
    at::Tensor ws = of(row).ws.clone();
    ws.index_copy_(0, layers_, of(column).ws.index_select(0, layers_));
    return painter_.picture_of_styles(ws, static_cast<uint64_t>(row));
  }

 private:
  struct Own {
    at::Tensor ws;  // [num_ws, w_dim]
    at::Tensor picture;
  };

  const Own& of(int64_t seed) {
    Own& own = own_[seed];
    if (!own.ws.defined()) {
      const int64_t z_dim = painter_.generator().z_dim();
      own.ws = painter_.map(latents_of_seeds({seed}, z_dim)[0], label_);
      own.picture = painter_.picture_of_styles(own.ws, static_cast<uint64_t>(seed));
    }
    return own;
  }

  Painter& painter_;
  at::Tensor layers_;
  std::optional<int64_t> label_;
  std::map<int64_t, Own> own_;
};

}  // namespace

void draw_mix(Generator& generator, const GenerateRequest& request, const ClassTable& table) {
  const auto& [rows, columns, layers] = request.mix.value();
  Painter painter(generator, request.how);
  require_styles(generator, "--mix", painter.model());
  check_layers(layers, painter, generator.num_ws());
  const ClassChoice choice = choose_classes(generator, request.how, table);
  const LabelledRows blocks(1, choice, kMostUnasked);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format);

  const auto cells = static_cast<int64_t>((rows.size() + 1) * (columns.size() + 1)) - 1;
  Job job(cells * blocks.size(), "pictures");
  std::vector<at::Tensor> grid;
  for (int64_t i = 0; i < blocks.size(); ++i) {
    const LabelledRow block = blocks[i];
    Mixer mixer(painter, layers, block.label);
    const auto draw = [&](int64_t row, int64_t column) {
      const at::Tensor picture = row == column ? mixer.own(row) : mixer.mixed(row, column);
      const std::string suffix = class_suffix(block.label, choice);
      if (folder) folder->write(fmt::format("{}-{}{}", row, column, suffix), picture);
      job.step();
      return to_bytes(picture);
    };
    const size_t corner = grid.size();
    for (const int64_t column : columns) grid.push_back(draw(column, column));
    grid.insert(grid.begin() + static_cast<int64_t>(corner), torch::zeros_like(grid[corner]));
    for (const int64_t row : rows) {
      grid.push_back(draw(row, row));
      for (const int64_t column : columns) grid.push_back(draw(row, column));
    }
  }
  const std::string file = !request.grid.empty()
                               ? request.grid
                               : (std::filesystem::path(request.outdir) / "grid.png").string();
  write_file(file, encode_png(tile(torch::stack(grid), static_cast<int64_t>(columns.size()) + 1)));
  const std::string classes = class_line(blocks, table);
  info("{} rows and {} columns{} in {}",
       rows.size(),
       columns.size(),
       classes.empty() ? "" : fmt::format(" ({})", classes),
       file);
}

}  // namespace gantrain
