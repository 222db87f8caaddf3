// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/convert.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "recipes/stylegan1/trained_generator.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan1 {

using at::Tensor;

namespace {

// Prefixes of the official networks' variables, and those of our tensors.
constexpr std::array<std::pair<const char*, const char*>, 4> kParts = {{
    {"G_mapping/", "mapping."},
    {"G_synthesis/", "synthesis."},
    {"G/", ""},
    {"D/", "D."},
}};

std::optional<bool> fused_scale_of(const Json& config, const std::string& source) {
  if (!config.contains("fused_scale") || config["fused_scale"].is_null()) return std::nullopt;
  const auto value = Value<std::optional<bool>>::from_text(text_of(config["fused_scale"]));
  if (!value)
    fail(Exit::kInput,
         "{}: fused_scale = {} in the network's configuration; true, false or \"auto\" is needed",
         source,
         config["fused_scale"].dump());
  return *value;
}

// "128x128/Conv0_up/weight" -> 128.
int64_t pixels_of(const std::string& variable) {
  return parse_int(variable.substr(0, variable.find('x'))).value_or(0);
}

bool is_part(const std::string& name) {
  for (const auto& [official, own] : kParts) {
    if (starts_with(name, official)) return true;
  }
  return false;
}

}  // namespace

LayoutOf layouts(std::optional<bool> fused_scale) {
  return [fused_scale](const std::string& variable, const Tensor& value) {
    if (ends_with(variable, "LabelConcat/weight")) return TfLayout::kSame;
    if (value.dim() == 2) return TfLayout::kDense;
    if (value.dim() != 4 || !ends_with(variable, "/weight")) return TfLayout::kSame;
    const bool up = ends_with(variable, "Conv0_up/weight");
    const bool fused = up && fused_scale.value_or(pixels_of(variable) >= 128);
    return fused ? TfLayout::kMirroredConv : TfLayout::kConv;
  };
}

ModelContent import_official(const TensorFile& file, const std::string& source) {
  const Json config = official_arguments(file, source);
  const LayoutOf layout = layouts(fused_scale_of(config, source));
  TensorMap all;
  for (const auto& [name, value] : file.tensors) {
    if (!is_part(name))
      fail(Exit::kInput,
           "{}: tensor {} is no variable of G_mapping/, G_synthesis/, G/ or D/",
           source,
           name);
  }
  for (const auto& [official, own] : kParts)
    all.merge(from_official(file.tensors, official, own, layout));
  Shape shape = generator_shape(all, source);
  read_model(config, source, shape);
  const Generator net(shape);
  load_into(net, all, source);
  ModelContent model{model_of(shape), {}};
  for (const auto& [name, value] : state_of(net)) model.tensors[name] = value.detach();
  for (const auto& [name, value] : all) {
    // "lod" is the official networks' growth level, a counter that is no weight.
    if (name == "synthesis.lod" || name == "D.lod") continue;
    if (starts_with(name, "D.")) {
      model.tensors[name] = value;
    } else if (model.tensors.count(name) == 0) {
      fail(Exit::kInput, "{}: tensor {} is none of this network's", source, name);
    }
  }
  return model;
}

TensorMap export_official(const TensorMap& tensors, std::optional<bool> fused_scale) {
  const LayoutOf layout = layouts(fused_scale);
  TensorMap variables;
  TensorMap whole;  // what belongs to no part: dlatent_avg
  for (const auto& [name, value] : tensors) {
    if (name.find('.') == std::string::npos) whole[name] = value;
  }
  for (const auto& [official, own] : kParts) {
    const bool part = *own != '\0';
    variables.merge(to_official(part ? tensors : whole, own, official, layout));
  }
  return variables;
}

}  // namespace gantrain::stylegan1
