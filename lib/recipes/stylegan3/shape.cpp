// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/shape.h"

#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "gan/model_json.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

const std::string kSynthesis = "synthesis.";

const Tensor& get(const Tensors& tensors,
                  const std::string& name,
                  int64_t axes,
                  const std::string& source) {
  const auto at = tensors.find(name);
  if (at == tensors.end())
    fail(Exit::kInput, "{}: tensor {} is missing: not a StyleGAN3 generator", source, name);
  if (at->second.dim() != axes || at->second.numel() == 0) {
    fail(Exit::kInput,
         "{}: tensor {} has shape [{}]; a StyleGAN3 generator's has {} axes, none empty",
         source,
         name,
         fmt::join(at->second.sizes(), ", "),
         axes);
  }
  return at->second;
}

MappingShape mapping_of(const Tensors& tensors, const std::string& source) {
  MappingShape m = GeneratorShape().mapping;
  m.num_layers = 0;
  while (tensors.count(fmt::format("mapping.fc{}.weight", m.num_layers)) != 0) ++m.num_layers;
  const Tensor& first = get(tensors, "mapping.fc0.weight", 2, source);
  m.w_dim = get(tensors, fmt::format("mapping.fc{}.weight", m.num_layers - 1), 2, source).size(0);
  m.z_dim = first.size(1);
  if (tensors.count("mapping.embed.weight") != 0) {
    const Tensor& embed = get(tensors, "mapping.embed.weight", 2, source);
    m.c_dim = embed.size(1);
    m.z_dim -= embed.size(0);
  }
  if (m.z_dim < 0) {
    fail(Exit::kInput,
         "{}: mapping.fc0.weight takes {} features, fewer than mapping.embed.weight gives",
         source,
         first.size(1));
  }
  return m;
}

// Configuration R down-samples by radial filters of two axes.
bool has_radial_filters(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return item.first.ends_with(".down_filter") && item.second.dim() == 2;
  });
}

// Chooses the widths and, because tensors do not show it, how many layers sample critically, so
// that the layers have the file's names; the reference's number is tried first.
void choose_layers(SynthesisShape& s,
                   const std::vector<int64_t>& channels,
                   const std::vector<std::string>& names) {
  std::vector<int64_t> numbers = {std::min(s.num_critical, s.num_layers - 1)};
  for (int64_t n = 1; n < s.num_layers; ++n) {
    if (n != numbers.front()) numbers.push_back(n);
  }
  std::optional<SynthesisShape> first;
  for (const int64_t number : numbers) {
    s.num_critical = number;
    const Widths widths = widths_of(channels, s);
    s.channel_base = widths.channel_base;
    s.channel_max = widths.channel_max;
    if (layer_names(s) == names) return;
    if (!first) first = s;
  }
  s = *first;
}

SynthesisShape synthesis_of(const Tensors& tensors, const std::string& source) {
  const std::vector<std::string> layers = layer_names(tensors);
  SynthesisShape s;
  s.num_layers = static_cast<int64_t>(layers.size()) - 1;
  s.num_critical = std::min(s.num_critical, s.num_layers - 1);
  if (s.num_layers < 2) {
    fail(Exit::kInput,
         "{}: {} layers synthesis.L...; a StyleGAN3 generator has 3 or more",
         source,
         layers.size());
  }
  const auto weight = [&](size_t i) -> const Tensor& {
    return get(tensors, kSynthesis + layers[i] + ".weight", 4, source);
  };
  std::vector<int64_t> channels;
  for (size_t i = 0; i + 1 < layers.size(); ++i) channels.push_back(weight(i).size(0));
  s.conv_kernel = weight(0).size(2);
  s.img_channels = weight(layers.size() - 1).size(0);
  s.img_resolution = parse_int(split(layers.back(), '_').at(1)).value_or(0);
  s.use_radial_filters = s.conv_kernel == 1 || has_radial_filters(tensors);
  if (s.img_resolution < 4 || !std::has_single_bit(static_cast<uint64_t>(s.img_resolution))) {
    fail(Exit::kInput,
         "{}: layer {}: pictures of {} pixels; a power of two is needed",
         source,
         layers.back(),
         s.img_resolution);
  }
  const int64_t first = parse_int(split(layers.front(), '_').at(1)).value_or(0);
  s.margin_size = std::max<int64_t>((first - signals_of(s).front().rate) / 2, 0);
  choose_layers(s, channels, layers);
  return s;
}

// What the file's layers, as many as those of `shape`, would need.
std::string needs_of(const SynthesisShape& shape, const std::vector<std::string>& there) {
  const std::vector<std::string> here = layer_names(shape);
  if (sizes_of(there) != sizes_of(here))
    return "its sizes are those of another img_resolution, num_critical, margin_size or first or "
           "last cutoff and stopband";
  std::vector<int64_t> channels;
  for (const std::string& name : there)
    channels.push_back(parse_int(split(name, '_').back()).value_or(0));
  const int64_t last = channels.back();
  channels.pop_back();
  if (std::equal(here.begin(), here.end() - 1, there.begin()))
    return fmt::format("its pictures have img_channels = {}", last);
  const Widths widths = widths_of(channels, shape);
  return fmt::format("its widths are those of channel_base = {}, channel_max = {}",
                     widths.channel_base,
                     widths.channel_max);
}

