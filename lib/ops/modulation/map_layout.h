// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "ops/device_kernels.h"

namespace gantrain {

// The order in memory of the maps [N, C, H, W] of one call: the first one's.
class MapLayout {
 public:
  explicit MapLayout(const at::Tensor& maps)
      : format_(maps.suggest_memory_format() == at::MemoryFormat::ChannelsLast
                    ? at::MemoryFormat::ChannelsLast
                    : at::MemoryFormat::Contiguous) {}

  bool channels_last() const { return format_ == at::MemoryFormat::ChannelsLast; }
  at::Tensor operator()(const at::Tensor& maps) const {
    return maps.defined() ? maps.contiguous(format_) : maps;
  }
  ActPoint operator()(const ActPoint& at) const {
    return {(*this)(at.grad), (*this)(at.y), (*this)(at.out)};
  }
  at::Tensor empty(const at::Tensor& like) const {
    return at::empty(like.sizes(), like.options().memory_format(format_));
  }

 private:
  at::MemoryFormat format_;
};

}  // namespace gantrain
