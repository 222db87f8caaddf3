// SPDX-License-Identifier: Apache-2.0
#include "nn/progressive.h"

#include <fmt/format.h>

#include <cmath>

#include "core/torch.h"

namespace gantrain {

int64_t FeatureMaps::at_stage(int64_t stage) const {
  const double maps = static_cast<double>(base) / std::pow(2.0, static_cast<double>(stage) * decay);
  return std::clamp<int64_t>(static_cast<int64_t>(maps), 1, max);
}

int64_t FeatureMaps::at_pixels(int64_t pixels) const { return at_stage(doublings(pixels) + 1); }

int64_t doublings(int64_t pixels) {
  int64_t n = 0;
  for (int64_t side = 4; side < pixels; side *= 2) ++n;
  return n;
}

std::string block_name(int64_t pixels) { return fmt::format("{0}x{0}", pixels); }

std::string rgb_name(std::string_view kind, int64_t resolution, int64_t pixels) {
  return fmt::format("{}_lod{}", kind, doublings(resolution) - doublings(pixels));
}

namespace {

constexpr int64_t kMaxPixels = 1024;
constexpr std::string_view kLod = "RGB_lod";

// Returns the pixels of the network with these tensors, from its largest block
// ("D.16x16.Conv0.weight"), or 0 where it has none.
int64_t resolution_of(const std::map<std::string, at::Tensor>& tensors) {
  int64_t resolution = 0;
  for (const auto& item : tensors) {
    const std::string name = "." + item.first;
    for (int64_t pixels = std::max<int64_t>(4, 2 * resolution); pixels <= kMaxPixels; pixels *= 2) {
      if (name.find("." + block_name(pixels) + ".") != std::string::npos) resolution = pixels;
    }
  }
  return resolution;
}

}  // namespace

std::function<std::string(const std::string&)> level_names_in(
    const std::map<std::string, at::Tensor>& file, int64_t resolution) {
  const int64_t in_file = resolution_of(file);
  const int64_t more = in_file == 0 ? 0 : doublings(in_file) - doublings(resolution);
  return [more](const std::string& name) -> std::string {
    const size_t lod = name.find(kLod);
    if (lod == std::string::npos) return name;
    const size_t begin = lod + kLod.size(), end = std::min(name.find('.', begin), name.size());
    const int64_t level = std::stoll(name.substr(begin, end - begin)) + more;
    return level < 0 ? "" : name.substr(0, begin) + std::to_string(level) + name.substr(end);
  };
}

bool is_active(std::string_view parameter, int64_t resolution, int64_t pixels, bool fading) {
  const std::string_view module = parameter.substr(0, parameter.find('.'));
  if (const size_t lod = module.find(kLod); lod != std::string_view::npos) {
    const int64_t halvings = std::stoll(std::string(module.substr(lod + kLod.size())));
    const int64_t own = resolution >> halvings;
    return own == pixels || (fading && 2 * own == pixels);
  }
  const size_t x = module.find('x');
  TORCH_CHECK(x != std::string_view::npos && x > 0, "no level in parameter ", parameter);
  return std::stoll(std::string(module.substr(0, x))) <= pixels;
}

void check_level(const Level& level, int64_t resolution) {
  const bool power = level.pixels > 0 && (level.pixels & (level.pixels - 1)) == 0;
  TORCH_CHECK(power && level.pixels >= 4 && level.pixels <= resolution,
              "no level of ",
              level.pixels,
              " pixels in a network of ",
              resolution);
  const double alpha = level.alpha.host();
  TORCH_CHECK(alpha >= 0 && alpha <= 1, "alpha ", alpha, " is not in [0, 1]");
}

}  // namespace gantrain
