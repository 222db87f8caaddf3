// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// A layer's convolution or matrix product: its operator and shapes, without the number of samples.
struct Product {
  enum class Kind { kConv2d, kConvTranspose2d, kLinear };
  Kind kind = Kind::kConv2d;
  // [C, H, W] of a sample; of a matrix product [in, 1, 1].
  std::array<int64_t, 3> input = {1, 1, 1};
  // As the tensor's; of a matrix product [out, in, 1, 1].
  std::array<int64_t, 4> weight = {1, 1, 1, 1};
  int64_t stride = 1;
  std::array<int64_t, 2> padding = {0, 0};  // rows, columns
  int64_t groups = 1;

  auto operator<=>(const Product&) const = default;
};

// Writes "conv2d 512x32x32 512x512x3x3 s2 p1x1 g4" without stride 1, no padding and one group, and
// reads it; nothing where it is no such text.
std::string to_text(const Product& product);
std::optional<Product> product_from(std::string_view text);

// Which products compute in bfloat16 (true) and which in float32 (false, or not listed). As text it
// is "conv2d 512x32x32 512x512x3x3 = bfloat16, linear 64 64x64 = float32", or "float32" if empty.
using ProductChoice = std::map<Product, bool>;
std::string to_text(const ProductChoice& choice);
std::optional<ProductChoice> choice_from(std::string_view text);

// How often forward passes compute a product, and which gradients their backward passes will need.
struct ProductUses {
  int64_t samples = 0;  // of the largest batch
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};
using ProductRecord = std::map<Product, ProductUses>;

// The types that forward passes compute in. Parameters stay as they are, normally float32.
struct ForwardPrecision {
  // The type of convolutions and matrix products under autocast; none: the type of their inputs.
  std::optional<at::ScalarType> autocast_type;
  // Networks and blocks that stay in float32 with everything inside them: "G", "D.b4".
  std::vector<std::string> keep_float32;
  // On a CPU, without autocast: which convolutions and matrix products round their operands to
  // bfloat16. Results have the type of the inputs, as they do in all other operators. Null: none.
  std::shared_ptr<const ProductChoice> choice = nullptr;
};

// The type that a block's convolutions and products computed in, and the reason where it is not the
// type that was asked for.
struct Computed {
  std::string block;  // "G.synthesis.b16": the player, then the prefix of the parameters' names
  at::ScalarType type;
  std::string why;
  bool operator==(const Computed&) const = default;
};

// While this object lives, forward passes of this thread on that device compute as `precision`
// says, and each block notes once in `seen` what it computes in. LibTorch's autocast is on
// meanwhile; afterwards its cache of weights is empty. Both arguments outlive it. No nesting.
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

// While this object lives, this thread's layers compute in float32 what comes in half precision,
// under autocast too; float64 stays float64. `why`, a string literal, is the reason that
// note_computed() notes; where objects are nested, the outer one's reason is noted. Where `applies`
// is false, the object does nothing.
class AutocastDisabled {
 public:
  explicit AutocastDisabled(const char* why, bool applies = true);
  ~AutocastDisabled();

 private:
  const char* before_;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> guard_;
};
// Whether this thread is inside such an object.
bool in_float32();

// Whether something may be lowered here: autocast is on in this thread, or chooses_products().
bool autocast_is_on();

// While this object lives, each product of this thread that chooses its type is counted in
// `record`, `weight` times. Objects must not be nested.
class ProductRecording {
 public:
  ProductRecording(ProductRecord& record, double weight);
  ~ProductRecording();
  ProductRecording(const ProductRecording&) = delete;
  ProductRecording& operator=(const ProductRecording&) = delete;
};

// Whether this forward pass has ForwardPrecision::choice, and need not compute in float32 here.
bool chooses_products();
// Then: whether that product computes in bfloat16. A ProductRecording counts `once`, a call's
// needs.
bool lowers_product(const Product& product, const ProductUses& once);

// While this object lives, this thread's layers belong to the block `name` inside the block around
// it. A block that ForwardPrecision::keep_float32 names, or that lies in one of these, computes in
// float32. The name "" opens no
// block.
class BlockScope {
 public:
  explicit BlockScope(std::string_view name);
  ~BlockScope();

 private:
  bool named_ = false;
  size_t outside_ = 0;  // length of the outer block's name
  std::optional<AutocastDisabled> kept_;
};

// Every layer with parameters calls this with the type of its product's operands. `why`, a string
// literal, is the reason where the layer always computes in it; that of an AutocastDisabled around
// the call goes before it.
void note_computed(at::ScalarType type, const char* why = nullptr);

}  // namespace gantrain
