// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "augment/augment_options.h"
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
  field("loss_scale",
        o.loss_scale,
        "with fp16: loss scale of each network; auto: dynamic, but 1 with precision.mode=blocks");
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

// Adam with betas 0 and 0.99: Karras et al. 2018a, sec. 6, 2019, app. C, 2020a, app. B, and 2021,
// app. G.
inline PlayerOptions style_player(double lr) {
  PlayerOptions o;
  o.adam = {lr, 0, 0.99, 1e-8};
  return o;
}

// The options that style-based recipes with an augmented discriminator share (gan/style_recipe.h),
// with the names of Karras et al.'s code. The defaults that differ are each recipe's own.
struct StyleOptions {
  bool conditional = false;
  int64_t z_dim = 512;
  int64_t w_dim = 512;
  int64_t map_depth = 8;
  int64_t channel_base = 32768;
  int64_t channel_max = 512;
  int64_t mbstd_group = 4;
  int64_t freeze_d = 0;      // Mo et al. 2020
  int64_t num_fp16_res = 4;  // Karras et al. 2020b, app. C
  double conv_clamp = 256;
  double w_avg_beta = 0.995;
  std::optional<Scheduled> gamma;  // R1: Mescheder et al. 2018
  int64_t d_interval = 16;         // Karras et al. 2020a, sec. 3.1
  std::optional<int64_t> max_micro_batch;
  AugmentChoice<AugmentMode> augmentation;
  AdaOptions ada;
  AugmentOptions augment;
  PlayerOptions G = style_player(0.002);
  PlayerOptions D = style_player(0.002);
};

// Groups of their fields, in the order in which a recipe's keys stand; `recipe` begins their names.
template <class Field>
void label_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
}

template <class Field>
void latent_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".z_dim", o.z_dim, between(1, 65536), "length of z");
  field(recipe + ".w_dim", o.w_dim, between(1, 65536), "length of w");
  field(recipe + ".map_depth", o.map_depth, between(1, 64), "layers of the mapping network");
}

template <class Field>
void statistics_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".mbstd_group",
        o.mbstd_group,
        between(1, 4096),
        "samples of a minibatch standard deviation");
  field(recipe + ".w_avg_beta", o.w_avg_beta, between(0, 1), "decay of the mean of w");
}

// `half`: what num_fp16_res counts.
template <class Field>
void precision_fields(StyleOptions& o,
                      const std::string& recipe,
                      const std::string& half,
                      Field&& field) {
  field(
      recipe + ".freeze_d", o.freeze_d, between(0, 1000), "D's first layers that stay as they are");
  field(recipe + ".num_fp16_res",
        o.num_fp16_res,
        between(0, 32),
        "with precision.mode=blocks: so many of the highest " + half + " compute in fp16");
  field(recipe + ".conv_clamp",
        o.conv_clamp,
        between(1e-9, 1e30),
        "with fp16: activations are kept within +- this");
}

template <class Field>
void training_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".max_micro_batch",
        o.max_micro_batch,
        at_least(1),
        "on a CPU more images of a rank than these are accumulated, unless train.micro_batch is "
        "given");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("ada", o.ada, "adaptive discriminator augmentation");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

}  // namespace gantrain
