// SPDX-License-Identifier: Apache-2.0
#include "augment/augment_options.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct Pipe {
  std::string_view name;
  std::string_view groups;  // b(lit) g(eom) c(olour) f(ilter) n(oise) k: cutout
};
constexpr std::array<Pipe, 11> kPipes = {{{"blit", "b"},
                                          {"geom", "g"},
                                          {"color", "c"},
                                          {"filter", "f"},
                                          {"noise", "n"},
                                          {"cutout", "k"},
                                          {"bg", "bg"},
                                          {"bgc", "bgc"},
                                          {"bgcf", "bgcf"},
                                          {"bgcfn", "bgcfn"},
                                          {"bgcfnc", "bgcfnk"}}};

constexpr int64_t kFilterPixels = 22;
constexpr int64_t kMostAugmented = 16;  // channels

}  // namespace

AugmentOptions augment_pipe(std::string_view name) {
  const auto pipe =
      std::find_if(kPipes.begin(), kPipes.end(), [&](const Pipe& p) { return p.name == name; });
  if (pipe == kPipes.end()) {
    std::string all;
    for (const Pipe& p : kPipes) all += (all.empty() ? "" : ", ") + std::string(p.name);
    fail(Exit::kUsage, "ada.pipe = {}: there are {}", name, all);
  }
  const auto on = [&](char group) {
    return pipe->groups.find(group) == std::string_view::npos ? 0.0 : 1.0;
  };
  AugmentOptions o;
  o.xflip = o.rotate90 = o.xint = on('b');
  o.scale = o.rotate = o.aniso = o.xfrac = on('g');
  o.brightness = o.contrast = o.lumaflip = o.hue = o.saturation = on('c');
  o.imgfilter = on('f');
  o.noise = on('n');
  o.cutout = on('k');
  return o;
}

void check_augment(const AugmentOptions& options, const Size& resolution, int64_t channels) {
  if (channels < 1 || channels > kMostAugmented) {
    fail(Exit::kUsage,
         "data.channels = {}: augmentation knows pictures of 1 to {} channels",
         channels,
         kMostAugmented);
  }
  if (options.imgfilter > 0 && resolution.shorter() < kFilterPixels) {
    fail(Exit::kUsage,
         "data.resolution = {}: augmentation's image filter (imgfilter; pipes filter, bgcf, bgcfn, "
         "bgcfnc) needs {} pixels or more on the shorter side",
         to_text(resolution),
         kFilterPixels);
  }
}

namespace {

// DiffAugment's parts by their names, in the order in which they are applied.
constexpr std::array<std::pair<std::string_view, bool DiffPolicy::*>, 3> kDiffParts = {
    {{"color", &DiffPolicy::color},
     {"translation", &DiffPolicy::translation},
     {"cutout", &DiffPolicy::cutout}}};

}  // namespace

std::optional<DiffPolicy> Value<DiffPolicy>::from_text(std::string_view text) {
  DiffPolicy policy{false, false, false};
  for (const std::string& name : split(std::string(text), ',')) {
    const auto part = std::ranges::find(
        kDiffParts, trim(name), [](const auto& p) { return std::string(p.first); });
    if (part == kDiffParts.end()) return std::nullopt;
    policy.*part->second = true;
  }
  return policy;
}

Json Value<DiffPolicy>::to_json(const DiffPolicy& value) {
  std::vector<std::string> on;
  for (const auto& [name, part] : kDiffParts) {
    if (value.*part) on.emplace_back(name);
  }
  return join(on, ",");
}

namespace {

// The mode of ADA that a user has given decides where augment.mode comes from a preset.
void follow_ada(Config& config) {
  const std::string wanted = config.get("ada.mode") == "none" ? "off" : "ada";
  const Json& mode = config.get("augment.mode");
  if (mode == wanted || (wanted == "off" && mode == "ada")) return;  // ADA of mode none is off
  config.set("augment.mode", wanted, "auto (ada.mode)");
}

}  // namespace

void choose_augmentation(Config& config) {
  const Json mode = config.get("augment.mode"), policy = config.get("augment.policy");
  if (mode != "diff" && policy != Value<DiffPolicy>::to_json({}))
    warn("augment.policy = {} does nothing with augment.mode={}: augment.mode=diff augments",
         text_of(policy),
         text_of(mode));
  if (!config.has("ada.mode")) return;
  const bool ada_given = config.said_by_user("ada.mode");
  const bool ada_on = config.get("ada.mode") != "none";
  if (!config.said_by_user("augment.mode")) {
    if (ada_given) follow_ada(config);
  } else if (mode == "ada") {
    if (!ada_on && !ada_given) config.set("ada.mode", "ada", "auto (augment.mode)");
    return;
  }
  const Json& chosen = config.get("augment.mode");
  if (chosen == "ada" || !ada_on) return;
  if (ada_given)
    fail(Exit::kUsage,
         "augment.mode = {} ({}) with ada.mode = {} ({}): leave one of them out",
         text_of(chosen),
         config.origin("augment.mode"),
         text_of(config.get("ada.mode")),
         config.origin("ada.mode"));
  config.set("ada.mode", "none", "auto (augment.mode)");
}

namespace {

// A strength that was forgotten, and one that does nothing.
void check_strength(const Config& config) {
  if (!config.has("ada.mode")) return;
  const Json& mode = config.get("ada.mode");
  const bool is_zero = config.get("ada.p") == 0;
  if (mode == "fixed" && is_zero && !config.given("ada.p")) {
    fail(
        Exit::kUsage,
        "ada.mode = fixed ({}): with ada.p = 0 nothing would be augmented; give the strength, such "
        "as --p 0.2, or ada.mode=ada, which finds it",
        config.origin("ada.mode"));
  }
  if (mode == "none" && !is_zero && config.given("ada.p")) {
    warn("ada.p = {} does nothing with ada.mode=none: --aug fixed or --aug ada augments",
         text_of(config.get("ada.p")));
  }
}

}  // namespace

void choose_transforms(Config& config) {
  check_strength(config);
  const std::string pipe = text_of(config.get("ada.pipe"));
  AugmentOptions of_pipe = augment_pipe(pipe);
  fields(of_pipe, [&](std::string_view name, auto& value, const Check&, std::string_view) {
    const std::string key = "augment." + std::string(name);
    using Member = std::remove_reference_t<decltype(value)>;
    const Json wanted = Value<Member>::to_json(value);
    if (config.origin(key) != "default" || config.get(key) == wanted) return;
    config.set(key, wanted, "auto (ada.pipe " + pipe + ")");
  });
}

}  // namespace gantrain
