// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <map>
#include <optional>

#include "draw.h"
#include "job.h"
#include "latents.h"
#include "painter.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

void check_layers(const Json& layers, const Painter& painter, int64_t num_ws) {
  for (const Json& layer : layers) {
    if (layer.get<int64_t>() < num_ws) continue;
    fail(Exit::kUsage,
         "--mix: layer {}: {} has {} layers, 0 to {}",
         layer.get<int64_t>(),
         painter.model(),
         num_ws,
         num_ws - 1);
  }
}

// The seeds' own latents and pictures, and what comes of mixing them.
class Mixer {
 public:
  Mixer(Painter& painter, const Json& layers)
      : painter_(painter), layers_(torch::tensor(layers.get<std::vector<int64_t>>(), at::kLong)) {}

  // [C, H, W]: seed's own picture.
  at::Tensor own(uint32_t seed) { return of(seed).picture; }

  at::Tensor mixed(uint32_t row, uint32_t column) {
    at::Tensor ws = of(row).ws.clone();
    ws.index_copy_(0, layers_, of(column).ws.index_select(0, layers_));
    return painter_.picture_of_styles(ws, row);
  }

 private:
  struct Own {
    at::Tensor ws;  // [num_ws, w_dim]
    at::Tensor picture;
  };

  const Own& of(uint32_t seed) {
    Own& own = own_[seed];
    if (!own.ws.defined()) {
      const int64_t z_dim = painter_.generator().z_dim();
      own.ws = painter_.map(latents_of_seeds(Json::array({seed}), z_dim)[0]);
      own.picture = painter_.picture_of_styles(own.ws, seed);
    }
    return own;
  }

  Painter& painter_;
  at::Tensor layers_;
  std::map<uint32_t, Own> own_;
};

}  // namespace

void draw_mix(Generator& generator, const Json& request) {
  const Json& mix = request.at("mix");
  const auto rows = mix.at("rows").get<std::vector<uint32_t>>();
  const auto columns = mix.at("columns").get<std::vector<uint32_t>>();
  Painter painter(generator, request);
  require_styles(generator, "--mix", painter.model());
  check_layers(mix.at("layers"), painter, generator.num_ws());
  Mixer mixer(painter, mix["layers"]);
  std::optional<PictureFolder> folder;
  const std::string outdir = request.value("outdir", "");
  if (!outdir.empty()) folder.emplace(outdir, request.value("format", "png"));

  Job job(static_cast<int64_t>((rows.size() + 1) * (columns.size() + 1)) - 1, "pictures");
  std::vector<at::Tensor> grid;
  const auto draw = [&](uint32_t row, uint32_t column) {
    const at::Tensor picture = row == column ? mixer.own(row) : mixer.mixed(row, column);
    if (folder) folder->write(fmt::format("{}-{}", row, column), picture);
    grid.push_back(to_bytes(picture));
    job.step();
  };
  for (const uint32_t column : columns) draw(column, column);
  grid.insert(grid.begin(), torch::zeros_like(grid.front()));
  for (const uint32_t row : rows) {
    draw(row, row);
    for (const uint32_t column : columns) draw(row, column);
  }
  const std::string file = request.contains("grid")
                               ? request["grid"].get<std::string>()
                               : (std::filesystem::path(outdir) / "grid.png").string();
  write_file(file, encode_png(tile(torch::stack(grid), static_cast<int64_t>(columns.size()) + 1)));
  info("{} rows and {} columns in {}", rows.size(), columns.size(), file);
  info("next    gantrain interpolate --model {} --seeds 0-3 --loop --space w{} -o walk.webp",
       shell_quote(painter.model()),
       generator.classes() > 0 ? " --class 0" : "");
}

}  // namespace gantrain
