// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "core/safetensors.h"

namespace gantrain {

// What a progressive GAN computes at some time: blocks up to `level`, the newest weighted by alpha.
struct TableStage {
  int64_t level = 0;
  double alpha = 1;
  bool same_graph(const TableStage& other) const {
    return level == other.level && (alpha < 1) == (other.alpha < 1);
  }
};

// A GAN of a few thousand weights that the table of DDP modes (ddp_table.h) is measured with. All
// ranks make the same one.
class TableGan {
 public:
  virtual ~TableGan() = default;

  virtual at::Tensor generate(const at::Tensor& z, const TableStage& stage) const = 0;
  virtual at::Tensor judge(const at::Tensor& x, const TableStage& stage) const = 0;
  virtual TableStage stage_at(int64_t /*iteration*/) const { return {}; }
  virtual bool is_active(const std::string& /*parameter*/, const TableStage& /*stage*/) const {
    return true;
  }
  virtual int64_t side(const TableStage& stage) const = 0;  // pixels

  NamedTensors G, D;  // parameters, in the order in which they are used
  static constexpr int64_t kLatents = 8;

 protected:
  at::Tensor add(NamedTensors& net, const std::string& name, at::IntArrayRef shape);
};

// "static": two layers each, as DCGAN, 8 pixels. "progressive": 4, 8, 16 pixels, each block faded
// in over two iterations, as PGGAN; a network at 4 pixels leaves most of its parameters unused.
std::unique_ptr<TableGan> make_table_gan(bool progressive);

}  // namespace gantrain
