// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/transfer.h"

#include "core/torch.h"
#include "nn/style/shape.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

using Tensors = std::map<std::string, at::Tensor>;

namespace {

// The feature maps of the file's D by resolution.
std::map<int64_t, int64_t> widths_of_D(const Tensors& file) {
  std::map<int64_t, int64_t> widths;
  for (const auto& [name, tensor] : file) {
    if (!name.starts_with("D.b") || tensor.dim() != 4) continue;
    const std::vector<std::string> parts = split(name.substr(3), '.');
    const auto resolution = parse_int(parts.front());
    if (!resolution || parts.size() != 3 || parts[2] != "weight") continue;
    if (parts[1] == "conv0" || parts[1] == "conv") widths[*resolution] = tensor.size(0);
  }
  return widths;
}

// Whether StyleBlocks of these numbers have these widths.
bool has_widths(const StyleBlocks& blocks, const std::map<int64_t, int64_t>& widths) {
  for (const auto& [resolution, width] : widths)
    if (blocks.channels(resolution) != width) return false;
  return true;
}

}  // namespace

TensorNames names_in(const Tensors& file, const SynthesisShape& shape) {
  const std::vector<std::string> there = layer_names(file);
  const bool same_size = sizes_of(there) == sizes_of(layer_names(shape));
  return [there, same_size](const std::string& name) -> NameInFile {
    const LayerTensor layer = layer_tensor(name);
    if (layer.layer < 0) return name;
    if (layer.layer >= static_cast<int64_t>(there.size())) return std::string();
    return {"synthesis." + there[static_cast<size_t>(layer.layer)] + "." + layer.tensor,
            !same_size && layer.tensor.ends_with("_filter")};
  };
}

std::vector<std::string> values_that_fit(const Tensors& file,
                                         const Options& options,
                                         const GeneratorShape& shape) {
  GeneratorShape other;
  try {
    other = shape_of_tensors(file, "run.init_from");
  } catch (const UserError&) {
    return {};  // of another recipe, or of sizes that only its configuration tells
  }
  std::vector<std::string> values;
  const auto advise = [&](const char* key, const auto& theirs, const auto& mine) {
    if (theirs != mine) values.push_back(fmt::format("{}={}", key, theirs));
  };
  const SynthesisShape &theirs = other.synthesis, &mine = shape.synthesis;
  const bool rotates = theirs.conv_kernel == 1;
  advise("stylegan3.config", rotates ? "r" : "t", std::string(mine.conv_kernel == 1 ? "r" : "t"));
  advise("stylegan3.num_layers", theirs.num_layers, mine.num_layers);

  // Many numbers may make the same layers: those of here stay where they do.
  StyleBlocks D{.channel_base = options.d_channel_base.value_or(options.channel_base),
                .channel_max = options.d_channel_max.value_or(options.channel_max)};
  const int64_t factor = rotates ? 2 : 1;
  SynthesisShape with_mine = theirs;
  with_mine.channel_base = options.channel_base * factor;
  with_mine.channel_max = options.channel_max * factor;
  with_mine.num_critical = std::min(mine.num_critical, theirs.num_layers - 1);
  if (layer_names(with_mine) != layer_names(file)) {
    advise("stylegan3.num_critical", theirs.num_critical, mine.num_critical);
    with_mine.num_critical = theirs.num_critical;
  }
  const bool expressible = theirs.channel_max % factor == 0;
  if (layer_names(with_mine) != layer_names(file) && expressible) {
    const int64_t base = (theirs.channel_base + factor - 1) / factor;
    advise("stylegan3.channel_max", theirs.channel_max / factor, options.channel_max);
    advise("stylegan3.channel_base", base, options.channel_base);
    D.channel_base = options.d_channel_base.value_or(base);
    D.channel_max = options.d_channel_max.value_or(theirs.channel_max / factor);
  }
  const std::map<int64_t, int64_t> widths = widths_of_D(file);
  if (!widths.empty() && !has_widths(D, widths)) {
    StyleBlocks fitting;
    fitting.channel_max = widths.begin()->second;
    for (const auto& [resolution, width] : widths) fitting.channel_base = resolution * width;
    if (has_widths(fitting, widths)) {
      advise("stylegan3.d_channel_max", fitting.channel_max, D.channel_max);
      advise("stylegan3.d_channel_base", fitting.channel_base, D.channel_base);
    }
  }

  advise("stylegan3.map_depth", other.mapping.num_layers, shape.mapping.num_layers);
  advise("stylegan3.w_dim", other.mapping.w_dim, shape.mapping.w_dim);
  advise("stylegan3.z_dim", other.mapping.z_dim, shape.mapping.z_dim);
  advise("data.channels", theirs.img_channels, mine.img_channels);
  advise("data.cond",
         other.mapping.c_dim > 0 ? "on" : "off",
         std::string(shape.mapping.c_dim > 0 ? "on" : "off"));
  return values;
}

}  // namespace gantrain::stylegan3
