// SPDX-License-Identifier: Apache-2.0
#include "curation/inspection_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "util/text.h"

namespace gantrain {

namespace {

constexpr size_t kGroupsShown = 10;
constexpr size_t kNamesShown = 4;
constexpr size_t kClassesShown = 100;
constexpr size_t kBars = 30;  // characters of the longest bar

std::string row(std::string_view head, std::string_view text) {
  return fmt::format("{:<11}{}\n", head, text);
}

// Shares in per cent, the largest first: "JPEG 4703, PNG 96".
std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second > b.second;
  });
  std::vector<std::string> parts;
  for (const auto& [name, count] : sorted) parts.push_back(fmt::format("{} {}", name, count));
  return join(parts, ", ");
}

int64_t shorter_side(const std::pair<int64_t, int64_t>& size) {
  return std::min(size.first, size.second);
}

int64_t pixels_of(const std::pair<int64_t, int64_t>& size) { return size.first * size.second; }

struct Extremes {
  std::pair<int64_t, int64_t> smallest, largest;
};

Extremes extremes_of(const Inspection& inspection) {
  const auto fewer = [](const auto& a, const auto& b) {
    return pixels_of(a.first) < pixels_of(b.first);
  };
  const auto [low, high] =
      std::minmax_element(inspection.sizes.begin(), inspection.sizes.end(), fewer);
  return {low->first, high->first};
}

// How many pictures have a shorter side from a power of two up to the next.
std::map<int64_t, int64_t> histogram(const Inspection& inspection) {
  std::map<int64_t, int64_t> bins;
  for (const auto& [size, count] : inspection.sizes) {
    int64_t from = 1;
    while (from * 2 <= shorter_side(size)) from *= 2;
    bins[from] += count;
  }
  return bins;
}

struct Shapes {
  int64_t wide = 0, high = 0, square = 0;
};

Shapes shapes_of(const Inspection& inspection) {
  Shapes shapes;
  for (const auto& [size, count] : inspection.sizes) {
    int64_t& which = size.first > size.second   ? shapes.wide
                     : size.first < size.second ? shapes.high
                                                : shapes.square;
    which += count;
  }
  return shapes;
}

std::string sizes_text(const Inspection& inspection) {
  if (inspection.sizes.empty()) return "";
  const auto [smallest, largest] = extremes_of(inspection);
  const Shapes shapes = shapes_of(inspection);
  std::string text = row("sizes",
                         fmt::format("{}x{} to {}x{}, {} different; {} wide, {} high, {} square",
                                     smallest.first,
                                     smallest.second,
                                     largest.first,
                                     largest.second,
                                     inspection.sizes.size(),
                                     shapes.wide,
                                     shapes.high,
                                     shapes.square));
  const std::map<int64_t, int64_t> bins = histogram(inspection);
  int64_t most = 1;
  for (const auto& [from, count] : bins) most = std::max(most, count);
  for (const auto& [from, count] : bins) {
    const auto length = static_cast<size_t>(count) * kBars / static_cast<size_t>(most);
    text += row("",
                fmt::format("shorter side {:>5} to {:<5} {:>8}  {}",
                            from,
                            2 * from - 1,
                            count,
                            std::string(std::max<size_t>(length, 1), '#')));
  }
  return text;
}

std::string classes_text(const Inspection& inspection) {
  const auto& classes = inspection.classes;
  if (classes.empty()) return row("classes", "none (sub-folders, dataset.json or a CSV name them)");
  std::vector<std::string> parts;
  for (size_t k = 0; k < std::min(classes.size(), kClassesShown); ++k)
    parts.push_back(fmt::format("{} {} ({})", k, classes[k].name, classes[k].pictures));
  if (classes.size() > kClassesShown) parts.emplace_back("...");
  return row("classes", fmt::format("{}: {}", classes.size(), join(parts, ", ")));
}

