// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <numeric>

#include "config/value.h"
#include "core/random.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/directions.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A .npy file, or the array `key` of a .npz file, all of it finite.
Tensor load_finite(const std::filesystem::path& path, const std::string& key) {
  Tensor values = is_npz(path) ? load_npz(path, key) : load_npy(path);
  if (!values.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: holds values that are not finite", path.string());
  return values;
}

Tensor mix(const Tensor& a, double of_a, const Tensor& b, double of_b) {
  return (a.to(at::kDouble) * of_a + b.to(at::kDouble) * of_b).to(a.scalar_type());
}

}  // namespace

Tensor latents_of_seeds(const std::vector<int64_t>& seeds, int64_t z_dim) {
  std::vector<Tensor> rows;
  for (const int64_t seed : seeds) {
    const std::vector<double> draws = NumpyRandom(static_cast<uint32_t>(seed)).randn(z_dim);
    rows.push_back(torch::tensor(draws, at::kDouble).to(at::kFloat));
  }
  return torch::stack(rows);
}

Tensor latents_of_file(const std::filesystem::path& path, int64_t z_dim) {
  const Tensor z = load_finite(path, "z");
  if (z.dim() != 2 || z.size(1) != z_dim) {
    fail(Exit::kInput,
         "{}: shape {}; [N, {}] is needed",
         path.string(),
         shape_text(z.sizes()),
         z_dim);
  }
  return z;
}

Tensor styles_of_file(const std::filesystem::path& path, int64_t num_ws, int64_t w_dim) {
  const Tensor w = load_finite(path, "w");
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

Tensor linear(const Tensor& a, const Tensor& b, double t) { return mix(a, 1 - t, b, t); }

Tensor spherical(const Tensor& a, const Tensor& b, double t) {
  const Tensor x = a.to(at::kDouble).flatten(), y = b.to(at::kDouble).flatten();
  const double lengths = x.norm().item<double>() * y.norm().item<double>();
  const double cosine = lengths > 0 ? x.dot(y).item<double>() / lengths : 1;
  const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
  constexpr double kParallel = 1e-6;  // sin(angle) below: no great circle, or any
  if (std::sin(angle) < kParallel) return linear(a, b, t);
  return mix(
      a, std::sin((1 - t) * angle) / std::sin(angle), b, std::sin(t * angle) / std::sin(angle));
}

namespace {

Tensor to_cpu(const Tensor& tensor) { return tensor.detach().to(at::kFloat).cpu(); }

bool moves(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return value != 0; });
}

// The value at a place from 0 to 1 of a way that passes these values at even distances.
double value_at(const std::vector<double>& values, double place) {
  const double last = static_cast<double>(values.size()) - 1, at = place * last;
  const double from = std::min(std::floor(at), std::max(last - 1, 0.0));
  const auto i = static_cast<size_t>(from);
  return i + 1 < values.size() ? std::lerp(values[i], values[i + 1], at - from) : values[i];
}

}  // namespace

void require_styles(const Generator& generator, const std::string& flag, const std::string& model) {
  if (generator.num_ws() > 0) return;
  fail(Exit::kUsage,
       "{}: {} has no w space; style-based models have it (StyleGAN 1, 2 and 3)",
       flag,
       model);
}

Painter::Painter(Generator& generator, const ModelRequest& request, bool styles_given)
    : generator_(generator), model_(request.model) {
  read_truncation(request, styles_given);
  read_noise(request);
  read_level(request);
  read_move(request);
  edits_ = load_edits(generator_, request.edits, model_);
  move_to(0);
}

void Painter::read_truncation(const ModelRequest& request, bool styles_given) {
  if (!request.trunc) return;
  // Psi 1 leaves every latent as it is, so that models without a w space take it, too.
  if (*request.trunc == 1 && !request.trunc_cutoff) return;
  synthesis_.trunc = *request.trunc;
  const std::string flag = fmt::format("--trunc {}", synthesis_.trunc);
  require_styles(generator_, flag, model_);
  if (styles_given)
    fail(Exit::kUsage, "{}: latents of layers (--w) are drawn as they are; leave it out", flag);
  if (!request.trunc_cutoff) return;
  synthesis_.trunc_cutoff = request.trunc_cutoff;
  if (*synthesis_.trunc_cutoff > generator_.num_ws()) {
    fail(Exit::kUsage,
         "--trunc-cutoff {}: {} has {}",
         *synthesis_.trunc_cutoff,
         model_,
         counted(generator_.num_ws(), "layer"));
  }
}

