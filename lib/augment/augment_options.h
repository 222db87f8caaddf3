// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "config/config.h"
#include "config/value.h"
#include "util/field.h"
#include "util/size.h"

namespace gantrain {

// Adaptive discriminator augmentation (Karras et al. 2020b, arXiv:2006.06676): app. B's transforms
// in the order in which they are applied. Each has a multiplier of the strength p, 0 switching it
// off; the default is the pipe "bgc". Lengths are fractions of the picture's width and height.
struct AugmentOptions {
  static constexpr const char* kSection = "ada.";
  double xflip = 1, rotate90 = 1, xint = 1;  // pixel blitting
  double xint_max = .125;
  double scale = 1, rotate = 1, aniso = 1, xfrac = 1;  // general geometric transforms
  double scale_std = .2;                               // of log2
  double rotate_max = 1;                               // of half a turn
  double aniso_std = .2;                               // of log2
  double xfrac_std = .125;
  double brightness = 1, contrast = 1, lumaflip = 1, hue = 1, saturation = 1;  // colour
  double brightness_std = .2;                            // pictures are in [-1, 1]
  double contrast_std = .5;                              // of log2
  double hue_max = 1;                                    // of half a turn
  double saturation_std = 1;                             // of log2
  double imgfilter = 0;                                  // image-space filtering
  std::array<double, 4> imgfilter_bands = {1, 1, 1, 1};  // multipliers of imgfilter, low to high
  double imgfilter_std = 1;                              // of log2
  double noise = 0, cutout = 0;                          // image-space corruptions
  double noise_std = .1;
  double cutout_size = .5;
};

template <class Field>
void fields(AugmentOptions& o, Field&& field) {
  const Check multiplier = at_least(0);
  const Check deviation = between(0, 100);
  field("xflip", o.xflip, multiplier, "flips left and right, times p; 0: never");
  field("rotate90", o.rotate90, multiplier, "quarter turns, times p");
  field("xint", o.xint, multiplier, "shifts by whole pixels, times p");
  field("xint_max", o.xint_max, between(0, 1), "largest of them, of the picture's size");
  field("scale", o.scale, multiplier, "isotropic scaling, times p");
  field("rotate", o.rotate, multiplier, "rotations by any angle, times p");
  field("aniso", o.aniso, multiplier, "anisotropic scaling, times p");
  field("xfrac", o.xfrac, multiplier, "shifts by fractions of a pixel, times p");
  field("scale_std", o.scale_std, deviation, "isotropic scaling's deviation, log2");
  field("rotate_max", o.rotate_max, between(0, 1), "largest rotation, of half a turn");
  field("aniso_std", o.aniso_std, deviation, "anisotropic scaling's deviation, log2");
  field("xfrac_std", o.xfrac_std, between(0, 1), "fractional shift's deviation, of the size");
  field("brightness", o.brightness, multiplier, "changes of brightness, times p");
  field("contrast", o.contrast, multiplier, "changes of contrast, times p");
  field("lumaflip", o.lumaflip, multiplier, "flips of the luma, times p");
  field("hue", o.hue, multiplier, "rotations of the hue, times p; RGB only");
  field("saturation", o.saturation, multiplier, "changes of saturation, times p; RGB only");
  field("brightness_std", o.brightness_std, deviation, "brightness's deviation");
  field("contrast_std", o.contrast_std, deviation, "contrast's deviation, log2");
  field("hue_max", o.hue_max, between(0, 1), "largest rotation of the hue, of half a turn");
  field("saturation_std", o.saturation_std, deviation, "saturation's deviation, log2");
  field("imgfilter", o.imgfilter, multiplier, "gains of frequency bands, times p");
  field("imgfilter_band1", o.imgfilter_bands[0], multiplier, "lowest band, times imgfilter");
  field("imgfilter_band2", o.imgfilter_bands[1], multiplier, "second band, times imgfilter");
  field("imgfilter_band3", o.imgfilter_bands[2], multiplier, "third band, times imgfilter");
  field("imgfilter_band4", o.imgfilter_bands[3], multiplier, "highest band, times imgfilter");
  field("imgfilter_std", o.imgfilter_std, deviation, "gains' deviation, log2");
  field("noise", o.noise, multiplier, "Gaussian noise, times p");
  field("cutout", o.cutout, multiplier, "a grey rectangle, times p");
  field("noise_std", o.noise_std, deviation, "deviation of the noise's deviation");
  field("cutout_size", o.cutout_size, between(0, 1), "rectangle's width and height, of the size");
}

// How p follows the discriminator (sec. 3).
struct AdaptiveOptions {
  static constexpr const char* kSection = "ada.";
  double target = .6;    // of r_t, the mean sign of D's scores of real pictures
  int64_t interval = 4;  // iterations between two moves
  Kimg kimg{500'000};    // in which p can go from 0 to 1
};

template <class Field>
void fields(AdaptiveOptions& o, Field&& field) {
  field("target", o.target, between(-1, 1), "mean sign of D's real scores that p steers to");
  field("interval", o.interval, at_least(1), "iterations between two moves of p");
  field("kimg", o.kimg, at_least(.001), "kimg that p takes from 0 to 1, at the fastest");
}

// Which augmentation D's pictures get, of recipes that know adaptive augmentation and of those that
// do not.
enum class AugmentMode { kAda, kDiff, kOff };
enum class DiffAugmentMode { kOff, kDiff };
constexpr std::array<std::string_view, 3> names(AugmentMode) { return {"ada", "diff", "off"}; }
constexpr std::array<std::string_view, 2> names(DiffAugmentMode) { return {"off", "diff"}; }

// What DiffAugment consists of (Zhao et al. 2020, sec. 3.2).
struct DiffPolicy {
  bool color = true, translation = true, cutout = true;
};

// In text the names of what is on, with commas between: "color,translation,cutout".
template <>
struct Value<DiffPolicy> {
  static std::string type() { return "some of color,translation,cutout"; }
  static std::optional<DiffPolicy> from_text(std::string_view text);
  static Json to_json(const DiffPolicy& value);
};

// The choice of an augmentation. `Mode` is AugmentMode or DiffAugmentMode.
template <class Mode>
struct AugmentChoice {
  static constexpr const char* kSection = "augment.";
  Mode mode{};
  DiffPolicy policy;
};

template <class Mode, class Field>
void fields(AugmentChoice<Mode>& o, Field&& field) {
  constexpr bool has_ada = std::is_same_v<Mode, AugmentMode>;
  field("mode",
        o.mode,
        has_ada ? "augmentation of what D sees: as ada.mode says; DiffAugment, which suits few "
                  "pictures and has no strength to find; or none"
                : "augmentation of what D sees: none, or DiffAugment, which suits few pictures");
  field("policy", o.policy, "DiffAugment's parts, comma between, each applied to every picture");
}

// Makes augment.mode and ada.mode agree, where the user has given one of them: DiffAugment and no
// augmentation switch ADA off, a mode of ADA that is given wins over a preset's augment.mode, and
// augment.mode=ada switches ADA on. Warns of augment.policy that does nothing. Throws
// UserError(kUsage) where both are given and contradict each other.
void choose_augmentation(Config& config);

// The options of a named pipe: "blit", "geom", "color", "filter", "noise", "cutout", and the unions
// "bg", "bgc", "bgcf", "bgcfn", "bgcfnc"; strengths are the defaults. Throws UserError(kUsage) that
// lists the names.
AugmentOptions augment_pipe(std::string_view name);

// Throws UserError(kUsage) unless these transforms work on pictures of that many pixels and
// channels: up to 16 channels; the image filter needs 22 pixels, as it mirrors 21 at each border.
void check_augment(const AugmentOptions& options, const Size& resolution, int64_t channels);

enum class Augmentation { kNone, kAda, kFixed };
constexpr std::array<std::string_view, 3> names(Augmentation) { return {"none", "ada", "fixed"}; }

// How the augmentation of D's pictures is controlled: Karras et al. 2020b, sec. 3.
struct AdaOptions {
  Augmentation mode = Augmentation::kNone;
  std::string pipe = "bgc";  // blit, geometry and colour
  Scheduled p = 0;           // at the start; with mode fixed, throughout
  AdaptiveOptions adaptive;
};

template <class Field>
void fields(AdaOptions& o, Field&& field) {
  field("mode", o.mode, "augmentation of what D sees: none, adaptive, or of fixed strength");
  field("pipe",
        o.pipe,
        "transforms: blit, geom, color, filter, noise, cutout, or the unions bg, bgc, bgcf, bgcfn, "
        "bgcfnc");
  field("p", o.p, between(0, 1), "probability of each transform: at the start, or fixed");
  fields(o.adaptive, field);
}

// Switches the transforms augment.* on or off as ada.pipe says, unless a preset or the user has set
// them. Warns of a strength ada.p that does nothing. Throws UserError(kUsage) for an unknown pipe,
// and for augmentation of a fixed strength without the strength.
void choose_transforms(Config& config);

}  // namespace gantrain
