// SPDX-License-Identifier: Apache-2.0
#include "augment/augment_options.h"

#include <algorithm>
#include <type_traits>

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
constexpr int64_t kMaxChannels = 4;

}  // namespace

AugmentOptions augment_pipe(std::string_view name) {
  const auto pipe =
      std::find_if(kPipes.begin(), kPipes.end(), [&](const Pipe& p) { return p.name == name; });
  if (pipe == kPipes.end()) {
    std::string all;
    for (const Pipe& p : kPipes) all += (all.empty() ? "" : ", ") + std::string(p.name);
    fail(Exit::kUsage, "augmentation pipe {}: there are {}", name, all);
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
  if (channels < 1 || channels > kMaxChannels) {
    fail(Exit::kUsage,
         "data.channels = {}: augmentation knows pictures of 1 to {} channels",
         channels,
         kMaxChannels);
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
