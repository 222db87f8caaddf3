// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/value.h"
#include "core/tensor_files.h"
#include "distributed/group.h"
#include "distributed/options.h"
#include "util/rank_info.h"

namespace gantrain {

// What a progressive GAN computes at some time.
struct TableStage {
  int64_t level = 0;  // the newest of the blocks that are in use, from 0
  double alpha = 1;   // weight of the newest block, 0 to 1; the older ones have the rest
  // Whether the same parameters take part in both stages.
  bool same_graph(const TableStage& other) const {
    return level == other.level && (alpha < 1) == (other.alpha < 1);
  }
};

// A GAN with a few thousand weights, with which the table is measured.
// All ranks make the same one.
class TableGan {
 public:
  virtual ~TableGan() = default;

  // z [N, kLatents] to pictures [N, 3, S, S], where S is side(stage).
  virtual at::Tensor generate(const at::Tensor& z, const TableStage& stage) const = 0;
  // Pictures [N, 3, S, S] to scores [N].
  virtual at::Tensor judge(const at::Tensor& x, const TableStage& stage) const = 0;
  virtual TableStage stage_at(int64_t /*iteration*/) const { return {}; }
  // Whether the parameter takes part in the stage.
  virtual bool is_active(const std::string& /*parameter*/, const TableStage& /*stage*/) const {
    return true;
  }
  virtual int64_t side(const TableStage& stage) const = 0;  // of a picture, in pixels

  NamedTensors all() const;  // parameters of G, then D

  NamedTensors G, D;  // parameters, in the order in which they are used
  static constexpr int64_t kLatents = 8;

 protected:
  at::Tensor add(NamedTensors& net, const std::string& name, at::IntArrayRef shape);
};

// Without `progressive`, both networks have two layers, as in DCGAN, and pictures have 8 pixels a
// side. With it, they grow from 4 to 8 and 16 pixels, as in PGGAN, and each new block is faded in
// over two iterations. At 4 pixels most of their parameters take no part.
std::unique_ptr<TableGan> make_table_gan(bool progressive);

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

// One cell of a table that shows what happens when the two networks of a GAN are trained with a
// given way of synchronising gradients. The cells differ in the way, in whether unused parameters
// are searched for, and in whether the GAN's graph stays the same or grows. Some ways fail; they
// are in the table to show how.
struct DdpCell {
  TableSettings settings;
  bool progressive = false;
};

// What one phase costs, as a mean over the iterations.
struct CellPhase {
  double bytes = 0;  // given to collectives, by one rank
  double collectives = 0;
  int64_t buckets = 0;  // in the last iteration
};

struct CellResult {
  DdpCell cell;
  std::string error;            // first sentence of the error that ended it; empty: there was none
  int64_t failed_at = -1;       // the iteration of the error, from 0; -1: there was none
  bool not_reduced = false;     // the ranks' weights differed, perhaps before an error
  double from_one_process = 0;  // largest difference between a weight and that of one process
  std::map<std::string, CellPhase> phases;  // "D" and "G"

  // Says what happened: "OK", "error at iteration 2: ...", "ranks differ".
  std::string text() const;
};

// Runs `body` in `world` processes, one for each rank, and returns what they returned, by rank.
// Throws if one of them died.
using RunRanks = std::function<std::vector<std::string>(
    int64_t world, const std::function<std::string(const Rendezvous&)>& body)>;

// Measures all cells, in the order of the table, each with two gloo ranks. The calling process must
// not have called LibTorch, because it forks.
std::vector<CellResult> measure_ddp_table(const RunRanks& run);
// Measures one cell and compares it with one process that trains the same GAN.
CellResult measure_cell(const DdpCell& cell, const RunRanks& run);

// What is known to happen in the cell with LibTorch 2.11, as the beginning of CellResult::text().
std::string expected_text(const DdpCell& cell);

// The table as text, with one line for each cell, and the same as JSON. A "!" stands before cells
// in which something else happened than expected_text() says.
std::string ddp_table_text(const std::vector<CellResult>& results);
Json ddp_table_json(const std::vector<CellResult>& results);

}  // namespace gantrain