// The layers that a shape makes must be those of the file; where they are not, says which key of
// the configuration the file would need. `maker` is what the shape comes from.
void check_layers(const GeneratorShape& shape,
                  const Tensors& tensors,
                  const std::string& source,
                  const char* maker) {
  const std::vector<std::string> there = layer_names(tensors), here = layer_names(shape.synthesis);
  if (there == here) return;
  if (there.size() != here.size()) {
    fail(Exit::kInput,
         "{}: {}: num_layers = {}, but the file has the {} layers of num_layers = {}",
         source,
         maker,
         shape.synthesis.num_layers,
         there.size(),
         there.size() - 1);
  }
  const auto [mine, other] = std::mismatch(here.begin(), here.end(), there.begin());
  fail(Exit::kInput,
       "{}: {} makes layer {}, but the file has {}; {}",
       source,
       maker,
       *mine,
       *other,
       needs_of(shape.synthesis, there));
}

// {"a": {"b": 1}} as {"b": 1}: the official code has its synthesis_kwargs outside of a group.
Json without_group(Json model, const char* group) {
  if (!model.is_object() || !model.contains(group) || !model[group].is_object()) return model;
  const Json inner = model[group];
  for (const auto& [key, value] : inner.items()) {
    if (!model.contains(key)) model[key] = value;
  }
  return model;
}

}  // namespace

Json to_json(const GeneratorShape& shape) { return model_json("stylegan3", shape); }

GeneratorShape shape_of_model(const Json& grouped, const std::string& source) {
  const Json model = without_group(grouped, "synthesis_kwargs");
  GeneratorShape shape;
  read_model(model, source, shape);
  SynthesisShape& s = shape.synthesis;
  if (model.is_object() && model.contains("conv_clamp") && model["conv_clamp"].is_null())
    s.conv_clamp.reset();
  if (s.num_layers <= s.num_critical) {
    fail(Exit::kInput,
         "{}: gantrain.model: num_layers = {}: more than num_critical = {} are needed",
         source,
         s.num_layers,
         s.num_critical);
  }
  for (const Signal& signal : signals_of(s)) {
    if (signal.channels < 1) {
      fail(Exit::kInput,
           "{}: gantrain.model: channel_base = {}: too few for a cutoff of {}",
           source,
           s.channel_base,
           signal.cutoff);
    }
  }
  if (shape.mapping.z_dim + shape.mapping.c_dim == 0)
    fail(Exit::kInput, "{}: gantrain.model: z_dim = 0: at least 1 where c_dim is 0", source);
  return shape;
}

GeneratorShape shape_of_tensors(const Tensors& tensors, const std::string& source) {
  GeneratorShape shape{mapping_of(tensors, source), synthesis_of(tensors, source)};
  check_layers(shape, tensors, source, "a network of these sizes");
  return shape;
}

GeneratorShape generator_shape(const Json& model,
                               const Tensors& tensors,
                               const std::string& source) {
  const bool said = model.is_object() && model.contains("img_resolution");
  if (!said) return shape_of_tensors(tensors, source);
  const GeneratorShape shape = shape_of_model(model, source);
  check_layers(shape, tensors, source, "gantrain.model");
  return shape;
}

// A layer with c maps, fewer than the most, says c - 1/2 <= base / (2 f_c) <= c + 1/2. At the
// bounds it is rounded to an even number, so the lowest of them may be one too low.
Widths widths_of(const std::vector<int64_t>& channels, const SynthesisShape& shape) {
  const std::vector<Signal> signals = signals_of(shape);
  const int64_t most = *std::max_element(channels.begin(), channels.end());
  double low = 1, high = 1e12;
  for (size_t i = 0; i < std::min(channels.size(), signals.size() - 1); ++i) {
    const auto maps = static_cast<double>(channels[i]);
    const double scale = 2 * signals[i].cutoff;
    low = std::max(low, (maps - 0.5) * scale);
    if (channels[i] < most) high = std::min(high, (maps + 0.5) * scale);
  }
  const double power = std::exp2(std::ceil(std::log2(low)));
  const auto lowest = static_cast<int64_t>(std::ceil(low));
  SynthesisShape tried = shape;
  tried.channel_max = most;
  for (const int64_t base :
       {power <= high ? static_cast<int64_t>(power) : lowest, lowest, lowest + 1}) {
    tried.channel_base = base;
    const std::vector<Signal> made = signals_of(tried);
    const bool same =
        std::equal(channels.begin(),
                   channels.begin() + std::min(channels.size(), made.size() - 1),
                   made.begin(),
                   [](int64_t maps, const Signal& of) { return maps == of.channels; });
    if (same) return {base, most};
  }
  return {lowest, most};
}

std::vector<std::string> layer_names(const SynthesisShape& shape) {
  std::vector<std::string> names;
  for (const LayerPlan& plan : layers_of(shape)) names.push_back(plan.name);
  return names;
}

std::vector<std::string> sizes_of(const std::vector<std::string>& layers) {
  std::vector<std::string> sizes;
  for (const std::string& name : layers) sizes.push_back(name.substr(0, name.rfind('_')));
  return sizes;
}

LayerTensor layer_tensor(const std::string& name) {
  if (!name.starts_with(kSynthesis + "L")) return {-1, name};
  const size_t begin = kSynthesis.size(), dot = name.find('.', begin);
  if (dot == std::string::npos) return {-1, name};
  const std::vector<std::string> parts = split(name.substr(begin + 1, dot - begin - 1), '_');
  const auto number = parse_int(parts.front());
  if (parts.size() != 3 || !number || *number < 0) return {-1, name};
  return {*number, name.substr(dot + 1)};
}

std::vector<std::string> layer_names(const Tensors& tensors) {
  std::map<int64_t, std::string> found;
  for (const auto& item : tensors) {
    const LayerTensor layer = layer_tensor(item.first);
    if (layer.layer >= 0)
      found[layer.layer] = item.first.substr(
          kSynthesis.size(), item.first.find('.', kSynthesis.size()) - kSynthesis.size());
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : found) {
    if (number == static_cast<int64_t>(names.size())) names.push_back(name);
  }
  return names;
}

}  // namespace gantrain::stylegan3
