// SPDX-License-Identifier: Apache-2.0
#include "draw/latents.h"

#include <algorithm>
#include <cmath>

#include "core/npy.h"
#include "core/npz.h"
#include "core/numpy_random.h"
#include "core/torch.h"
#include "util/error.h"

namespace gantrain {

namespace {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A .npy file, or the array `key` of a .npz file, all of it finite.
at::Tensor load_finite(const std::filesystem::path& path, const std::string& key) {
  at::Tensor values = is_npz(path) ? load_npz(path, key) : load_npy(path);
  if (!values.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: holds values that are not finite", path.string());
  return values;
}

at::Tensor mix(const at::Tensor& a, double of_a, const at::Tensor& b, double of_b) {
  return (a.to(at::kDouble) * of_a + b.to(at::kDouble) * of_b).to(a.scalar_type());
}

}  // namespace

at::Tensor latents_of_seeds(const std::vector<int64_t>& seeds, int64_t z_dim) {
  std::vector<at::Tensor> rows;
  for (const int64_t seed : seeds) {
    const std::vector<double> draws = NumpyRandom(static_cast<uint32_t>(seed)).randn(z_dim);
    rows.push_back(torch::tensor(draws, at::kDouble).to(at::kFloat));
  }
  return torch::stack(rows);
}

at::Tensor latents_of_file(const std::filesystem::path& path, int64_t z_dim) {
  const at::Tensor z = load_finite(path, "z");
  if (z.dim() != 2 || z.size(1) != z_dim) {
    fail(Exit::kInput,
         "{}: shape {}; [N, {}] is needed",
         path.string(),
         shape_text(z.sizes()),
         z_dim);
  }
  return z;
}

at::Tensor styles_of_file(const std::filesystem::path& path, int64_t num_ws, int64_t w_dim) {
  const at::Tensor w = load_finite(path, "w");
  if (w.dim() == 2 && w.size(1) == w_dim)
    return w.unsqueeze(1).expand({w.size(0), num_ws, w_dim}).contiguous();
  if (w.dim() != 3 || w.size(1) != num_ws || w.size(2) != w_dim) {
    fail(Exit::kInput,
         "{}: shape {}; [N, {}, {}] (a row a layer) or [N, {}] (one for all layers) is needed",
         path.string(),
         shape_text(w.sizes()),
         num_ws,
         w_dim,
         w_dim);
  }
  return w;
}

at::Tensor linear(const at::Tensor& a, const at::Tensor& b, double t) {
  return mix(a, 1 - t, b, t);
}

at::Tensor spherical(const at::Tensor& a, const at::Tensor& b, double t) {
  const at::Tensor x = a.to(at::kDouble).flatten(), y = b.to(at::kDouble).flatten();
  const double lengths = x.norm().item<double>() * y.norm().item<double>();
  const double cosine = lengths > 0 ? x.dot(y).item<double>() / lengths : 1;
  const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
  constexpr double kParallel = 1e-6;  // sin(angle) below: no great circle, or any
  if (std::sin(angle) < kParallel) return linear(a, b, t);
  return mix(
      a, std::sin((1 - t) * angle) / std::sin(angle), b, std::sin(t * angle) / std::sin(angle));
}

}  // namespace gantrain
