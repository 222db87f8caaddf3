// SPDX-License-Identifier: Apache-2.0
#include "data/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// The name of an archive without ".zip" or ".tar.gz".
std::string without_endings(std::filesystem::path name) {
  for (const auto& endings : {std::vector<std::string>{".gz", ".zst", ".xz", ".bz2"},
                              std::vector<std::string>{".zip", ".tar", ".tgz"}}) {
    const std::string ending = lower(name.extension().string());
    if (contains(endings, ending)) name = name.stem();
  }
  return name.string();
}

constexpr int64_t kMostForFiles = 8;
constexpr int64_t kMostForShapes = 2;

}  // namespace

std::string short_name(const DataOptions& options) {
  std::string name;
  if (starts_with(options.path, "synth:")) {
    name = options.path.substr(std::string_view("synth:").size());
  } else {
    std::filesystem::path path = std::filesystem::path(options.path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "photos/"
    name = without_endings(path.filename());
  }
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain && c != '-' && c != '_') c = '_';
  }
  if (name.empty()) name = "data";
  const bool digit = name.back() >= '0' && name.back() <= '9';
  return fmt::format("{}{}{}", name, digit ? "-" : "", to_text(options.resolution));
}

int64_t choose_workers(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return *options.workers;
  const int64_t most = starts_with(options.path, "synth:") ? kMostForShapes : kMostForFiles;
  const int64_t share = machine.cores / std::max<int64_t>(machine.ranks, 1);
  return std::clamp<int64_t>(share - machine.computing, 1, most);
}

std::string workers_text(const DataOptions& options, const LoadingMachine& machine) {
  if (options.workers) return "";
  return fmt::format("auto    data.workers {}: {}, {} here, {} a rank to compute with",
                     choose_workers(options, machine),
                     counted(machine.cores, "core"),
                     counted(machine.ranks, "rank"),
                     counted(machine.computing, "thread"));
}

namespace {

constexpr double kMuch = 2;  // times

std::string width_by_height(const Size& size) {
  return fmt::format("{}x{}", size.width, size.height);
}

// By their pixels.
std::string range_text(const PictureSizes& sizes) {
  const auto [least, most] = std::ranges::minmax_element(
      sizes.counts, {}, [](const SizeCount& row) { return row.size.pixels(); });
  return fmt::format("{} sizes from {} to {}",
                     sizes.counts.size(),
                     width_by_height(least->size),
                     width_by_height(most->size));
}

}  // namespace

int64_t PictureSizes::looked_at() const {
  int64_t all = 0;
  for (const SizeCount& row : counts) all += row.pictures;
  return all;
}

std::optional<Size> PictureSizes::commonest() const {
  if (counts.empty() || counts.front().pictures * 2 < looked_at()) return std::nullopt;
  return counts.front().size;
}

Size PictureSizes::typical() const {
  if (const auto most = commonest()) return *most;
  std::vector<std::pair<int64_t, int64_t>> sides;  // shorter side, pictures
  for (const SizeCount& row : counts) sides.emplace_back(row.size.shorter(), row.pictures);
  std::ranges::sort(sides);
  int64_t left = (looked_at() + 1) / 2;
  for (const auto& [side, pictures] : sides) {
    left -= pictures;
    if (left <= 0) return square_of(side);
  }
  return {};
}

PictureSizes sorted_sizes(const std::map<std::pair<int64_t, int64_t>, int64_t>& counts,
                          int64_t pictures) {
  PictureSizes sizes{.counts = {}, .pictures = pictures};
  for (const auto& [size, count] : counts)
    sizes.counts.push_back({{size.first, size.second}, count});
  std::ranges::stable_sort(
      sizes.counts, [](const SizeCount& a, const SizeCount& b) { return a.pictures > b.pictures; });
  return sizes;
}

std::string sizes_text(const PictureSizes& sizes) {
  if (sizes.counts.empty()) return "unknown sizes";
  const int64_t looked_at = sizes.looked_at();
  const SizeCount& first = sizes.counts.front();
  std::string text = width_by_height(first.size);
  if (sizes.counts.size() > 1)
    text = fmt::format("{}, {} in {} of {}", range_text(sizes), text, first.pictures, looked_at);
  if (looked_at < sizes.pictures)
    text += fmt::format(" ({} of {} looked at)", looked_at, sizes.pictures);
  return text;
}

double enlargement(const Size& picture, const DataOptions& options) {
  const double wide = static_cast<double>(options.resolution.width) /
                      static_cast<double>(std::max<int64_t>(picture.width, 1));
  const double high = static_cast<double>(options.resolution.height) /
                      static_cast<double>(std::max<int64_t>(picture.height, 1));
  return options.fit == Fit::kPad ? std::min(wide, high) : std::max(wide, high);
}

std::string enlargement_warning(const PictureSizes& sizes, const DataOptions& options) {
  int64_t enlarged = 0;
  for (const SizeCount& row : sizes.counts)
    enlarged += enlargement(row.size, options) >= kMuch ? row.pictures : 0;
  const int64_t looked_at = sizes.looked_at();
  if (enlarged == 0 || enlarged * 2 < looked_at) return "";
  const Size typical = sizes.typical();
  return fmt::format(
      "data.resolution = {}: {} of {} pictures are enlarged to twice their size or more, a typical "
      "one of {} {} times; enlarged pictures cost more to train on and hold nothing new",
      to_text(options.resolution),
      enlarged,
      looked_at,
      width_by_height(typical),
      shortest(std::round(10 * enlargement(typical, options)) / 10));
}

}  // namespace gantrain
