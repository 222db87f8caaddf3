// SPDX-License-Identifier: Apache-2.0
#include "core/product_choice.h"

#include <string>
#include <vector>

#include "util/text.h"

namespace gantrain {

namespace {

constexpr std::array<std::string_view, 3> kKinds = {"conv2d", "conv_transpose2d", "linear"};
constexpr std::string_view kBfloat16 = "bfloat16", kFloat32 = "float32";

template <size_t count>
std::string joined(const std::array<int64_t, count>& sizes, size_t shown = count) {
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : "x") + std::to_string(sizes[i]);
  return text;
}

// Reads the first `needed` sizes; the others stay as they are.
template <size_t count>
bool read_sizes(std::string_view text, std::array<int64_t, count>& sizes, size_t needed) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != needed) return false;
  for (size_t i = 0; i < needed; ++i) {
    const std::optional<int64_t> size = parse_int(parts[i]);
    if (!size || *size < 0) return false;
    sizes[i] = *size;
  }
  return true;
}

// "s2", "p1x1" or "g4".
bool read_setting(const std::string& word, Product& product) {
  std::array<int64_t, 1> number = {1};
  const std::string_view value = std::string_view(word).substr(1);
  if (word[0] == 'p') return read_sizes(value, product.padding, 2);
  if (!read_sizes(value, number, 1) || number[0] < 1) return false;
  if (word[0] != 's' && word[0] != 'g') return false;
  (word[0] == 's' ? product.stride : product.groups) = number[0];
  return true;
}

}  // namespace

std::string to_text(const Product& p) {
  const bool linear = p.kind == Product::Kind::kLinear;
  std::string text = std::string(kKinds[static_cast<size_t>(p.kind)]) + " " +
                     joined(p.input, linear ? 1 : 3) + " " + joined(p.weight, linear ? 2 : 4);
  if (p.stride != 1) text += " s" + std::to_string(p.stride);
  if (p.padding != std::array<int64_t, 2>{0, 0}) text += " p" + joined(p.padding);
  if (p.groups != 1) text += " g" + std::to_string(p.groups);
  return text;
}

std::optional<Product> product_from(std::string_view text) {
  const std::vector<std::string> words = split(trim(text), ' ');
  if (words.size() < 3) return std::nullopt;
  size_t kind = 0;
  while (kind < kKinds.size() && kKinds[kind] != words[0]) ++kind;
  if (kind == kKinds.size()) return std::nullopt;
  Product product;
  product.kind = static_cast<Product::Kind>(kind);
  const bool linear = product.kind == Product::Kind::kLinear;
  if (!read_sizes(words[1], product.input, linear ? 1 : 3) ||
      !read_sizes(words[2], product.weight, linear ? 2 : 4))
    return std::nullopt;
  for (size_t i = 3; i < words.size(); ++i) {
    if (words[i].size() < 2 || !read_setting(words[i], product)) return std::nullopt;
  }
  return product;
}

std::string to_text(const ProductChoice& choice) {
  if (choice.empty()) return std::string(kFloat32);
  std::vector<std::string> items;
  for (const auto& [product, lowered] : choice)
    items.push_back(to_text(product) + " = " + std::string(lowered ? kBfloat16 : kFloat32));
  return join(items, ", ");
}

std::optional<ProductChoice> choice_from(std::string_view text) {
  ProductChoice choice;
  if (text == kFloat32) return choice;
  for (const std::string& item : split(text, ',')) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::optional<Product> product = product_from(item.substr(0, equals));
    const std::string type = trim(item.substr(equals + 1));
    if (!product || (type != kBfloat16 && type != kFloat32)) return std::nullopt;
    choice[*product] = type == kBfloat16;
  }
  return choice;
}

}  // namespace gantrain