void Painter::read_noise(const ModelRequest& request) {
  if (!request.noise_mode) return;
  if (!generator_.has_noise()) {
    fail(Exit::kUsage,
         "--noise-mode {}: {} has no noise inputs; StyleGAN 1 and 2 and FastGAN have them",
         names(NoiseMode{})[static_cast<size_t>(*request.noise_mode)],
         model_);
  }
  synthesis_.noise = *request.noise_mode;
}

void Painter::read_level(const ModelRequest& request) {
  const std::vector<int64_t> levels = generator_.levels();
  if (levels.empty() && (request.level || request.alpha)) {
    fail(Exit::kUsage,
         "{}: {} has no stages; progressive models have them (PGGAN, StyleGAN 1)",
         request.level ? fmt::format("--level {}", *request.level)
                       : "--alpha " + text_of(*request.alpha),
         model_);
  }
  synthesis_.alpha = request.alpha.value_or(synthesis_.alpha);
  synthesis_.level = request.level.value_or(synthesis_.level);
  if (synthesis_.level != 0 && !contains(levels, synthesis_.level)) {
    fail(Exit::kUsage,
         "--level {}: {} has stages of {} pixels",
         synthesis_.level,
         model_,
         fmt::join(levels, ", "));
  }
}

void Painter::read_move(const ModelRequest& request) {
  move_ = request.move;
  const bool turns = moves(move_.degrees);
  if (!turns && !moves(move_.right) && !moves(move_.down)) return;
  movable_ = dynamic_cast<MovableInput*>(&generator_);
  if (movable_ == nullptr || (turns && !movable_->rotates())) {
    fail(Exit::kUsage,
         "{}: the input of {} cannot be {}; StyleGAN3's can",
         turns ? fmt::format("--rotate {}", fmt::join(move_.degrees, ":")) : "--translate",
         model_,
         turns ? "rotated" : "moved");
  }
}

// The inverse of [[c, s, x], [-s, c, y], [0, 0, 1]], y down (Karras et al. 2021, sec. 3.1).
void Painter::move_to(double place) {
  added_ = Tensor();
  for (const DirectionEdit& edit : edits_) {
    const Tensor part = edit.step * value_at(edit.strengths, place);
    added_ = added_.defined() ? added_ + part : part;
  }
  if (movable_ == nullptr) return;
  const double angle = value_at(move_.degrees, place) / 180 * std::numbers::pi;
  const double x = value_at(move_.right, place), y = value_at(move_.down, place);
  const double c = std::cos(angle), s = std::sin(angle);
  inverse_ = torch::tensor({c, -s, s * y - c * x, s, c, -s * x - c * y, 0.0, 0.0, 1.0}, at::kDouble)
                 .reshape({3, 3});
}

Tensor Painter::tensor_of(std::optional<int64_t> label) const {
  if (!label) return {};
  return vectors_.defined() ? vectors_.narrow(0, *label, 1) : torch::full({1}, *label, at::kLong);
}

Tensor Painter::picture(const Tensor& z, uint64_t noise_seed, std::optional<int64_t> label) {
  return picture_of(z, noise_seed, tensor_of(label));
}

Tensor Painter::picture_of(const Tensor& z, uint64_t noise_seed, const Tensor& label) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  const Tensor one = z.unsqueeze(0);
  if (movable_ == nullptr && !added_.defined())
    return checked(to_cpu(generator_.images(one, label, options)[0]));
  return checked(to_cpu(synthesised(generator_.map(one, label, options), options)[0]));
}

Tensor Painter::synthesised(const Tensor& ws, const SynthesisOptions& options) {
  const Tensor all = added_.defined() ? ws + added_.to(ws.options()) : ws;
  return movable_ == nullptr ? generator_.synthesize(all, options)
                             : movable_->synthesize_moved(all, inverse_, options);
}

Tensor Painter::map(const Tensor& z, std::optional<int64_t> label) {
  return to_cpu(generator_.map(z.unsqueeze(0), tensor_of(label), synthesis_)[0]);
}

Tensor Painter::picture_of_styles(const Tensor& ws, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return checked(to_cpu(synthesised(ws.unsqueeze(0), options)[0]));
}

Tensor Painter::checked(Tensor picture) {
  if (warned_ || picture.isfinite().all().item<bool>()) return picture;
  warned_ = true;
  warn("{} draws pictures with values that are not finite: {} of {} in the first of them",
       model_,
       picture.isfinite().logical_not().sum().item<int64_t>(),
       picture.numel());
  return picture;
}

}  // namespace gantrain
