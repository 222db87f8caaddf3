// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/shape.h"

#include <algorithm>
#include <numeric>

#include "config/value.h"
#include "core/torch.h"
#include "util/doubled_size.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::r3gan {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

const std::string kStages = "Model.MainLayers.";

// A generator's tensors, asked for by name and number of axes.
struct Given {
  const Tensors& tensors;
  const std::string& source;

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  const Tensor& get(const std::string& name, int64_t axes) const {
    const auto at = tensors.find(name);
    if (at == tensors.end())
      fail(Exit::kInput, "{}: tensor {} is missing: not an R3GAN generator", source, name);
    if (at->second.dim() != axes || at->second.numel() == 0) {
      fail(Exit::kInput,
           "{}: tensor {} has shape [{}]; an R3GAN generator's has {} axes, none empty",
           source,
           name,
           fmt::join(at->second.sizes(), ", "),
           axes);
    }
    return at->second;
  }
};

std::string layer_name(int64_t stage, int64_t layer, const char* weight) {
  return fmt::format("{}Layers.{}.{}", stage_name(stage), layer, weight);
}

// Layers 1 and on of a stage are its blocks. One of them that lacks a tensor counts too: loading
// names the tensor. No file has more layers than tensors.
int64_t blocks_of(const Tensors& tensors, int64_t stage) {
  const std::string begin = stage_name(stage) + "Layers.";
  int64_t blocks = 1;
  for (const auto& item : tensors) {
    if (!item.first.starts_with(begin)) continue;
    const auto layer = parse_int(split(item.first.substr(begin.size()), '.').front()).value_or(0);
    if (layer < static_cast<int64_t>(tensors.size())) blocks = std::max(blocks, layer);
  }
  return blocks;
}

// Adds the stage whose blocks begin with layer 1.
void read_stage(const Given& given, int64_t stage, Shape& shape) {
  const auto weight = [&](int64_t layer, const char* name) {
    return layer_name(stage, layer, name) + ".Layer.weight";
  };
  const Tensor& in = given.get(weight(1, "LinearLayer1"), 4);
  const Tensor& middle = given.get(weight(1, "LinearLayer2"), 4);
  const int64_t width = in.size(1), inner = in.size(0), of_group = middle.size(1);
  if (inner % width != 0 || middle.size(0) != inner || inner % of_group != 0) {
    fail(
        Exit::kInput,
        "{}: tensors {} [{}] and {} [{}] do not make a block: the first widens its feature maps to "
        "a multiple, which the second shares out among groups",
        given.source,
        weight(1, "LinearLayer1"),
        fmt::join(in.sizes(), ", "),
        weight(1, "LinearLayer2"),
        fmt::join(middle.sizes(), ", "));
  }
  if (stage > 0 && inner / width != shape.expansion) {
    fail(Exit::kInput,
         "{}: tensor {} widens {} times, the first block {} times",
         given.source,
         weight(1, "LinearLayer1"),
         inner / width,
         shape.expansion);
  }
  shape.expansion = inner / width;
  shape.widths.push_back(width);
  shape.cardinalities.push_back(inner / of_group);
  shape.blocks.push_back(blocks_of(given.tensors, stage));
}

Shape shape_of_tensors(const Given& given) {
  Shape shape;
  const std::string basis = layer_name(0, 0, "Basis");
  const Tensor& start = given.get(basis, 3);
  const auto size = find_doubled_size({start.size(2), start.size(1)});
  if (!size || size->doublings > 0) {
    fail(Exit::kInput,
         "{}: tensor {} has shape [{}]; the shorter side of a start has 4 to 7 pixels",
         given.source,
         basis,
         fmt::join(start.sizes(), ", "));
  }
  read_stage(given, 0, shape);
  const int64_t stages = stages_of(given.tensors, "");
  for (int64_t stage = 1; stage < stages; ++stage) read_stage(given, stage, shape);
  shape.img_resolution = size->at(int64_t{4} << (shape.stages() - 1));
  shape.img_channels = given.get("Model.AggregationLayer.Layer.weight", 4).size(0);
  shape.z_dim = given.get(layer_name(0, 0, "LinearLayer.weight"), 2).size(1);
  if (!given.has("Model.EmbeddingLayer.weight")) return shape;
  const Tensor& embedding = given.get("Model.EmbeddingLayer.weight", 2);
  shape.embedding = embedding.size(0);
  shape.c_dim = embedding.size(1);
  shape.z_dim -= shape.embedding;
  return shape;
}

}  // namespace

StageTensor stage_tensor(const std::string& name) {
  if (!name.starts_with(kStages)) return {-1, name};
  const size_t dot = name.find('.', kStages.size());
  const auto stage = parse_int(name.substr(kStages.size(), dot - kStages.size()));
  if (dot == std::string::npos || !stage || *stage < 0) return {-1, name};
  return {*stage, name.substr(dot + 1)};
}

std::string stage_name(int64_t stage) { return fmt::format("{}{}.", kStages, stage); }

int64_t stages_of(const Tensors& tensors, const std::string& prefix) {
  int64_t stages = 0;
  for (const auto& item : tensors) {
    if (item.first.starts_with(prefix))
      stages = std::max(stages, stage_tensor(item.first.substr(prefix.size())).stage + 1);
  }
  return stages;
}

int64_t Shape::all_blocks() const {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
}

bool Shape::half(int64_t stage) const {
  return std::find(half_stages.begin(), half_stages.end(), stage) != half_stages.end();
}

Json to_json(const Shape& s) {
  Json model = {{"recipe", "r3gan"},
                {"NoiseDimension", s.z_dim},
                {"WidthPerStage", s.widths},
                {"CardinalityPerStage", s.cardinalities},
                {"BlocksPerStage", s.blocks},
                {"ExpansionFactor", s.expansion},
                {"FP16Stages", s.half_stages},
                {"c_dim", s.c_dim},
                {"img_resolution", Value<Size>::to_json(s.img_resolution)},
                {"img_channels", s.img_channels}};
  if (s.c_dim > 0) model["ConditionEmbeddingDimension"] = s.embedding;
  return model;
}

Shape generator_shape(const Json& model, const Tensors& tensors, const std::string& source) {
  const Shape seen = shape_of_tensors({tensors, source});
  if (model.is_null()) return seen;
  if (!model.is_object()) fail(Exit::kInput, "{}: gantrain.model: not a JSON object", source);
  const Json of_tensors = to_json(seen);
  for (const auto& [key, value] : of_tensors.items()) {
    const bool said = key != "recipe" && key != "FP16Stages" && model.contains(key);
    if (said && !model[key].is_null() && model[key] != value) {
      fail(Exit::kInput,
           "{}: gantrain.model: {} = {}, but the tensors have {}",
           source,
           key,
           model[key].dump(),
           value.dump());
    }
  }
  return seen;
}

}  // namespace gantrain::r3gan
