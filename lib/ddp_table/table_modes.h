// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributed/group.h"
#include "distributed/options.h"
#include "ddp_table/table_gan.h"

namespace gantrain {

enum class TableWay {
  kWholeModel,    // one DistributedDataParallel around the GAN, armed behind each iteration
  kWrapper,       // --ddp-mode wrapper
  kWholeDynamic,  // one reducer for the GAN, armed on each loss
  kOwn,           // gantrain's default: one reducer a network, made anew at each stage
};

// How the gradients of one cell of the table are synchronised. All calls come in this order:
class TableMode {
 public:
  virtual ~TableMode() = default;
  virtual void begin_iteration(const TableStage& /*stage*/) {}
  virtual void begin_phase(bool /*of_G*/) {}
  virtual void forwarded(bool /*of_G*/, const at::Tensor& /*output*/) {}  // of the stepping network
  virtual at::Tensor expect_backward(bool /*of_G*/, const at::Tensor& loss) { return loss; }
  virtual void finish_phase(bool /*of_G*/) {}  // before the step
  virtual void end_iteration(const at::Tensor& /*fake*/) {}
  virtual int64_t buckets(bool of_G) const = 0;
  // Whether parameters outside the stage are frozen.
  virtual bool freezes() const { return false; }
  // Whether the stepping network's gradients become zeros before its phase, as in PyTorch 1, and
  // not undefined.
  virtual bool zeroes() const { return false; }
};

struct TableSettings {
  TableWay way = TableWay::kOwn;
  bool find_unused = false;  // of kOwn: not asked
  bool average = false;  // a trainable copy of G in the whole GAN's reducer, as MMGeneration has it
};

std::unique_ptr<TableMode> make_table_mode(const TableSettings& settings,
                                           const std::shared_ptr<Group>& group,
                                           const TableGan& gan);

}  // namespace gantrain
