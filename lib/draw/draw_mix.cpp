// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <map>
#include <optional>

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

// The seeds' own latents and pictures, and what comes of mixing them.
class Mixer {
 public:
  Mixer(Painter& painter, const std::vector<int64_t>& layers)
      : painter_(painter), layers_(torch::tensor(layers, at::kLong)) {}

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
      own.ws = painter_.map(latents_of_seeds({seed}, z_dim)[0]);
      own.picture = painter_.picture_of_styles(own.ws, static_cast<uint64_t>(seed));
    }
    return own;
  }

  Painter& painter_;
  at::Tensor layers_;
  std::map<int64_t, Own> own_;
};

}  // namespace

void draw_mix(Generator& generator, const GenerateRequest& request) {
  const auto& [rows, columns, layers] = request.mix.value();
  Painter painter(generator, request.how);
  require_styles(generator, "--mix", painter.model());
  check_layers(layers, painter, generator.num_ws());
  Mixer mixer(painter, layers);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format);

  Job job(static_cast<int64_t>((rows.size() + 1) * (columns.size() + 1)) - 1, "pictures");
  std::vector<at::Tensor> grid;
  const auto draw = [&](int64_t row, int64_t column) {
    const at::Tensor picture = row == column ? mixer.own(row) : mixer.mixed(row, column);
    if (folder) folder->write(fmt::format("{}-{}", row, column), picture);
    grid.push_back(to_bytes(picture));
    job.step();
  };
  for (const int64_t column : columns) draw(column, column);
  grid.insert(grid.begin(), torch::zeros_like(grid.front()));
  for (const int64_t row : rows) {
    draw(row, row);
    for (const int64_t column : columns) draw(row, column);
  }
  const std::string file = !request.grid.empty()
                               ? request.grid
                               : (std::filesystem::path(request.outdir) / "grid.png").string();
  write_file(file, encode_png(tile(torch::stack(grid), static_cast<int64_t>(columns.size()) + 1)));
  info("{} rows and {} columns in {}", rows.size(), columns.size(), file);
}

}  // namespace gantrain
