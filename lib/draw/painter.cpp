// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <torch/torch.h>

#include <algorithm>

#include "config/value.h"
#include "util/error.h"

namespace gantrain {

namespace {

at::Tensor to_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kFloat).cpu(); }

at::Tensor labels_of(std::optional<int64_t> label) {
  return label ? torch::full({1}, *label, at::kLong) : at::Tensor();
}

}  // namespace

void require_styles(const Generator& generator, const std::string& flag, const std::string& model) {
  if (generator.num_ws() > 0) return;
  fail(Exit::kUsage,
       "{}: {} has no w space; style-based models have it (StyleGAN 1 and 2)",
       flag,
       model);
}

Painter::Painter(Generator& generator, const ModelRequest& request, bool styles_given)
    : generator_(generator), model_(request.model) {
  read_truncation(request, styles_given);
  read_noise(request);
  read_level(request);
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

at::Tensor Painter::picture(const at::Tensor& z,
                            uint64_t noise_seed,
                            std::optional<int64_t> label) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return to_cpu(generator_.images(z.unsqueeze(0), labels_of(label), options)[0]);
}

at::Tensor Painter::map(const at::Tensor& z, std::optional<int64_t> label) {
  return to_cpu(generator_.map(z.unsqueeze(0), labels_of(label), synthesis_)[0]);
}

at::Tensor Painter::picture_of_styles(const at::Tensor& ws, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return to_cpu(generator_.synthesize(ws.unsqueeze(0), options)[0]);
}

}  // namespace gantrain
