// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <stdexcept>

namespace gantrain {

namespace {

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

bool keeps(const ForwardPrecision& precision, const std::string& block) {
  return std::find(precision.keep_float32.begin(), precision.keep_float32.end(), block) !=
         precision.keep_float32.end();
}

}  // namespace

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
  if (keeps(*now.precision, now.block)) kept_.emplace("precision.keep_float32");
}

BlockScope::~BlockScope() {
  if (named_) present().block.resize(outside_);
}

void note_computed(at::ScalarType type, const char* why) {
  const Present& now = present();
  if (now.seen == nullptr) return;
  if (now.island != nullptr) why = now.island;
  const Computed one{now.block, type, why == nullptr ? "" : why};
  if (std::find(now.seen->begin(), now.seen->end(), one) == now.seen->end())
    now.seen->push_back(one);
}

}  // namespace gantrain
