// SPDX-License-Identifier: Apache-2.0
#include "explore/fakes.h"

#include <algorithm>

#include "core/torch.h"
#include "draw/classes.h"
#include "draw/job.h"
#include "draw/latents.h"
#include "draw/painter.h"
#include "explore/picture_vectors.h"
#include "report/grid.h"
#include "util/error.h"

namespace gantrain {

namespace {
constexpr int64_t kMostUnasked = 1024;  // pictures, where no class was asked for
constexpr int64_t kMostFakes = 10'000;
constexpr int64_t kMostBytes = int64_t{2} << 30;  // of the vectors of all fakes

// Throws UserError where there are more pictures like `one` [C, H, W] than can be compared at a
// time. `what`: where they come from.
void check_number(Exit code, const std::string& what, int64_t count, const at::Tensor& one) {
  const auto bytes = static_cast<int64_t>(pixel_vectors(one.unsqueeze(0)).nbytes());
  const int64_t most = std::clamp<int64_t>(kMostBytes / bytes, 1, kMostFakes);
  if (count <= most) return;
  fail(code,
       "{}: {} fakes, at most {} of {}x{} pixels are compared at a time",
       what,
       count,
       most,
       one.size(2),
       one.size(1));
}

}  // namespace

Fakes draw_fakes(Generator& generator,
                 const ModelRequest& how,
                 const std::vector<int64_t>& seeds,
                 const ClassTable& table) {
  Painter painter(generator, how);
  const ClassChoice choice = choose_classes(generator, how, table);
  const LabelledRows rows(static_cast<int64_t>(seeds.size()), choice, kMostUnasked);
  Fakes fakes;
  std::vector<at::Tensor> pictures;
  Job job(rows.size(), "fakes");
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto [row, label] = rows[i];
    const int64_t seed = seeds[static_cast<size_t>(row)];
    const at::Tensor z = latents_of_seeds({seed}, generator.z_dim())[0];
    pictures.push_back(to_bytes(painter.picture(z, static_cast<uint64_t>(seed), label)));
    if (pictures.size() == 1) check_number(Exit::kUsage, "--seeds", rows.size(), pictures.front());
    fakes.names.push_back(fmt::format("seed{:04}{}", seed, class_suffix(label, choice)));
    job.step();
  }
  fakes.pictures = torch::stack(pictures);
  return fakes;
}

Fakes load_fakes(const Dataset& pictures) {
  const at::Tensor first = load_pictures(pictures, 0, 1)[0];
  check_number(Exit::kInput, pictures.description(), pictures.size(), first);
  Fakes fakes;
  for (int64_t i = 0; i < pictures.size(); ++i) fakes.names.push_back(picture_name(pictures, i));
  fakes.pictures = load_pictures(pictures, 0, pictures.size());
  return fakes;
}

}  // namespace gantrain
