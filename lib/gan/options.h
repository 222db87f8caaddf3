// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/scheduled.h"
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

}  // namespace gantrain
