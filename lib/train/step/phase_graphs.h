// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "distributed/options.h"
#include "gan/phase.h"
#include "train/options.h"
#include "train/step/gradient_guard.h"
#include "util/rank_info.h"

namespace gantrain {

// What the micro-batches of a phase gave, beside the gradients in the parameters.
struct PhaseComputed {
  std::vector<at::Tensor> losses;  // one for each micro-batch
  Statistics statistics, sums;     // of all micro-batches
};

// Whether phases are recorded as device graphs, and if not although graphs were wanted, why not.
struct GraphChoice {
  bool used = false;
  std::string why_not;
};
struct GraphSituation {
  Graphs wanted;        // train.graphs
  bool device_records;  // records_graphs()
  const DistOptions& dist;
  bool ddp_mode_given;  // somebody chose dist.ddp_mode: it is not the default
  const RankInfo& ranks;
};
// Decides. Throws UserError(kUsage) where graphs are demanded (on) and cannot be.
GraphChoice choose_graphs(const GraphSituation& situation);

// The phases of a training step as device graphs. A phase has two: one of its forward and backward
// passes, which leaves gradients at fixed addresses, and one of verdict and optimizer step; between
// them gradients are reduced. A phase is run a few times as it is before it is recorded, so that
// libraries have chosen their algorithms by then. Where inputs change their shapes it is recorded
// anew. A phase that cannot be recorded is run as it is from then on, which is said in the log,
// or ends the run with UserError(kUsage) where graphs are demanded.
class PhaseGraphs {
 public:
  PhaseGraphs(c10::DeviceType device, Graphs wanted);
  ~PhaseGraphs();

  using Compute = std::function<PhaseComputed(const Batch&)>;
  using Step = std::function<GradientVerdict()>;

  // How the next compute() of that name will run.
  enum class Way { kPlain, kRecord, kReplay };
  Way way(const std::string& name, const Batch& inputs) const;

  // What compute() is called with beside the work itself.
  struct Call {
    std::string name;  // of the phase, with what it takes over and hands over
    // Graphs of one pool may overwrite each other's tensors, but for results. Phases that hand
    // tensors over have a pool of their own.
    std::string pool;
    const NamedTensors& parameters;  // whose gradients it leaves
  };
  // Returns compute(inputs) and leaves its gradients in the parameters: by calling it, or by
  // recording and replaying it with copies of the inputs. The result's tensors are not changed by
  // later calls. Gradients of a replayed phase lie where they lay at the last replay. Where the
  // recording fails, compute() is called a second time.
  PhaseComputed compute(const Call& call, const Batch& inputs, const Compute& compute);
  // Returns step(), called or replayed; replayed only while compute() of that name is and the
  // gradients have the addresses that they had then.
  GradientVerdict step(const std::string& name, const NamedTensors& parameters, const Step& step);
  // From now on runs the phase as it is.
  void refuse(const std::string& name, const std::string& why);
  // Forgets everything recorded: addresses, shapes or types of what phases work on have changed.
  void clear();

 private:
  struct Recorded;
  Recorded& entry(const std::string& name, const Batch& inputs);
  void record(Recorded& into, const Call& call, const Batch& inputs, const Compute& compute);
  GraphPool& pool(const std::string& name);

  c10::DeviceType device_;
  Graphs wanted_;
  std::map<std::string, std::unique_ptr<GraphPool>> pools_;
  std::map<std::string, std::unique_ptr<Recorded>> recorded_;
  std::map<std::string, std::string> refused_;
};

}  // namespace gantrain