int64_t copies_in(const std::vector<CopyGroup>& groups) {
  int64_t copies = 0;
  for (const CopyGroup& group : groups) copies += static_cast<int64_t>(group.size()) - 1;
  return copies;
}

std::string groups_text(const std::vector<CopyGroup>& groups, bool all) {
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!all && i == kGroupsShown) {
      text += row("", fmt::format("... {} more groups; --all lists them", groups.size() - i));
      break;
    }
    const size_t shown = all ? groups[i].size() : std::min(groups[i].size(), kNamesShown);
    const CopyGroup some(groups[i].begin(), groups[i].begin() + static_cast<std::ptrdiff_t>(shown));
    const size_t left = groups[i].size() - shown;
    text += row("", join(some, " = ") + (left > 0 ? fmt::format(" = ... ({} more)", left) : ""));
  }
  return text;
}

std::string advice_text(const Advice& advice) {
  std::string text =
      row("advice",
          fmt::format("--preset {} --resolution {}; gamma {:.4g} (0.0002 x {} pixels "
                      "/ batch {}, which the preset takes on one GPU)",
                      advice.preset,
                      to_text(advice.resolution),
                      advice.gamma,
                      advice.resolution.pixels(),
                      advice.batch));
  for (const std::string& reason : advice.reasons) text += row("", reason);
  return text;
}

Json counts_json(const std::map<std::string, int64_t>& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

Json sizes_json(const Inspection& inspection) {
  Json sizes = Json::array();
  for (const auto& [size, count] : inspection.sizes)
    sizes.push_back({{"width", size.first}, {"height", size.second}, {"pictures", count}});
  return sizes;
}

Json advice_json(const Advice& advice) {
  return {{"preset", advice.preset},
          {"resolution", to_text(advice.resolution)},
          {"batch", advice.batch},
          {"gamma", advice.gamma},
          {"labels", advice.labels},
          {"reasons", advice.reasons}};
}

}  // namespace

std::string inspection_text(const Inspection& o, const Advice& advice, bool all) {
  std::string text = row("data",
                         fmt::format("{}{}: {} pictures, {:.1f} MB, {} bad, {} other files",
                                     o.path,
                                     o.kind.empty() ? "" : " (" + o.kind + ")",
                                     o.pictures,
                                     static_cast<double>(o.bytes) / 1e6,
                                     o.bad.size(),
                                     o.others));
  if (o.pictures > 0) {
    text += row("formats", counts_text(o.formats));
    text += row("forms", counts_text(o.forms));
    text += sizes_text(o);
  }
  text += classes_text(o);
  text += row("copies",
              fmt::format("{} files are the same as another, byte for byte", copies_in(o.copies)));
  text += groups_text(o.copies, all);
  text += row("alike",
              fmt::format("{} pictures look like a copy of another (compressed again or resized)",
                          copies_in(o.look_alikes)));
  text += groups_text(o.look_alikes, all);
  text += row("bad", fmt::format("{} files", o.bad.size()));
  for (const BadFile& bad : o.bad) text += row("", bad.reason);
  if (o.pictures > 0) text += advice_text(advice);
  return text;
}

Json inspection_json(const Inspection& o, const Advice& advice) {
  Json classes = Json::array(), bad = Json::array();
  for (const ClassCount& c : o.classes)
    classes.push_back({{"name", c.name}, {"pictures", c.pictures}});
  for (const BadFile& file : o.bad) bad.push_back({{"file", file.file}, {"reason", file.reason}});
  return {{"data", o.path},
          {"kind", o.kind},
          {"pictures", o.pictures},
          {"bytes", o.bytes},
          {"other_files", o.others},
          {"formats", counts_json(o.formats)},
          {"forms", counts_json(o.forms)},
          {"sizes", sizes_json(o)},
          {"classes", classes},
          {"exact_duplicates", o.copies},
          {"near_duplicates", o.look_alikes},
          {"bad", bad},
          {"advice", o.pictures > 0 ? advice_json(advice) : Json()}};
}

}  // namespace gantrain
