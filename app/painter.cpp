// SPDX-License-Identifier: Apache-2.0
#include "painter.h"

#include <torch/torch.h>

#include <algorithm>

#include "drawing_flags.h"
#include "util/error.h"

namespace gantrain {

namespace {

static_assert(names(NoiseMode{}) == kNoiseModes);

void refuse_class(const Json& request, const std::string& model, const char* reason) {
  if (!request.contains("class")) return;
  fail(Exit::kUsage,
       "--class {}: {}; leave it out",
       request["class"].get<int64_t>(),
       fmt::format(fmt::runtime(reason), model));
}

at::Tensor to_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kFloat).cpu(); }

}  // namespace

void require_styles(const Generator& generator, const std::string& flag, const std::string& model) {
  if (generator.num_ws() > 0) return;
  fail(Exit::kUsage,
       "{}: {} has no w space; style-based models have it (StyleGAN 1 and 2)",
       flag,
       model);
}

Painter::Painter(Generator& generator, const Json& request, bool styles_given)
    : generator_(generator), model_(request.at("model").get<std::string>()) {
  read_class(request, styles_given);
  read_truncation(request, styles_given);
  read_noise(request);
  read_level(request);
}

void Painter::read_class(const Json& request, bool styles_given) {
  const int64_t classes = generator_.classes();
  if (styles_given)
    return refuse_class(request, model_, "latents of layers (--w) have their class in them");
  if (classes == 0) {
    return refuse_class(
        request, model_, "{} is unconditional; models that were trained with labels have classes");
  }
  if (!request.contains("class")) {
    fail(Exit::kUsage,
         "{} has {} classes: say which one is to be drawn, --class 0 to --class {}",
         model_,
         classes,
         classes - 1);
  }
  const auto label = request["class"].get<int64_t>();
  if (label < 0 || label >= classes) {
    fail(Exit::kUsage,
         "--class {}: {} has {} classes, 0 to {}",
         label,
         model_,
         classes,
         classes - 1);
  }
  labels_ = torch::full({1}, label, at::kLong);
}

void Painter::read_truncation(const Json& request, bool styles_given) {
  if (!request.contains("trunc")) return;
  synthesis_.trunc = request["trunc"].get<double>();
  const std::string flag = fmt::format("--trunc {}", synthesis_.trunc);
  require_styles(generator_, flag, model_);
  if (styles_given)
    fail(Exit::kUsage, "{}: latents of layers (--w) are drawn as they are; leave it out", flag);
  if (!request.contains("trunc_cutoff")) return;
  synthesis_.trunc_cutoff = request["trunc_cutoff"].get<int64_t>();
  if (*synthesis_.trunc_cutoff > generator_.num_ws()) {
    fail(Exit::kUsage,
         "--trunc-cutoff {}: {} has {} layers",
         *synthesis_.trunc_cutoff,
         model_,
         generator_.num_ws());
  }
}

void Painter::read_noise(const Json& request) {
  if (!request.contains("noise_mode")) return;
  const auto mode = request["noise_mode"].get<std::string>();
  if (!generator_.has_noise()) {
    fail(Exit::kUsage,
         "--noise-mode {}: {} has no noise inputs; style-based models have them (StyleGAN 1 and 2)",
         mode,
         model_);
  }
  synthesis_.noise = Value<NoiseMode>::from_text(mode).value();
}

void Painter::read_level(const Json& request) {
  const std::vector<int64_t> levels = generator_.levels();
  for (const char* key : {"level", "alpha"}) {
    if (!request.contains(key) || !levels.empty()) continue;
    fail(Exit::kUsage,
         "--{} {}: {} has no stages; progressive models have them (PGGAN, StyleGAN 1)",
         key,
         text_of(request[key]),
         model_);
  }
  synthesis_.alpha = request.value("alpha", synthesis_.alpha);
  synthesis_.level = request.value("level", synthesis_.level);
  if (synthesis_.level != 0 && std::count(levels.begin(), levels.end(), synthesis_.level) == 0) {
    fail(Exit::kUsage,
         "--level {}: {} has stages of {} pixels",
         synthesis_.level,
         model_,
         fmt::join(levels, ", "));
  }
}

at::Tensor Painter::picture(const at::Tensor& z, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return to_cpu(generator_.images(z.unsqueeze(0), labels_, options)[0]);
}

at::Tensor Painter::map(const at::Tensor& z) {
  return to_cpu(generator_.map(z.unsqueeze(0), labels_, synthesis_)[0]);
}

at::Tensor Painter::picture_of_styles(const at::Tensor& ws, uint64_t noise_seed) {
  SynthesisOptions options = synthesis_;
  options.noise_seed = noise_seed;
  return to_cpu(generator_.synthesize(ws.unsqueeze(0), options)[0]);
}

}  // namespace gantrain
