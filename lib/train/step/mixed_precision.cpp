// SPDX-License-Identifier: Apache-2.0
#include "train/step/mixed_precision.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cstdlib>

#include "core/torch.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// The beginnings of a parameter's full name: "G", "G.synthesis", "G.synthesis.b16", ...
void add_beginnings(const std::string& name, std::vector<std::string>& all) {
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::string part = name.substr(0, dot);
    if (std::find(all.begin(), all.end(), part) == all.end()) all.push_back(part);
  }
}

std::vector<std::string> blocks_of(const std::vector<PlayerState>& players) {
  std::vector<std::string> all;
  for (const PlayerState& state : players) {
    for (const auto& [name, parameter] : state.parameters)
      add_beginnings(state.player->name + "." + name, all);
  }
  return all;
}

// The choice of precision.cpu_choice; while nothing has been measured, all is float32.
std::shared_ptr<const ProductChoice> choice_of(const PrecisionOptions& options) {
  if (options.cpu_choice == "auto") return std::make_shared<ProductChoice>();
  const std::optional<ProductChoice> choice = choice_from(options.cpu_choice);
  if (!choice) {
    fail(Exit::kUsage,
         "precision.cpu_choice = {}: allowed: auto, float32, bfloat16, or the list of a run's "
         "config.json, \"conv2d 64x8x8 64x64x3x3 p1x1 = bfloat16, ...\"",
         options.cpu_choice);
  }
  return std::make_shared<ProductChoice>(*choice);
}

std::string describe_choice(const std::string& text) {
  const ProductChoice choice = choice_from(text).value_or(ProductChoice());
  const auto lowered =
      std::count_if(choice.begin(), choice.end(), [](const auto& one) { return one.second; });
  if (lowered == 0) return "float32 everywhere: bfloat16 makes nothing faster here";
  return fmt::format("bfloat16 in {} of {} convolutions and products, where it is faster here",
                     lowered,
                     choice.size());
}

}  // namespace

ForwardPrecision forward_precision(const PrecisionOptions& options,
                                   at::Device device,
                                   const std::vector<PlayerState>& players) {
  ForwardPrecision precision;
  const ComputeType type = compute_type(options, device.is_cuda());
  if (chooses_by_product(options, device.is_cuda())) {
    precision.choice = choice_of(options);
  } else if (type != ComputeType::kFloat32 && options.mode == PrecisionMode::kAutocast) {
    precision.autocast_type = type == ComputeType::kFloat16 ? at::kHalf : at::kBFloat16;
  }
  const std::vector<std::string> known = blocks_of(players);
  for (const std::string& part : split(options.keep_float32, ',')) {
    const std::string name = trim(part);
    if (name.empty()) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(Exit::kUsage,
           "precision.keep_float32 = {}: {} is no network or block of this recipe{}",
           options.keep_float32,
           name,
           did_you_mean(name, known));
    }
    precision.keep_float32.push_back(name);
  }
  return precision;
}

GuardSettings guard_settings(const PrecisionOptions& options,
                             const TrainOptions& train,
                             const OptimOptions& optim,
                             at::Device device) {
  GuardSettings settings;
  const bool dynamic = scales_dynamically(options);
  const bool fixed = options.loss_scale.kind == LossScale::Kind::kFixed;
  if (compute_type(options, device.is_cuda()) == ComputeType::kFloat16 && (dynamic || fixed)) {
    settings.scaler = {dynamic ? options.initial_scale : options.loss_scale.fixed,
                       options.growth_factor,
                       options.backoff_factor,
                       options.growth_interval,
                       dynamic};
  }
  settings.min_scale = options.min_scale;
  settings.nonfinite = train.nonfinite;
  settings.optim = optim;
  return settings;
}

void allow_tf32(bool allow) {
  at::globalContext().setAllowTF32CuBLAS(allow);
  at::globalContext().setAllowTF32CuDNN(allow);
}

std::string describe_precision(const PrecisionOptions& options, at::Device device) {
  const ComputeType type = compute_type(options, device.is_cuda());
  if (type == ComputeType::kFloat32) return "";
  const bool half = type == ComputeType::kFloat16;
  if (chooses_by_product(options, device.is_cuda())) return describe_choice(options.cpu_choice);
  std::string text =
      fmt::format("{} {}",
                  half ? "float16" : "bfloat16",
                  options.mode == PrecisionMode::kBlocks ? "in blocks" : "by autocast");
  if (half && scales_dynamically(options)) {
    text += fmt::format(", loss scale dynamic from {}", shortest(options.initial_scale));
  } else if (half && options.loss_scale.kind == LossScale::Kind::kFixed) {
    text += fmt::format(", loss scale {}", shortest(options.loss_scale.fixed));
  }
  if (!half && options.loss_scale.kind == LossScale::Kind::kFixed)
    text +=
        fmt::format("; loss scale {} is float16's: not used", shortest(options.loss_scale.fixed));
  if (half && device.is_cpu()) text += "; on a CPU its arithmetic is float32's";
  return text;
}

void choose_algorithms(bool deterministic) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  // Which algorithm wins a race depends on the moment, and their bits differ.
  context.setBenchmarkCuDNN(!deterministic);
  // One of the two settings with which NVIDIA promises equal bits; LibTorch refuses matrix products
  // on a GPU without one of them while algorithms have to be deterministic.
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace gantrain
