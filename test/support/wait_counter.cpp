// SPDX-License-Identifier: Apache-2.0
#include "support/wait_counter.h"

#ifndef NDEBUG
#error "link gantrain_test_waits: at::RecordFunction::inputs() works in a build with NDEBUG alone"
#endif

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>

namespace gantrain {

bool are_apart(const at::Device& a, const at::Device& b) {
  return a != b && !a.is_meta() && !b.is_meta();
}

namespace {

// Callbacks of at::RecordFunction are plain functions, so what they note lies here.
std::mutex mutex;
std::vector<Wait> noted;
thread_local int depth = 0;  // of operators whose insides do not count

struct Inside final : at::ObserverContext {};

constexpr std::array<std::string_view, 8> kWaits = {"aten::item",
                                                    "aten::_local_scalar_dense",
                                                    "aten::is_nonzero",
                                                    "aten::equal",
                                                    "aten::nonzero",
                                                    "aten::nonzero_numpy",
                                                    "aten::masked_select",
                                                    "aten::_pin_memory"};

bool is_one_of_waits(std::string_view name) {
  return std::find(kWaits.begin(), kWaits.end(), name) != kWaits.end();
}

// Whether the call brings numbers from one device to another.
bool copies_between_devices(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  if (inputs.empty() || !inputs[0].isTensor()) return false;
  const at::Tensor& self = inputs[0].toTensor();
  if (!self.defined()) return false;
  if (name == "aten::copy_") {
    return inputs.size() > 1 && inputs[1].isTensor() && inputs[1].toTensor().defined() &&
           are_apart(inputs[1].toTensor().device(), self.device());
  }
  if (name == "aten::_to_copy")  // (self, dtype, layout, device, ...)
    return inputs.size() > 3 && inputs[3].isDevice() &&
           are_apart(inputs[3].toDevice(), self.device());
  return false;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const auto inputs = call.inputs();
  const bool waits = is_one_of_waits(name) || copies_between_devices(name, inputs);
  if (!waits && name.substr(0, 13) != "aten::_fused_") return nullptr;
  if (++depth > 1 || !waits) return std::make_unique<Inside>();
  Wait wait{std::string(name)};
  if (!inputs.empty() && inputs[0].isTensor() && inputs[0].toTensor().defined())
    wait.type = inputs[0].toTensor().scalar_type();
  const std::lock_guard<std::mutex> lock(mutex);
  noted.push_back(std::move(wait));
  return std::make_unique<Inside>();
}

void end(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
  if (context != nullptr) --depth;
}

}  // namespace

WaitCounter::WaitCounter() {
  noted.clear();
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

WaitCounter::~WaitCounter() { at::removeCallback(callback_); }

std::vector<Wait> WaitCounter::seen() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return noted;
}

std::string text_of(const std::vector<Wait>& waits) {
  std::string text;
  for (const Wait& wait : waits) {
    if (!text.empty()) text += ", ";
    text += wait.op + " " + c10::toString(wait.type);
  }
  return text;
}

}  // namespace gantrain
