// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// How forward passes compute; parameters are float32 whatever it says.
struct ForwardPrecision {
  // Type of convolutions and matrix products (autocast); none: that of their inputs.
  std::optional<at::ScalarType> autocast_type;
  // Networks and blocks that stay in float32, with all that is inside: "G", "D.b4".
  std::vector<std::string> keep_float32;
};

// What a block's convolutions and products were computed in, and the reason where that is not what
// was asked for.
struct Computed {
  std::string block;  // "G.synthesis.b16": player, then the name that its parameters begin with
  at::ScalarType type;
  std::string why;
  bool operator==(const Computed&) const = default;
};

// While it lives, forward passes of this thread on that device compute so, and each block notes
// once in `seen` what it computes in. LibTorch's autocast is on meanwhile; its cache of lowered
// weights is empty afterwards. Both arguments must outlive it. Not to be nested.
class AutocastScope {
 public:
  AutocastScope(const ForwardPrecision& precision,
                c10::DeviceType device,
                std::vector<Computed>* seen = nullptr);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool lowers_;
};

// While it lives, this thread computes in float32 (float64 stays) what comes in half precision,
// under autocast too. `why` is a literal. Inside another one the outer reason stands. One that does
// not `apply` changes nothing.
class AutocastDisabled {
 public:
  explicit AutocastDisabled(const char* why, bool applies = true);
  ~AutocastDisabled();
  AutocastDisabled(const AutocastDisabled&) = delete;
  AutocastDisabled& operator=(const AutocastDisabled&) = delete;

 private:
  const char* before_;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> guard_;
};
bool in_float32();

// Whether autocast lowers what this thread computes, on any device.
bool autocast_is_on();

// While it lives, layers compute as parts of this block of the block around it. A block that is to
// stay in float32 does. "" is no block.
class BlockScope {
 public:
  explicit BlockScope(std::string_view name);
  ~BlockScope();
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

 private:
  bool named_ = false;
  size_t outside_ = 0;  // length of the name of the block around it
  std::optional<AutocastDisabled> kept_;
};

// Told by every layer that has parameters: the type of the operands of its convolution or product.
// `why` is a literal, the reason where the layer always computes in that type, or null; the reason
// of an AutocastDisabled around the call stands before it.
void note_computed(at::ScalarType type, const char* why = nullptr);

}  // namespace gantrain
