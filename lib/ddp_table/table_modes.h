// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ddp_table/table_gan.h"
#include "distributed/group.h"
#include "distributed/options.h"

namespace gantrain {

enum class TableWay {
  kWholeModel,    // one DistributedDataParallel around both networks, armed after each iteration
  kWrapper,       // --ddp-mode wrapper
  kWholeDynamic,  // one reducer for both networks, armed before each backward pass
  kOwn,           // gantrain's default: one reducer for each network, made anew at each stage
};

// How the gradients of one cell of the table are synchronised. In each iteration begin_iteration()
// is called, then the functions from begin_phase() to finish_phase() for each of the two phases,
// then end_iteration(). A phase trains G if `of_G`, else D.
class TableMode {
 public:
  virtual ~TableMode() = default;
  virtual void begin_iteration(const TableStage& /*stage*/) {}
  virtual void begin_phase(bool /*of_G*/) {}
  // After each call of the network that is being trained.
  virtual void forwarded(bool /*of_G*/, const at::Tensor& /*output*/) {}
  // Before the backward pass. The caller back-propagates what it returns.
  virtual at::Tensor expect_backward(bool /*of_G*/, const at::Tensor& loss) { return loss; }
  // After the backward pass. Then all gradients are to be means over ranks.
  virtual void finish_phase(bool /*of_G*/) {}
  // `fake`: the pictures of G's phase.
  virtual void end_iteration(const at::Tensor& /*fake*/) {}

  virtual int64_t buckets(bool of_G) const = 0;
  // Whether parameters that take no part in the stage must be frozen.
  virtual bool freezes() const { return false; }
  // Whether the gradients of the network that is being trained are set to zero before its phase, as
  // PyTorch 1 did it, and not to undefined.
  virtual bool zeroes() const { return false; }
};

struct TableSettings {
  TableWay way = TableWay::kOwn;
  bool find_unused = false;  // search for unused parameters; kOwn does not read it
  // Put a trainable copy of G into the reducer of the whole GAN, as MMGeneration does with G's
  // average.
  bool average = false;
};

std::unique_ptr<TableMode> make_table_mode(const TableSettings& settings,
                                           const std::shared_ptr<Group>& group,
                                           const TableGan& gan);

}  // namespace gantrain
