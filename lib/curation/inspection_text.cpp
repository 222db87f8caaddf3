// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "curation/inspection.h"
#include "util/size.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr int64_t kLeast = 8, kMost = 1024;  // pixels of a network's shorter side
constexpr int64_t kSmallData = 10000;        // fewer pictures need augmentation
constexpr int64_t kVerySmallData = 2000;     // fewer gain most by another model's weights
constexpr int64_t kCpuPixels = 32;           // of stylegan2-tiny
constexpr double kMostEnlarged = 0.1;        // share of pictures
constexpr double kSameShape = 0.9;           // share of pictures
constexpr double kShapeDiffers = 0.12;       // difference of two logarithms of width / height

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

// The side of a square network: a power of two, or below 32 pixels, where halves lose much, the
// largest that networks can have: 28 of MNIST's pictures.
int64_t side_below(double pixels) {
  constexpr int64_t kSmall = 32;
  for (auto side = static_cast<int64_t>(pixels); side >= kLeast && side < kSmall; --side) {
    const auto found = find_doubled_size(square_of(side));
    if (found && found->doublings >= 1) return side;
  }
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
  advice.resolution = square_of(side_below(shorter));
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

// The size in a network that a CPU can train.
Size shrunk(const Size& size) {
  const double scale =
      std::min(1.0, static_cast<double>(kCpuPixels) / static_cast<double>(size.shorter()));
  const auto part = [&](int64_t side) { return std::llround(static_cast<double>(side) * scale); };
  return {part(size.width), part(size.height)};
}

constexpr size_t kGroupsShown = 10;
constexpr size_t kNamesShown = 4;
constexpr size_t kClassesShown = 100;
constexpr size_t kBars = 30;  // characters of the longest bar

std::string row(std::string_view head, std::string_view text) {
  return message_text("{:<11}{}\n", head, text);
}

// Shares in per cent, the largest first: "JPEG 4703, PNG 96".
std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> parts;
  for (const auto& [name, count] : sorted) parts.push_back(fmt::format("{} {}", name, count));
  return join(parts, ", ");
}

int64_t pixels_of(const std::pair<int64_t, int64_t>& size) { return size.first * size.second; }

