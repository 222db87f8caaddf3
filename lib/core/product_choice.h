// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// A layer's convolution or matrix product: its operator and shapes, without the number of samples.
struct Product {
  enum class Kind { kConv2d, kConvTranspose2d, kLinear };
  Kind kind = Kind::kConv2d;
  std::array<int64_t, 3> input = {
      1, 1, 1};  // [C, H, W] of a sample; of a matrix product [in, 1, 1]
  std::array<int64_t, 4> weight = {
      1, 1, 1, 1};  // as the tensor's; of a matrix product [out, in, 1, 1]
  int64_t stride = 1;
  std::array<int64_t, 2> padding = {0, 0};  // rows, columns
  int64_t groups = 1;

  auto operator<=>(const Product&) const = default;
};

// Returns "conv2d 512x32x32 512x512x3x3 s2 p1x1 g4"; stride 1, no padding and one group are left
// out.
std::string to_text(const Product& product);
// Returns the product that has this text, or nothing.
std::optional<Product> product_from(std::string_view text);

// Which products compute in bfloat16 (true) and which in float32 (false). A product that is not
// listed computes in float32.
using ProductChoice = std::map<Product, bool>;

// Returns "conv2d 512x32x32 512x512x3x3 = bfloat16, linear 64 64x64 = float32", or "float32" where
// the list is empty.
std::string to_text(const ProductChoice& choice);
// Returns the choice that has this text, or nothing.
std::optional<ProductChoice> choice_from(std::string_view text);

// How often forward passes compute a product, and which gradients their backward passes will need.
struct ProductUses {
  int64_t samples = 0;  // of the largest batch
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};
using ProductRecord = std::map<Product, ProductUses>;

}  // namespace gantrain
