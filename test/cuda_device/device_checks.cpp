// SPDX-License-Identifier: Apache-2.0
#include "device_checks.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"
#include "support/catch.h"
#include "support/float32_checks.h"
#include "util/file.h"

namespace gantrain {

namespace {

using at::Tensor;

Tensor with_layout(const Tensor& x, Layout layout) {
  if (x.dim() != 4 || layout == Layout::kContiguous) return x.contiguous();
  if (layout == Layout::kChannelsLast) return x.contiguous(at::MemoryFormat::ChannelsLast);
  Tensor wide = torch::empty({x.size(0), x.size(1), x.size(2), 2 * x.size(3)}, x.options());
  return wide.slice(3, 0, std::nullopt, 2).copy_(x);
}

// The inputs as the operator gets them on the device, and the same numbers in float64.
struct Inputs {
  Tensors on_device, wide;
};
Inputs inputs_of(const OperatorCall& call, const Form& form, at::Device device) {
  Inputs both;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool is_map = i < call.maps;
    const Tensor rounded = call.inputs[i].to(is_map ? form.type : at::kFloat);
    both.wide.push_back(rounded.to(at::kDouble));
    both.on_device.push_back(is_map ? with_layout(rounded.to(device), form.layout)
                                    : rounded.to(device));
  }
  return both;
}

// Numbers to multiply a value with, the same for all types but for their rounding.
Tensor factors_like(const Tensor& value, const at::Generator& random, const Form& form) {
  const Tensor drawn = torch::randn(value.sizes(), random, at::kDouble).to(form.type);
  const Tensor placed = drawn.to(value.scalar_type()).to(value.device());
  // A gradient may come in its result's layout or in another one.
  return form.layout == Layout::kStrided ? placed : torch::empty_like(value).copy_(placed);
}

Tensors derivatives_of(const OperatorCall& call,
                       const Tensors& inputs,
                       int order,
                       const Form& form) {
  return derivatives(
      call.f, inputs, order, [random = factors_generator(), &form](const Tensor& value) {
        return factors_like(value, random, form);
      });
}

// A derivative by a weight is a sum over the maps' `numbers`: n random terms of about 1 add up to
// about sqrt(n), and may cancel, which their roundings do not.
double scaled_difference(const Tensor& found, const Tensor& expected, int64_t numbers) {
  const Tensor a = found.detach().cpu().to(at::kDouble), b = expected.detach();
  TORCH_CHECK(a.sizes() == b.sizes(), "shapes differ: ", a.sizes(), " and ", b.sizes());
  if (b.numel() == 0) return 0;
  const double terms = static_cast<double>(numbers) / static_cast<double>(b.numel());
  const double sum = b.numel() < numbers ? std::sqrt(terms) : 1e-3;
  const double scale = std::max(b.abs().max().item<double>(), sum);
  return (a - b).abs().max().item<double>() / scale;
}

}  // namespace

std::vector<Form> all_forms() {
  std::vector<Form> forms;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast, Layout::kStrided})
      forms.push_back({type, layout});
  }
  return forms;
}

std::string text_of(const Form& form) {
  const char* layout = form.layout == Layout::kContiguous     ? "contiguous"
                       : form.layout == Layout::kChannelsLast ? "channels-last"
                                                              : "strided";
  return std::string(c10::toString(form.type)) + ", " + layout;
}

double largest_error(const OperatorCall& call, const Form& form, at::Device device) {
  const Inputs inputs = inputs_of(call, form, device);
  double worst = 0;
  for (int order = 0; order <= 2; ++order) {
    const Tensors found = derivatives_of(call, inputs.on_device, order, form);
    Tensors expected;
    {
      const WithKernels composed(KernelSet::kRef);
      expected = derivatives_of(call, inputs.wide, order, form);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      const double error = scaled_difference(found[i], expected[i], call.inputs.front().numel());
      worst = std::isfinite(error) ? std::max(worst, error) : error;
    }
    if (!std::isfinite(worst)) break;
  }
  return worst;
}

double allowed_error(at::ScalarType type, double roundings) {
  const int bits = type == at::kHalf ? 11 : type == at::kBFloat16 ? 8 : 24;
  return roundings * std::ldexp(1.0, -bits);
}

namespace {

struct Found {
  std::optional<c10::Device> device;
  std::string why_not;
};

bool asks_for_cpu() {
  const char* asked = std::getenv("GANTRAIN_TEST_DEVICE");
  return asked != nullptr && std::string(asked) == "cpu";
}

Found find() {
  if (asks_for_cpu()) return {{}, "GANTRAIN_TEST_DEVICE=cpu"};
  // The references are computed on small maps, for which many threads would only wait for each
  // other.
  at::set_num_threads(2);
  // cuBLAS reads it once; tests of equal bits need it.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::filesystem::path library = executable_folder() / "libgantrain_cuda.so";
  if (!std::filesystem::exists(library)) return {{}, "this build has no CUDA library"};
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return {{}, std::string("the CUDA library cannot be loaded: ") + dlerror()};
  if (c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).deviceCount() == 0)
    return {{}, "no GPU is visible"};
  return {begin_on_gpu(0), ""};
}

const Found& found() {
  static const Found once = find();
  return once;
}

}  // namespace

std::optional<c10::Device> gpu_or_skip() {
  if (!found().device) WARN("skipped: " << found().why_not);
  return found().device;
}

std::optional<c10::Device> device_or_skip() {
  if (asks_for_cpu()) return c10::Device(c10::DeviceType::CPU);
  return gpu_or_skip();
}

}  // namespace gantrain
