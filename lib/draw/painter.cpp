// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "config/value.h"
#include "core/torch.h"
#include "util/error.h"

namespace gantrain {

namespace {

at::Tensor to_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kFloat).cpu(); }

at::Tensor labels_of(std::optional<int64_t> label) {
  return label ? torch::full({1}, *label, at::kLong) : at::Tensor();
}

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
         "--trunc-cutoff {}: {} has {} layers",
         *synthesis_.trunc_cutoff,
         model_,
         generator_.num_ws());
  }
}

void Painter::read_noise(const ModelRequest& request) {
  if (!request.noise_mode) return;
  if (!generator_.has_noise()) {
    fail(Exit::kUsage,
         "--noise-mode {}: {} has no noise inputs; style-based models have them (StyleGAN 1 and 2)",
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
  if (synthesis_.level != 0 && std::count(levels.begin(), levels.end(), synthesis_.level) == 0) {
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
  move_to(0);
}

// The inverse of [[c, s, x], [-s, c, y], [0, 0, 1]], y down (Karras et al. 2021, sec. 3.1).
void Painter::move_to(double place) {
  if (movable_ == nullptr) return;
  const double angle = value_at(move_.degrees, place) / 180 * std::numbers::pi;
  const double x = value_at(move_.right, place), y = value_at(move_.down, place);
  const double c = std::cos(angle), s = std::sin(angle);
  inverse_ = torch::tensor({c, -s, s * y - c * x, s, c, -s * x - c * y, 0.0, 0.0, 1.0}, at::kDouble)
                 .reshape({3, 3});
}

at::Tensor Painter::picture(const at::Tensor& z,
                            uint64_t noise_seed,
                            std::optional<int64_t> label) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  const at::Tensor one = z.unsqueeze(0), labels = labels_of(label);
  if (movable_ == nullptr) return to_cpu(generator_.images(one, labels, options)[0]);
  const at::Tensor ws = generator_.map(one, labels, options);
  return to_cpu(movable_->synthesize_moved(ws, inverse_, options)[0]);
}

at::Tensor Painter::map(const at::Tensor& z, std::optional<int64_t> label) {
  return to_cpu(generator_.map(z.unsqueeze(0), labels_of(label), synthesis_)[0]);
}

at::Tensor Painter::picture_of_styles(const at::Tensor& ws, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  const at::Tensor one = ws.unsqueeze(0);
  return to_cpu((movable_ == nullptr ? generator_.synthesize(one, options)
                                     : movable_->synthesize_moved(one, inverse_, options))[0]);
}

}  // namespace gantrain
