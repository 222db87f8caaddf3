// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/convert.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "recipes/pggan/trained_generator.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::pggan {

using at::Tensor;

namespace {

void refuse_labels(const Json& config, const std::string& source) {
  if (config.contains("label_size") && config["label_size"] != 0)
    fail(Exit::kInput,
         "{}: label_size = {}; PGGAN has no labels here",
         source,
         config["label_size"].dump());
}

}  // namespace

TfLayout layout_of(const std::string& variable, const Tensor& value) {
  if (value.dim() == 2) return TfLayout::kDense;
  if (value.dim() != 4) return TfLayout::kSame;
  return ends_with(variable, "Conv0_up/weight") ? TfLayout::kTransposedConv : TfLayout::kConv;
}

ModelContent import_official(const TensorFile& file, const std::string& source) {
  for (const auto& [name, value] : file.tensors) {
    if (!starts_with(name, "G/") && !starts_with(name, "D/"))
      fail(Exit::kInput, "{}: tensor {} is no variable of G/ or D/", source, name);
  }
  const Json config = official_arguments(file, source);
  refuse_labels(config, source);
  const TensorMap generator = from_official(file.tensors, "G/", "", layout_of);
  Shape shape = generator_shape(generator, source);
  read_model(config, source, shape);
  const Generator net(shape);
  load_into(net, generator, source);
  ModelContent model{model_of(shape), from_official(file.tensors, "D/", "D.", layout_of)};
  for (const auto& [name, value] : state_of(net)) model.tensors[name] = value.detach();
  for (const auto& [name, value] : generator) {
    // "lod" is the official networks' growth level, a counter that is no weight.
    if (name != "lod" && model.tensors.count(name) == 0)
      fail(Exit::kInput, "{}: tensor G/{} is none of this network's", source, name);
  }
  model.tensors.erase("D.lod");
  return model;
}

TensorMap export_official(const TensorMap& tensors) {
  TensorMap generator, discriminator;
  for (const auto& [name, value] : tensors)
    (starts_with(name, "D.") ? discriminator : generator)[name] = value;
  TensorMap variables = to_official(generator, "", "G/", layout_of);
  variables.merge(to_official(discriminator, "D.", "D/", layout_of));
  return variables;
}

}  // namespace gantrain::pggan
