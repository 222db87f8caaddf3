// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "augment/augment_options.h"
#include "config/config.h"
#include "config/scheduled.h"

namespace gantrain {

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
// them. Throws UserError(kUsage) for an unknown pipe.
void choose_transforms(Config& config);

}  // namespace gantrain
