// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>
#include <optional>

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

// One latent a picture, the name of its file, and the key of its noise.
struct NamedLatents {
  at::Tensor rows;      // [N, ...] float32
  bool styles = false;  // rows are w, not z
  std::vector<std::string> names;
  std::vector<uint64_t> noise_seeds;
};

NamedLatents latents_of(const GenerateRequest& request, Generator& generator) {
  NamedLatents latents;
  if (!request.seeds.empty()) {
    latents.rows = latents_of_seeds(request.seeds, generator.z_dim());
    for (const int64_t seed : request.seeds) {
      latents.noise_seeds.push_back(static_cast<uint64_t>(seed));
      latents.names.push_back(fmt::format("seed{:04}", latents.noise_seeds.back()));
    }
    return latents;
  }
  latents.styles = !request.w.empty();
  if (latents.styles) {
    latents.rows = styles_of_file(request.w, generator.num_ws(), generator.w_dim());
  } else {
    latents.rows = latents_of_file(request.z, generator.z_dim());
  }
  for (int64_t i = 0; i < latents.rows.size(0); ++i) {
    latents.names.push_back(fmt::format("{}{:04}", latents.styles ? "w" : "z", i));
    latents.noise_seeds.push_back(static_cast<uint64_t>(i));
  }
  return latents;
}

}  // namespace

void draw_pictures(Generator& generator, const GenerateRequest& request) {
  const bool styles = !request.w.empty();
  Painter painter(generator, request.how, styles);
  if (styles) require_styles(generator, "--w " + request.w, painter.model());
  const NamedLatents latents = latents_of(request, generator);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format);
  std::vector<at::Tensor> all;
  const int64_t count = latents.rows.size(0);
  Job job(count, "pictures");
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const at::Tensor image =
        latents.styles ? painter.picture_of_styles(latents.rows[i], latents.noise_seeds[at])
                       : painter.picture(latents.rows[i], latents.noise_seeds[at]);
    if (!request.grid.empty()) all.push_back(to_bytes(image));
    if (folder) folder->write(latents.names[at], image);
    job.step();
  }
  if (!request.grid.empty()) {
    const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    write_file(request.grid, encode_png(tile(torch::stack(all), columns)));
  }
  info("{} picture{} in {}",
       count,
       count == 1 ? "" : "s",
       request.outdir.empty() ? request.grid : request.outdir);
}

}  // namespace gantrain
