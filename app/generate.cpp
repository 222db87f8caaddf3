// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <cmath>

#include "core/numpy_random.h"
#include "core/tensors.h"
#include "model_file.h"
#include "npy.h"
#include "report/grid.h"
#include "trainer_verbs.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// What is to be drawn: one latent a picture, and the name of its file.
struct Latents {
  at::Tensor z;  // [N, z_dim] float32
  std::vector<std::string> names;
};

// numpy's RandomState(seed).randn(z_dim): the latents of the reference tools.
Latents latents_of_seeds(const Json& seeds, int64_t z_dim) {
  Latents latents;
  std::vector<at::Tensor> rows;
  for (const Json& seed : seeds) {
    const auto value = seed.get<uint32_t>();
    const std::vector<double> draws = NumpyRandom(value).randn(z_dim);
    rows.push_back(torch::tensor(draws, at::kDouble).to(at::kFloat));
    latents.names.push_back(fmt::format("seed{:04}", value));
  }
  latents.z = torch::stack(rows);
  return latents;
}

Latents latents_of_file(const fs::path& path, int64_t z_dim) {
  Latents latents;
  latents.z = load_npy(path);
  if (latents.z.dim() != 2 || latents.z.size(1) != z_dim) {
    fail(Exit::kInput,
         "{}: shape [{}]; [N, {}] is needed",
         path.string(),
         fmt::join(latents.z.sizes(), ", "),
         z_dim);
  }
  for (int64_t i = 0; i < latents.z.size(0); ++i) latents.names.push_back(fmt::format("z{:04}", i));
  return latents;
}

}  // namespace

int generate(const Json& request) {
  const std::unique_ptr<Generator> generator =
      load_generator(request.at("model").get<std::string>());
  if (request.at("cuda").get<bool>()) move_to(*generator->network(), at::kCUDA, at::kFloat);
  const Latents latents = request.contains("z")
                              ? latents_of_file(request["z"].get<std::string>(), generator->z_dim())
                              : latents_of_seeds(request.at("seeds"), generator->z_dim());
  const bool npy = request.at("format") == "npy";
  const std::string outdir = request.value("outdir", "");
  if (!outdir.empty()) make_writable_folder(outdir);
  std::vector<at::Tensor> all;
  // One at a time: a seed is the same picture in any batch.
  for (int64_t i = 0; i < latents.z.size(0); ++i) {
    const at::Tensor image = generator->images(latents.z.narrow(0, i, 1), {})[0].cpu();
    if (request.contains("grid")) all.push_back(to_bytes(image));
    if (outdir.empty()) continue;
    const fs::path file =
        fs::path(outdir) / (latents.names[static_cast<size_t>(i)] + (npy ? ".npy" : ".png"));
    if (npy) {
      save_npy(file, image);
    } else {
      write_file(file, encode_png(to_image(image)));
    }
  }
  if (request.contains("grid")) {
    const auto columns =
        static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(all.size()))));
    write_file(request["grid"].get<std::string>(), encode_png(tile(torch::stack(all), columns)));
  }
  const int64_t count = latents.z.size(0);
  const std::string where = outdir.empty() ? request["grid"].get<std::string>() : outdir;
  info("{} picture{} in {}", count, count == 1 ? "" : "s", where);
  info("next    gantrain generate --model {} --seeds 64-127 --outdir more",
       request.at("model").get<std::string>());
  return 0;
}

}  // namespace gantrain
