// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <stdexcept>

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

// The precision of this thread's forward passes. It is thread-local, because as a parameter it
// would only be handed down through every layer of every network. A backward pass does not look at
// it: it computes in the types of the forward pass.
struct Present {
  const ForwardPrecision* precision = nullptr;
  std::vector<Computed>* seen = nullptr;
  std::string block;
  const char* island = nullptr;  // why computing in float32, or null
  ProductRecord* record = nullptr;
  double weight = 1;  // of a product in `record`
};

Present& present() {
  thread_local Present now;
  return now;
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
  const auto kind = std::find(kKinds.begin(), kKinds.end(), words[0]);
  if (kind == kKinds.end()) return std::nullopt;
  Product product;
  product.kind = static_cast<Product::Kind>(kind - kKinds.begin());
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

AutocastScope::AutocastScope(const ForwardPrecision& precision,
                             c10::DeviceType device,
                             std::vector<Computed>* seen)
    : device_(device), lowers_(precision.autocast_type.has_value()) {
  Present& now = present();
  if (now.precision != nullptr) throw std::logic_error("a forward pass inside another one");
  now.precision = &precision;
  now.seen = seen;
  if (!lowers_) return;
  at::autocast::set_autocast_dtype(device, *precision.autocast_type);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  Present& now = present();
  now.precision = nullptr;
  now.seen = nullptr;
  if (!lowers_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

AutocastDisabled::AutocastDisabled(const char* why, bool applies) : before_(present().island) {
  if (!applies) return;
  if (before_ == nullptr) present().island = why;
  guard_.emplace(c10::autocast_dispatch_keyset);
}

AutocastDisabled::~AutocastDisabled() { present().island = before_; }

bool in_float32() { return present().island != nullptr; }

bool autocast_is_on() {
  return chooses_products() || at::autocast::is_autocast_enabled(at::kCPU) ||
         at::autocast::is_autocast_enabled(at::kCUDA);
}

ProductRecording::ProductRecording(ProductRecord& record, double weight) {
  if (present().record != nullptr) throw std::logic_error("a recording inside another one");
  present().record = &record;
  present().weight = weight;
}

ProductRecording::~ProductRecording() { present().record = nullptr; }

bool chooses_products() {
  const Present& now = present();
  return now.precision != nullptr && now.precision->choice != nullptr && now.island == nullptr;
}

bool lowers_product(const Product& product, const ProductUses& once) {
  const Present& now = present();
  if (now.record != nullptr) {
    ProductUses& uses = (*now.record)[product];
    uses.samples = std::max(uses.samples, once.samples);
    uses.forward += now.weight * once.forward;
    uses.input_gradient += now.weight * once.input_gradient;
    uses.weight_gradient += now.weight * once.weight_gradient;
  }
  const auto chosen = now.precision->choice->find(product);
  return chosen != now.precision->choice->end() && chosen->second;
}

BlockScope::BlockScope(std::string_view name) {
  Present& now = present();
  if (now.precision == nullptr || name.empty()) return;
  named_ = true;
  outside_ = now.block.size();
  if (!now.block.empty()) now.block += '.';
  now.block += name;
  // A name keeps all that is in it: "G" keeps "G.synthesis.b16", too.
  const auto keeps = [&now](const std::string& kept) {
    return now.block.starts_with(kept) &&
           (now.block.size() == kept.size() || now.block[kept.size()] == '.');
  };
  if (std::ranges::any_of(now.precision->keep_float32, keeps))
    kept_.emplace("precision.keep_float32");
}

BlockScope::~BlockScope() {
  if (named_) present().block.resize(outside_);
}

void note_computed(at::ScalarType type, const char* why) {
  const Present& now = present();
  if (now.seen == nullptr) return;
  if (now.island != nullptr) why = now.island;
  const Computed one{now.block, type, why == nullptr ? "" : why};
  if (!contains(*now.seen, one)) now.seen->push_back(one);
}

}  // namespace gantrain
