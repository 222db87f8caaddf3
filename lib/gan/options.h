// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/scheduled.h"
#include "config/value.h"
#include "util/field.h"

namespace gantrain {

enum class OptimizerKind { kAdam, kSgd, kRmsprop };
constexpr std::array<std::string_view, 3> names(OptimizerKind) {
  return {"adam", "sgd", "rmsprop"};
}

struct AdamOptions {  // Kingma & Ba 2015
  Scheduled lr = 2e-4;
  Scheduled beta1 = 0.5;
  Scheduled beta2 = 0.999;
  double eps = 1e-8;
};

template <class Field>
void fields(AdamOptions& o, Field&& field) {
  field("lr", o.lr, between(0, 1e3), "learning rate");
  field("beta1", o.beta1, between(0, 0.9999999), "decay of the gradient's mean");
  field("beta2", o.beta2, between(0, 0.9999999), "decay of its square's mean");
  field("eps", o.eps, between(0, 1), "added to the root of the square's mean");
}

struct SgdOptions {
  Scheduled lr = 1e-2;
  double momentum = 0;
};

template <class Field>
void fields(SgdOptions& o, Field&& field) {
  field("lr", o.lr, between(0, 1e3), "learning rate");
  field("momentum", o.momentum, between(0, 0.9999999), "share of the last step kept");
}

struct RmspropOptions {  // Hinton 2012, as torch has it
  Scheduled lr = 5e-5;   // Arjovsky et al. 2017, alg. 1
  double alpha = 0.99;
  double eps = 1e-8;
};

template <class Field>
void fields(RmspropOptions& o, Field&& field) {
  field("lr", o.lr, between(0, 1e3), "learning rate");
  field("alpha", o.alpha, between(0, 0.9999999), "decay of the square's mean");
  field("eps", o.eps, between(0, 1), "added to the root of the square's mean");
}

// How one network (a player) is trained: the sections "G" and "D" of the configuration.
struct PlayerOptions {
  OptimizerKind optimizer = OptimizerKind::kAdam;
  AdamOptions adam;
  SgdOptions sgd;
  RmspropOptions rmsprop;
  std::optional<int64_t> accumulate;  // auto: train.accumulate
  int64_t steps = 1;
};

template <class Field>
void fields(PlayerOptions& o, Field&& field) {
  field("optimizer", o.optimizer, "which of the three below is used");
  field("adam", o.adam, "Adam");
  field("sgd", o.sgd, "SGD");
  field("rmsprop", o.rmsprop, "RMSprop");
  field("accumulate", o.accumulate, at_least(1), "micro-batches a step; auto: train.accumulate");
  field("steps", o.steps, at_least(1), "updates for one update of the other network");
}

struct RecipeFacts;

enum class Amp { kOff, kAuto, kFp16, kBf16 };
constexpr std::array<std::string_view, 4> names(Amp) { return {"off", "auto", "fp16", "bf16"}; }

enum class PrecisionMode { kAutocast, kBlocks };
constexpr std::array<std::string_view, 2> names(PrecisionMode) { return {"autocast", "blocks"}; }

// The factor of a loss before its backward pass in float16.
struct LossScale {
  enum class Kind { kAuto, kDynamic, kFixed };
  Kind kind = Kind::kAuto;  // auto: dynamic with autocast, 1 with precision.mode=blocks
  double fixed = 1;
};

template <>
struct Value<LossScale> {
  static std::string type() { return "auto|dynamic|number above 0"; }
  static std::optional<LossScale> from_text(std::string_view text);
  static Json to_json(const LossScale& value);
};

// Options of mixed precision (Micikevicius et al. 2018). The defaults are those of torch's
// GradScaler.
struct PrecisionOptions {
  static constexpr const char* kSection = "precision.";
  Amp amp = Amp::kOff;
  PrecisionMode mode = PrecisionMode::kAutocast;
  LossScale loss_scale;
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min_scale = 1;
  std::string keep_float32;
  bool tf32 = false;
  // "auto"; "float32"; "bfloat16", all of them by autocast, as --amp=bf16; or the text of a
  // ProductChoice (core/forward_precision.h).
  std::string cpu_choice = "auto";
};

template <class Field>
void fields(PrecisionOptions& o, Field&& field) {
  field(
      "amp", o.amp, "mixed precision; auto: fp16 on GPUs; on a CPU bf16 where it is faster there");
  field("mode",
        o.mode,
        "autocast: all layers but those that need float32; blocks: StyleGAN2's own way, fp16 in "
        "the RECIPE.num_fp16_res top resolutions (StyleGAN3 too; R3GAN: bf16)");
  field("loss_scale", o.loss_scale, "of each network, with fp16; auto: dynamic, with blocks 1");
  field("initial_scale", o.initial_scale, between(1e-6, 1e30), "where a dynamic loss scale starts");
  field("growth_factor",
        o.growth_factor,
        between(1.0000001, 1e6),
        "of a dynamic scale after growth_interval good steps in a row");
  field("backoff_factor",
        o.backoff_factor,
        between(1e-6, 0.9999999),
        "of a dynamic scale after a gradient that is not finite");
  field("growth_interval", o.growth_interval, at_least(1), "good steps between two growths");
  field("min_scale", o.min_scale, between(0, 1e30), "a dynamic scale below this ends the run");
  field("keep_float32",
        o.keep_float32,
        "networks or blocks that stay in float32 (comma between): G, D.b8, G.synthesis.b16");
  field("tf32", o.tf32, "TensorFloat-32 for what is float32 on a GPU");
  field("cpu_choice",
        o.cpu_choice,
        "with --amp on a CPU, what each convolution and product computes in; auto: measured once, "
        "as the run begins; float32, bfloat16: all of them");
}

enum class ComputeType { kFloat32, kFloat16, kBfloat16 };
// Returns the type that convolutions and products compute in, apart from layers that stay in
// float32.
ComputeType compute_type(const PrecisionOptions& options, bool on_gpu);
// Whether, on a CPU, each convolution and product has a type of its own, and not all bfloat16.
bool chooses_by_product(const PrecisionOptions& options, bool on_gpu);
// Whether the factor of the losses changes during the run.
bool scales_dynamically(const PrecisionOptions& options);

// Throws UserError(kUsage) for options that contradict each other: mode=blocks with a recipe that
// has no such blocks, or none in bf16; half precision for networks of float64.
void check_options(const PrecisionOptions& options, const RecipeFacts& recipe, bool float64);

}  // namespace gantrain
