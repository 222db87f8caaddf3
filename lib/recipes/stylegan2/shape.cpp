// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/shape.h"

#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/style/styles.h"
#include "util/error.h"

namespace gantrain::stylegan2 {

using at::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

// A generator's tensors, asked for by name and number of axes.
struct Given {
  const Tensors& tensors;
  const std::string& source;

  bool has(const std::string& name) const { return tensors.count(name) != 0; }
  const Tensor& get(const std::string& name, int64_t axes) const {
    const auto at = tensors.find(name);
    if (at == tensors.end())
      fail(Exit::kInput, "{}: tensor {} is missing: not a StyleGAN2 generator", source, name);
    if (at->second.dim() != axes || at->second.numel() == 0) {
      fail(Exit::kInput,
           "{}: tensor {} has shape [{}]; a StyleGAN2 generator's has {} axes, none empty",
           source,
           name,
           fmt::join(at->second.sizes(), ", "),
           axes);
    }
    return at->second;
  }
};

std::string block(int64_t resolution) { return fmt::format("synthesis.b{}.", resolution); }

MappingShape mapping_of(const Given& given) {
  MappingShape m;
  m.num_layers = 0;
  int64_t width = 0;
  while (given.has(fmt::format("mapping.fc{}.weight", m.num_layers)))
    width = given.get(fmt::format("mapping.fc{}.weight", m.num_layers++), 2).size(0);
  const Tensor& first = given.get("mapping.fc0.weight", 2);
  m.w_dim = width;
  if (m.num_layers > 1) m.layer_features = first.size(0);
  m.z_dim = first.size(1);
  if (given.has("mapping.embed.weight")) {
    const Tensor& embed = given.get("mapping.embed.weight", 2);
    m.c_dim = embed.size(1);
    m.embed_features = embed.size(0);
    m.z_dim -= embed.size(0);
  }
  if (m.z_dim < 0) {
    fail(Exit::kInput,
         "{}: mapping.fc0.weight takes {} features, of which mapping.embed.weight gives {}",
         given.source,
         first.size(1),
         m.embedding());
  }
  return m;
}

// The lowest channel_base that gives the feature maps seen. A resolution r with c maps below the
// maximum says c r <= base < (c + 1) r.
void read_widths(StyleBlocks& s, const Given& given) {
  const auto maps = [&](int64_t r) { return given.get(block(r) + "conv1.weight", 4).size(0); };
  s.channel_max = 0;
  for (int64_t r = 4; r <= s.nominal(); r *= 2) s.channel_max = std::max(s.channel_max, maps(r));
  s.channel_base = 0;
  for (int64_t r = 4; r <= s.nominal(); r *= 2)
    s.channel_base = std::max(s.channel_base, maps(r) * r);
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    if (s.channels(r) == maps(r)) continue;
    fail(Exit::kInput,
         "{}: tensor {}conv1.weight has {} feature maps; with those of the other blocks "
         "min(channel_base / {}, channel_max) would be {}",
         given.source,
         block(r),
         maps(r),
         r,
         s.channels(r));
  }
}

StyleBlocks synthesis_of(const Given& given) {
  StyleBlocks s;
  const Tensor& start = given.get("synthesis.b4.const", 3);
  s.img_resolution = {start.size(2), start.size(1)};
  const auto first = find_doubled_size(s.img_resolution);
  if (!first || first->doublings > 0) {
    fail(Exit::kInput,
         "{}: tensor synthesis.b4.const has shape [{}]; the shorter side of a start has 4 to 7 "
         "pixels",
         given.source,
         fmt::join(start.sizes(), ", "));
  }
  int64_t nominal = 4;
  while (given.has(block(2 * nominal) + "conv1.weight")) nominal *= 2;
  s.img_resolution = first->at(nominal);
  s.img_channels = given.get(block(nominal) + "torgb.weight", 4).size(0);
  // With the first block alone the three are the same network.
  const bool one = nominal == 4;
  s.architecture = one || given.has("synthesis.b4.torgb.weight") ? BlockArchitecture::kSkip
                   : given.has("synthesis.b8.skip.weight")       ? BlockArchitecture::kResnet
                                                                 : BlockArchitecture::kOrig;
  read_widths(s, given);
  return s;
}

// Sizes that both the model and the tensors give must be the same.
void check_agreement(const GeneratorShape& said,
                     const GeneratorShape& seen,
                     const std::string& source) {
  const auto agree = [&](const std::string& key, const auto& a, const auto& b) {
    if (a != b)
      fail(Exit::kInput, "{}: gantrain.model: {} = {}, but the tensors have {}", source, key, a, b);
  };
  const MappingShape &m = said.mapping, &n = seen.mapping;
  const StyleBlocks &s = said.synthesis, &t = seen.synthesis;
  agree("z_dim", m.z_dim, n.z_dim);
  agree("c_dim", m.c_dim, n.c_dim);
  agree("w_dim", m.w_dim, n.w_dim);
  agree("img_resolution", to_text(s.img_resolution), to_text(t.img_resolution));
  agree("img_channels", s.img_channels, t.img_channels);
  agree("mapping_kwargs.num_layers", m.num_layers, n.num_layers);
  agree("mapping_kwargs.embed_features", m.embedding(), n.embedding());
  if (m.num_layers > 1) {
    agree("mapping_kwargs.layer_features",
          m.layer_features.value_or(m.w_dim),
          n.layer_features.value_or(n.w_dim));
  }
  if (s.nominal() > 4) {
    agree("synthesis_kwargs.architecture",
          names(s.architecture)[static_cast<size_t>(s.architecture)],
          names(t.architecture)[static_cast<size_t>(t.architecture)]);
  }
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    agree(fmt::format("min(synthesis_kwargs.channel_base / {}, synthesis_kwargs.channel_max)", r),
          s.channels(r),
          t.channels(r));
  }
}

}  // namespace

int64_t GeneratorShape::num_ws() const { return layers_at(synthesis.nominal()); }

Json to_json(const GeneratorShape& shape) { return model_json("stylegan2", shape); }

GeneratorShape shape_of_model(const Json& model,
                              const std::string& source,
                              const GeneratorShape& absent) {
  GeneratorShape shape = absent;
  read_model(model, source, shape);
  const StyleBlocks& s = shape.synthesis;
  if (!find_doubled_size(s.img_resolution)) {
    fail(Exit::kInput,
         "{}: gantrain.model: img_resolution = {}: allowed: sides of 4 to 7 pixels on the shorter "
         "one, times a power of two",
         source,
         to_text(s.img_resolution));
  }
  if (s.channels(s.nominal()) < 1) {
    fail(Exit::kInput,
         "{}: gantrain.model: synthesis_kwargs.channel_base = {}: at least {}, the nominal "
         "img_resolution",
         source,
         s.channel_base,
         s.nominal());
  }
  if (shape.mapping.z_dim + shape.mapping.c_dim == 0)
    fail(Exit::kInput, "{}: gantrain.model: z_dim = 0: at least 1 where c_dim is 0", source);
  return shape;
}

GeneratorShape shape_of_tensors(const Tensors& tensors, const std::string& source) {
  const Given given{tensors, source};
  return {mapping_of(given), synthesis_of(given)};
}

GeneratorShape generator_shape(const Json& model,
                               const Tensors& tensors,
                               const std::string& source) {
  const GeneratorShape seen = shape_of_tensors(tensors, source);
  const GeneratorShape said = shape_of_model(model, source, seen);
  check_agreement(said, seen, source);
  return said;
}

}  // namespace gantrain::stylegan2
