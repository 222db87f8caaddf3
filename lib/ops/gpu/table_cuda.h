// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/device_kernels.h"
#include "ops/gpu/launch.h"

// The glue between tensors and the kernels of the .cu files, a part of the CUDA library. That
// library is loaded before the trainer library, so that nothing here calls one of its functions;
// headers whose functions are inline may be used. Tests link the same files with functions of
// their own for library.cpp's, which run the kernels on the host's tensors.
namespace gantrain {

// Returns the stream that work on this tensor's device is given to now.
cuda_kernels::Stream current_stream(const at::Tensor& tensor);

// Throws c10::Error if the last launch failed.
void check_launch();

// Makes that device this thread's own, and returns the one that was.
int enter_device(c10::Device device);
void leave_device(int before);

// A launch goes to the calling thread's device, whatever its stream and tensors belong to.
class OnDevice {
 public:
  explicit OnDevice(c10::Device device) : before_(enter_device(device)) {}
  ~OnDevice() { leave_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

inline const at::Tensor& tensor_in(const at::Tensor& t) { return t; }
inline const at::Tensor& tensor_in(const ActPoint& at) { return at.grad; }
inline const at::Tensor& tensor_in(const ScaledActPoint& at) { return at.y; }
inline const at::Tensor& tensor_in(const DrawNumbers& how) { return how.key; }

// OnItsDevice<kernel>::call is a table's entry: the kernel, called on the device of its first
// argument.
template <auto kKernel>
struct OnItsDevice;
template <class Result, class First, class... Rest, Result (*kKernel)(const First&, Rest...)>
struct OnItsDevice<kKernel> {
  static Result call(const First& first, Rest... rest) {
    const OnDevice guard(tensor_in(first).device());
    return kKernel(first, rest...);
  }
};

inline cuda_kernels::Type kernel_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return cuda_kernels::Type::kFloat64;
    case at::kHalf:
      return cuda_kernels::Type::kFloat16;
    case at::kBFloat16:
      return cuda_kernels::Type::kBFloat16;
    default:
      TORCH_CHECK(tensor.scalar_type() == at::kFloat, "no kernel for ", tensor.scalar_type());
      return cuda_kernels::Type::kFloat32;
  }
}

// Where a tensor's numbers lie; null where it is undefined.
inline const void* data(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
inline void* mutable_data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr() : nullptr;
}

}  // namespace gantrain

// What the library exports, for begin_on_gpu() (device_kernels.h).
extern "C" const gantrain::DeviceKernels* gantrain_cuda_kernels();
extern "C" const char* gantrain_cuda_interface();  // device_interface() of this library
