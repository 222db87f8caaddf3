// SPDX-License-Identifier: Apache-2.0
#include "gan/options.h"

#include <cmath>

#include "gan/recipe_facts.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

std::optional<LossScale> Value<LossScale>::from_text(std::string_view text) {
  if (text == "auto") return LossScale{LossScale::Kind::kAuto};
  if (text == "dynamic") return LossScale{LossScale::Kind::kDynamic};
  const std::optional<double> number = Value<double>::from_text(text);
  if (!number || !std::isfinite(*number) || *number <= 0) return std::nullopt;
  return LossScale{LossScale::Kind::kFixed, *number};
}

Json Value<LossScale>::to_json(const LossScale& value) {
  if (value.kind == LossScale::Kind::kFixed) return Value<double>::to_json(value.fixed);
  return value.kind == LossScale::Kind::kAuto ? "auto" : "dynamic";
}

ComputeType compute_type(const PrecisionOptions& o, bool on_gpu) {
  if (o.amp == Amp::kOff) return ComputeType::kFloat32;
  const bool chosen = o.amp == Amp::kAuto && (on_gpu || o.mode == PrecisionMode::kBlocks);
  return o.amp == Amp::kFp16 || chosen ? ComputeType::kFloat16 : ComputeType::kBfloat16;
}

bool chooses_by_product(const PrecisionOptions& o, bool on_gpu) {
  return o.amp == Amp::kAuto && compute_type(o, on_gpu) == ComputeType::kBfloat16 &&
         o.cpu_choice != "bfloat16";
}

bool scales_dynamically(const PrecisionOptions& o) {
  if (o.loss_scale.kind == LossScale::Kind::kAuto) return o.mode == PrecisionMode::kAutocast;
  return o.loss_scale.kind == LossScale::Kind::kDynamic;
}

void check_options(const PrecisionOptions& o, const RecipeFacts& recipe, bool float64) {
  if (o.mode == PrecisionMode::kBlocks) {
    if (!recipe.has_blocks) {
      fail(Exit::kUsage,
           "precision.mode = blocks: recipe {} has no half-precision blocks of its own; use "
           "precision.mode=autocast",
           recipe.name);
    }
    if (o.amp == Amp::kBf16 && !recipe.bfloat16_blocks)
      fail(Exit::kUsage,
           "precision.mode = blocks with --amp=bf16: the blocks are fp16; --amp=fp16");
    if (o.amp == Amp::kOff)
      fail(Exit::kUsage, "precision.mode = blocks without --amp: give --amp=fp16 too");
  }
  const bool scales = o.loss_scale.kind == LossScale::Kind::kFixed && o.loss_scale.fixed != 1;
  if (scales && (o.amp == Amp::kOff || o.amp == Amp::kBf16))
    fail(Exit::kUsage,
         "--loss-scale {} {}: only losses of fp16 are scaled; give --amp=fp16, or leave it out",
         shortest(o.loss_scale.fixed),
         o.amp == Amp::kOff ? "without --amp" : "with --amp=bf16");
  const bool half = o.amp == Amp::kFp16 || o.amp == Amp::kAuto;
  if (half && scales_dynamically(o) && o.initial_scale < o.min_scale) {
    fail(Exit::kUsage,
         "precision.initial_scale = {}: at least precision.min_scale = {} is needed, below which a "
         "dynamic loss scale ends the run",
         shortest(o.initial_scale),
         shortest(o.min_scale));
  }
  if (o.amp != Amp::kOff && float64)
    fail(Exit::kUsage, "train.dtype = float64 with --amp: float64 is never lowered; leave one out");
}

}  // namespace gantrain
