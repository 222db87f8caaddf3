// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>
#include <optional>

#include "draw.h"
#include "job.h"
#include "latents.h"
#include "npy.h"
#include "painter.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// One latent a picture, the name of its file, and the key of its noise.
struct Latents {
  at::Tensor rows;      // [N, ...] float32
  bool styles = false;  // rows are w, not z
  std::vector<std::string> names;
  std::vector<uint64_t> noise_seeds;
};

Latents latents_of(const Json& request, Generator& generator) {
  Latents latents;
  if (request.contains("seeds")) {
    latents.rows = latents_of_seeds(request["seeds"], generator.z_dim());
    for (const Json& seed : request["seeds"]) {
      latents.noise_seeds.push_back(seed.get<uint64_t>());
      latents.names.push_back(fmt::format("seed{:04}", latents.noise_seeds.back()));
    }
    return latents;
  }
  latents.styles = request.contains("w");
  if (latents.styles) {
    latents.rows =
        styles_of_file(request["w"].get<std::string>(), generator.num_ws(), generator.w_dim());
  } else {
    latents.rows = latents_of_file(request.at("z").get<std::string>(), generator.z_dim());
  }
  for (int64_t i = 0; i < latents.rows.size(0); ++i) {
    latents.names.push_back(fmt::format("{}{:04}", latents.styles ? "w" : "z", i));
    latents.noise_seeds.push_back(static_cast<uint64_t>(i));
  }
  return latents;
}

}  // namespace

PictureFolder::PictureFolder(const std::filesystem::path& folder, const std::string& format)
    : folder_(folder), npy_(format == "npy") {
  make_writable_folder(folder_);
}

void PictureFolder::write(const std::string& name, const at::Tensor& picture) const {
  if (npy_) {
    save_npy(folder_ / (name + ".npy"), picture);
  } else {
    write_file(folder_ / (name + ".png"), encode_png(to_image(picture)));
  }
}

void draw_pictures(Generator& generator, const Json& request) {
  const bool styles = request.contains("w");
  Painter painter(generator, request, styles);
  if (styles) require_styles(generator, "--w " + text_of(request["w"]), painter.model());
  const Latents latents = latents_of(request, generator);
  std::optional<PictureFolder> folder;
  const std::string outdir = request.value("outdir", "");
  if (!outdir.empty()) folder.emplace(outdir, request.value("format", "png"));
  std::vector<at::Tensor> all;
  const int64_t count = latents.rows.size(0);
  Job job(count, "pictures");
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const at::Tensor image =
        latents.styles ? painter.picture_of_styles(latents.rows[i], latents.noise_seeds[at])
                       : painter.picture(latents.rows[i], latents.noise_seeds[at]);
    if (request.contains("grid")) all.push_back(to_bytes(image));
    if (folder) folder->write(latents.names[at], image);
    job.step();
  }
  if (request.contains("grid")) {
    const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    write_file(request["grid"].get<std::string>(), encode_png(tile(torch::stack(all), columns)));
  }
  info("{} picture{} in {}",
       count,
       count == 1 ? "" : "s",
       outdir.empty() ? request["grid"].get<std::string>() : outdir);
  info("next    gantrain interpolate --model {} --seeds 0-3 --loop{} -o walk.webp",
       shell_quote(painter.model()),
       generator.classes() > 0 ? " --class 0" : "");
}

}  // namespace gantrain