// How many pictures have a shorter side from a power of two up to the next.
std::map<int64_t, int64_t> histogram(const Inspection& inspection) {
  std::map<int64_t, int64_t> bins;
  for (const auto& [size, count] : inspection.sizes) {
    int64_t from = 1;
    while (from * 2 <= std::min(size.first, size.second)) from *= 2;
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
  const auto [smallest, largest] = std::minmax_element(
      inspection.sizes.begin(), inspection.sizes.end(), [](const auto& a, const auto& b) {
        return pixels_of(a.first) < pixels_of(b.first);
      });
  const Shapes shapes = shapes_of(inspection);
  std::string text = row("sizes",
                         fmt::format("{}x{} to {}x{}, {} different; {} wide, {} high, {} square",
                                     smallest->first.first,
                                     smallest->first.second,
                                     largest->first.first,
                                     largest->first.second,
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

// "labels  3 numbers: red 0 or 1 (52 %), size -1 to 1 (mean 0.2)".
std::string vectors_text(const Inspection& inspection) {
  constexpr size_t kShown = 8;
  std::vector<std::string> parts;
  for (size_t k = 0; k < std::min(inspection.attributes.size(), kShown); ++k) {
    const AttributeCount& a = inspection.attributes[k];
    const std::string range =
        a.yes_or_no ? fmt::format("0 or 1 ({:.0f} %)", 100 * a.mean)
                    : fmt::format("{:.4g} to {:.4g} (mean {:.3g})", a.least, a.most, a.mean);
    parts.push_back(a.name + " " + range +
                    (a.missing > 0 ? fmt::format(", {} missing", a.missing) : ""));
  }
  if (inspection.attributes.size() > kShown) parts.emplace_back("...");
  std::string text =
      fmt::format("vectors of {}: {}",
                  counted(static_cast<int64_t>(inspection.attributes.size()), "number"),
                  join(parts, ", "));
  if (inspection.unlabelled > 0)
    text += fmt::format("; {} without a label", counted(inspection.unlabelled, "picture"));
  return row("labels", text);
}

std::string classes_text(const Inspection& inspection) {
  if (!inspection.attributes.empty()) return vectors_text(inspection);
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

bool has_16_bits(const Inspection& inspection) { return inspection.depths.count(16) != 0; }

// {"8": 480, "16": 20}
Json counts_json(const std::map<int64_t, int64_t>& counts) {
  Json json = Json::object();
  for (const auto& [number, pictures] : counts) json[std::to_string(number)] = pictures;
  return json;
}

// "16 bits 20, 8 bits 480; 5 channels 500": of pictures that are not all grey or RGB of 8 bits.
std::string values_text(const Inspection& inspection) {
  const bool plain = !has_16_bits(inspection) && inspection.channels.count(2) == 0 &&
                     (inspection.channels.empty() || inspection.channels.rbegin()->first <= 3);
  if (plain) return "";
  std::map<std::string, int64_t> depths, channels;
  for (const auto& [bits, pictures] : inspection.depths)
    depths[fmt::format("{} bits", bits)] = pictures;
  for (const auto& [count, pictures] : inspection.channels)
    channels[counted(count, "channel")] = pictures;
  return row("values", counts_text(depths) + "; " + counts_text(channels));
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
  advice.labels = inspection.classes.size() >= 2 || !inspection.attributes.empty();
  if (small) {
    advice.reasons.push_back(fmt::format(
        "{} {} few: the preset augments them, and mirrors them, which --mirror=off stops "
        "where left and right differ (text, digits)",
        counted(inspection.pictures, "picture"),
        inspection.pictures == 1 ? "is" : "are"));
  }
  if (has_16_bits(inspection))
    advice.reasons.push_back(
        fmt::format("{} of 16 bits: data.depth=16 keeps them, else they are rounded to 8",
                    counted(inspection.depths.at(16), "picture")));
  if (inspection.pictures < kVerySmallData)
    advice.reasons.push_back(fmt::format(
        "{0} help small says what so few can give, and how; a model of pictures of that "
        "kind to begin with gives most: {0} finetune {1} --from MODEL",
        program(),
        shell_quote(inspection.path)));
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
  return fmt::format("{} --preset {} --data {} --resolution {}{}{}{}",
                     program(),
                     advice.here,
                     shell_quote(inspection.path),
                     to_text(advice.resolution_here),
                     advice.labels ? " --cond on" : "",
                     advice.more + (has_16_bits(inspection) ? " --set data.depth=16" : ""),
                     inspection.bad.empty() ? "" : " --set data.on_bad=skip");
}

std::string inspection_text(const Inspection& o, const Advice& advice, bool all) {
  std::string text = row("data",
                         fmt::format("{}{}: {}, {:.1f} MB, {} bad, {}",
                                     o.path,
                                     o.kind.empty() ? "" : " (" + o.kind + ")",
                                     counted(o.pictures, "picture"),
                                     static_cast<double>(o.bytes) / 1e6,
                                     o.bad.size(),
                                     counted(o.others, "other file")));
  if (!o.ignored.empty()) text += row("", o.ignored);
  if (o.pictures > 0) {
    text += row("formats", counts_text(o.formats));
    text += row("forms", counts_text(o.forms));
    text += values_text(o);
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
  text += row("bad", counted(static_cast<int64_t>(o.bad.size()), "file"));
  for (const BadFile& bad : o.bad) text += row("", bad.reason);
  if (o.pictures > 0) text += advice_text(advice) + row("start", train_command(o, advice));
  return text;
}

Json inspection_json(const Inspection& o, const Advice& advice) {
  Json classes = Json::array(), bad = Json::array();
  for (const ClassCount& c : o.classes)
    classes.push_back({{"name", c.name}, {"pictures", c.pictures}});
  Json attributes = Json::array();
  for (const AttributeCount& a : o.attributes) {
    attributes.push_back({{"name", a.name},
                          {"least", a.least},
                          {"mean", a.mean},
                          {"most", a.most},
                          {"missing", a.missing},
                          {"yes_or_no", a.yes_or_no}});
  }
  for (const BadFile& file : o.bad) bad.push_back({{"file", file.file}, {"reason", file.reason}});
  return {{"data", o.path},
          {"kind", o.kind},
          {"pictures", o.pictures},
          {"bytes", o.bytes},
          {"other_files", o.others},
          {"formats", o.formats},
          {"forms", o.forms},
          {"depths", counts_json(o.depths)},
          {"channels", counts_json(o.channels)},
          {"sizes", sizes_json(o)},
          {"classes", classes},
          {"attributes", attributes},
          {"unlabelled", o.unlabelled},
          {"exact_duplicates", o.copies},
          {"near_duplicates", o.look_alikes},
          {"bad", bad},
          {"advice", o.pictures > 0 ? advice_json(advice) : Json()},
          {"start", o.pictures > 0 ? Json(train_command(o, advice)) : Json()}};
}

}  // namespace gantrain
