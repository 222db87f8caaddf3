// SPDX-License-Identifier: Apache-2.0
#include "curation/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "util/doubled_size.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr int64_t kLeast = 32, kMost = 1024;  // pixels of a network's shorter side
constexpr int64_t kSmallData = 10000;         // fewer pictures need augmentation
constexpr int64_t kCpuPixels = 32;            // of stylegan2-tiny
constexpr double kMostEnlarged = 0.1;         // share of pictures
constexpr double kSameShape = 0.9;            // share of pictures
constexpr double kShapeDiffers = 0.12;        // difference of two logarithms of width / height

// The value below which a share of the pictures lies.
template <class Value>
double quantile(const Inspection& inspection, double share, const Value& value) {
  std::map<double, int64_t> counts;
  for (const auto& [size, count] : inspection.sizes) counts[value(size)] += count;
  int64_t below = 0;
  for (const auto& [number, count] : counts) {
    below += count;
    if (static_cast<double>(below) >= share * static_cast<double>(inspection.pictures))
      return number;
  }
  return counts.empty() ? 0 : counts.rbegin()->first;
}

double shape_of(const std::pair<int64_t, int64_t>& size) {
  return std::log(static_cast<double>(size.first) / static_cast<double>(size.second));
}

// Share of pictures whose proportions are about these.
double share_of_shape(const Inspection& inspection, double shape) {
  int64_t same = 0;
  for (const auto& [size, count] : inspection.sizes) {
    if (std::abs(shape_of(size) - shape) <= kShapeDiffers) same += count;
  }
  return static_cast<double>(same) / static_cast<double>(std::max<int64_t>(inspection.pictures, 1));
}

int64_t power_of_two_below(double pixels) {
  int64_t side = kLeast;
  while (side * 2 <= kMost && static_cast<double>(side * 2) <= pixels) side *= 2;
  return side;
}

// A rectangle of these proportions that networks can have, with about `side` pixels on its shorter
// side.
Size rectangle(double shape, int64_t side) {
  const double ratio = std::exp(std::abs(shape));
  const auto longer = static_cast<int64_t>(std::llround(static_cast<double>(side) * ratio));
  const Size wanted = shape > 0 ? Size{longer, side} : Size{side, longer};
  const std::vector<Size> sizes = nearest_doubled_sizes(wanted, {.fewest = 1, .most = 8});
  return sizes.empty() ? square_of(side) : sizes.front();
}

void choose_size(const Inspection& inspection, Advice& advice) {
  const double shorter = quantile(inspection, kMostEnlarged, [](const auto& size) {
    return static_cast<double>(std::min(size.first, size.second));
  });
  const double shape = quantile(inspection, 0.5, shape_of);
  advice.resolution = square_of(power_of_two_below(shorter));
  const bool oblong = std::abs(shape) > kShapeDiffers;
  if (oblong && share_of_shape(inspection, shape) >= kSameShape) {
    advice.resolution = rectangle(shape, advice.resolution.width);
    advice.reasons.push_back(fmt::format(
        "nine of ten pictures are about {:.2f} times as {} as {}: a rectangular network",
        std::exp(std::abs(shape)),
        shape > 0 ? "wide" : "high",
        shape > 0 ? "high" : "wide"));
  } else if (oblong) {
    advice.reasons.emplace_back(
        "--fit crop takes the middle of each picture; --fit pad keeps all of it, on white");
  }
  if (shorter < static_cast<double>(kLeast)) {
    advice.reasons.push_back(
        fmt::format("pictures of {:.0f} pixels are enlarged to {}", shorter, kLeast));
  }
}

}  // namespace

namespace {

// The size in a network that a CPU can train.
Size shrunk(const Size& size) {
  const double scale =
      std::min(1.0, static_cast<double>(kCpuPixels) / static_cast<double>(size.shorter()));
  const auto part = [&](int64_t side) { return std::llround(static_cast<double>(side) * scale); };
  return {part(size.width), part(size.height)};
}

}  // namespace

Advice advise(const Inspection& inspection, bool gpu) {
  Advice advice;
  choose_size(inspection, advice);
  const bool small = inspection.pictures < kSmallData;
  advice.preset = small ? "stylegan2-ada" : "stylegan2";
  const auto pixels = static_cast<double>(advice.resolution.pixels());
  advice.batch = std::clamp<int64_t>(4096 / std::llround(std::sqrt(pixels)), 1, 32);
  advice.gamma = 0.0002 * pixels / static_cast<double>(advice.batch);
  advice.here = gpu ? advice.preset : "stylegan2-tiny";
  advice.resolution_here = gpu ? advice.resolution : shrunk(advice.resolution);
  advice.labels = inspection.classes.size() >= 2;
  if (small) {
    advice.reasons.push_back(fmt::format(
        "{} pictures are few: the preset augments them, and mirrors them, which --mirror=off stops "
        "where left and right differ (text, digits)",
        inspection.pictures));
  }
  if (advice.labels)
    advice.reasons.emplace_back("--cond on learns the classes; without it one model learns all");
  if (!gpu) {
    advice.reasons.push_back(
        fmt::format("there is no GPU here: {} at {} pixels shows something soon",
                    advice.here,
                    to_text(advice.resolution_here)));
  }
  return advice;
}

std::string train_command(const Inspection& inspection, const Advice& advice) {
  return fmt::format("gantrain --preset {} --data {} --resolution {}{}",
                     advice.here,
                     shell_quote(inspection.path),
                     to_text(advice.resolution_here),
                     advice.labels ? " --cond on" : "");
}

}  // namespace gantrain
