// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/group.h"
#include "gan/phase.h"
#include "train/average/power_average.h"
#include "train/step/players.h"

namespace gantrain {

// What a rank asks of all ranks. Any rank may ask; all obey at the end of the same iteration.
struct RankRequests {
  bool stop = false;
  bool save = false;
  bool regroup = false;  // others wait to take part in an elastic run
  // What rank 0 has time for beside training: Chores::affordable(), and the iteration in which it
  // said so.
  int64_t affordable = 0xf;
  int64_t affordable_at = 0;
};

// Brings requests from every rank to all ranks, as part of the all-reduce that ends an iteration.
// Where reads cost nothing, all ranks learn of them in the same iteration. On other devices the sum
// is copied to the host while the device works on, and read at the next look. All ranks look
// next at the same iteration: it follows from the seconds that rank 0 takes for an iteration, which
// are part of the sum.
class RequestExchange {
 public:
  static constexpr int64_t kNumbers = 3;

  RequestExchange(const at::TensorOptions& like, int64_t rank);

  // Returns this rank's part of the sum, [kNumbers] with the type and device of `like`.
  at::Tensor packed(const RankRequests& mine);
  // Takes the `sum` [kNumbers] over all ranks at the end of that iteration, and returns what any
  // rank has asked for.
  RankRequests heard(const at::Tensor& sum, int64_t iteration);

 private:
  RankRequests read(const at::Tensor& on_host, int64_t iteration);

  at::TensorOptions like_;
  int64_t rank_;
  double last_;                // monotonic seconds at the last packed()
  double seconds_ = 0;         // that an iteration took here by then
  int64_t due_ = 0;            // iteration of the next look
  int64_t every_ = 16;         // iterations between two looks, from the last look
  at::Tensor pending_copy_;    // copy of the last look's sum on the host, or undefined
  int64_t pending_from_ = 0;   // iteration of that look
  bool save_granted_ = false;  // at the last look
  RankRequests known_;         // what was read last, without what is asked for
  std::optional<c10::Event> copied_;
};

// The sums that the micro-batches of a phase on this rank returned, added up.
struct PhaseSums {
  const Phase* phase;
  Statistics sums;
};

// Ends each iteration with one small all-reduce: running statistics become their mean over ranks
// (dist.broadcast_buffers), phases' sums become sums over the global batch, and every rank learns
// of the requests of all ranks.
//
// A forward pass that overflowed has no effect, as the optimizer step after it has none
// (GradientGuard): running statistics that are not finite get their previous values back,
// and a sum that is not finite changes nothing.
class IterationReduction {
 public:
  // `running`: the running statistics of all networks, the tensors themselves.
  IterationReduction(std::vector<at::Tensor> running,
                     std::vector<AllReducedSum> sums,
                     const at::TensorOptions& like,
                     std::shared_ptr<Group> group,
                     BufferSync mode);

  // Begins or resumes training: the present running statistics count as good.
  void begin();
  // Adds `phases` up over ranks and hands each sum to its AllReducedSum. `mine` holds the requests
  // of this rank. Returns the requests of all ranks; RequestExchange says at which iterations they
  // arrive.
  RankRequests run(std::vector<PhaseSums>& phases, const RankRequests& mine, int64_t iteration);

 private:
  at::Tensor add_up(std::vector<PhaseSums>& phases, const RankRequests& mine);
  void undo_overflows();
  void hand_back(const std::vector<PhaseSums>& phases);

  std::shared_ptr<Group> group_;
  BufferSync mode_;
  at::TensorOptions like_;
  std::vector<at::Tensor> running_;
  std::vector<at::Tensor> before_;  // running_ an iteration ago
  std::vector<AllReducedSum> sums_;
  RequestExchange requests_;
};

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

// Where training stands as an iteration begins.
struct Position {
  int64_t iteration = 0;
  int64_t images_seen = 0;  // by all ranks together
};

// What one phase sent through the process group; empty where one rank trains alone.
struct PhaseTraffic {
  Traffic traffic;      // collectives and bytes of this phase
  int64_t buckets = 0;  // in its last reduction
  // Seconds from the launch of the phase's last collective to the end of the reduction, on a CPU.
  // In this time the rank has nothing left to compute and waits.
  double waited = 0;
  double blocked = 0;  // seconds in which the rank waited for collectives: waited_in(), on a CPU
};

// What one phase did.
struct PhaseReport {
  const Phase* phase;
  Statistics statistics;           // of all micro-batches, {"Loss/scores/real", [n]}
  std::vector<at::Tensor> losses;  // one for each micro-batch, without the phase's gain
  GradientVerdict verdict;         // if the step was left out, losses are not reported
  PhaseTraffic spent;
  double computed = 0;  // seconds without those in which the rank waited for others, on a CPU
};

// What one iteration did. The tensors stay on the device.
struct StepReport {
  std::vector<PhaseReport> phases;
  Statistics statistics;  // what the recipe reports: one value per rank
  RankRequests asked;     // requests of any rank, now known to all
  double reducing = 0;    // seconds that the reduction at the end took
};

// What a step is built from.
struct StepSetup {
  const Config& config;
  const RecipeRow& recipe;
  std::shared_ptr<Group> group;
  at::Device device;
  Size resolution = {64, 64};
  int64_t channels = 3;
  std::vector<int64_t> class_counts;  // pictures of each class; empty: unconditional
  // Called with what the step is doing, "D forward", for the rank status board.
  std::function<void(const std::string&)> doing = [](const std::string&) {};
  int64_t depth = 8;  // bits of the pictures' values, which model files say
  // The labels of all pictures where these are vectors, float32 [pictures, L]; else undefined.
  at::Tensor label_rows = {};
};

// One iteration of training, as a function of a batch and of what is kept between iterations:
// recipe, players (networks, optimizers, gradient reductions, guards), the generator's average, and
// the sums that outlive an iteration. It is built here and nowhere else; the trainer, the benches,
// the dry run and tests use it. All ranks build the same one and make the same calls.
class TrainingStep {
 public:
  // Throws UserError where configuration, recipe and ranks do not go together.
  explicit TrainingStep(const StepSetup& setup);
  ~TrainingStep();

  // Enters a stage of the recipe's schedule: sets networks, batch, learning rates and reductions.
  // `batch` is the number of images in an iteration; 0 stands for the stage's own batch. All ranks
  // call it together, between iterations. It does nothing where networks do not grow.
  void enter(int64_t stage, int64_t batch = 0);
  // Sets the moments and step counts of all optimizers to zero.
  void reset_optimizers();

  // Begins or resumes training with the present content of state().
  void begin();
  // Runs all phases that are due on this rank's share of the batch (samples rank, rank + world,
  // ...), then the reduction over ranks, then updates the generator's average. It does not wait for
  // the device.
  StepReport run(const Batch& batch, const Position& now, const RankRequests& mine = {});
  // Waits for the device, at a tick; gives warnings, and throws UserError(kDiverged) where training
  // has diverged.
  void settle();

  // Returns everything that an exact resume needs, the tensors themselves: networks, their buffers,
  // optimizers, loss scales, the generator's averages, what the recipe keeps. Names are
  // "G/main.0.weight", "G.opt/exp_avg/main.0.weight", "G_ema/main.0.weight",
  // "G_power0.05/main.0.weight", "recipe/pl_mean".
  StateTensors state() const;

  Recipe& recipe() const { return *recipe_; }
  // How many samples normalise each other: RecipeFacts::group.
  int64_t batch_group() const { return train_.together; }
  Generator& average() const { return *average_; }  // of the generator's weights (EMA)
  // The averages that ema.posthoc=on keeps beside it, of kKeptLengths; null without.
  const PowerAverages* power_averages() const { return power_averages_.get(); }
  const std::vector<PlayerState>& players() const { return players_; }
  const BatchPlan& plan() const { return plan_; }
  int64_t channels() const { return setup_.channels; }  // of pictures
  // Labels of `count` pictures that are nothing special, on the CPU: class 0, or zeros; undefined
  // where the networks are unconditional.
  at::Tensor blank_labels(int64_t count) const;
  int64_t depth() const { return setup_.depth; }  // bits of their values
  const ForwardPrecision& precision() const { return precision_; }
  // From now on forward passes compute in these types.
  void use_precision(const ForwardPrecision& precision);
  // Computes the loss of each main phase for the samples of `batch` as one rank would, and its
  // gradients where that is asked for, to see or time the operators. Leaves nothing behind. Calls
  // `around` for each phase with the work to do.
  using AroundPhase = std::function<void(const Phase& phase, const std::function<void()>& work)>;
  void rehearse(const Batch& batch, int64_t images_seen, bool gradients, const AroundPhase& around);
  // Computes losses and gradients of all phases of an iteration, penalties too, for the samples of
  // `batch` as one rank's only micro-batch: to see how much memory they take. Leaves nothing
  // behind.
  void rehearse_all(const Batch& batch, int64_t images_seen = 0);
  // From now on cuts a rank's share of the batch into micro-batches of so many images, but for
  // players with an accumulation of their own, until a stage is entered. RankShare::has_cut() says
  // which.
  void cut_into(int64_t micro_batch);
  // Whether the ranks sum inside of phases, and not only after them.
  bool sums_inside_phases() const { return dist_.sync_bn && setup_.group->world() > 1; }
  // Describes for the log how gradients are reduced: "dynamic: G 1 bucket; D 1 bucket".
  std::string describe_reductions() const;
  // Whether phases are recorded as graphs, which keep their memory.
  bool records_graphs() const { return graphs_ != nullptr; }
  // Says whether phases are recorded and replayed; empty where no device could or nobody asked.
  std::string describe_graphs() const;
  // From now on each block notes in `computed` what it computes in; null ends this.
  void note_computed_into(std::vector<Computed>* computed) { computed_ = computed; }

 private:
  // What a phase has left to the one that continues it.
  struct Left {
    Carry carry;        // empty where the phase was replayed: the other's graph reads its memory
    std::string phase;  // its name
    std::string graph;  // the name of its graph, and how that ran
    PhaseGraphs::Way way = PhaseGraphs::Way::kPlain;
  };
  // The two ends of a phase; null where it continues none, or none continues it.
  struct Ends {
    Left* before = nullptr;
    Left* after = nullptr;
  };

  void begin_iteration(const Position& now);
  PhaseReport run_phase(const Phase& phase, const Batch& batch, const Ends& ends, PhaseSums& sums);
  PhaseTraffic reduce(PlayerState& state, const Traffic& before) const;
  PhaseComputed compute(const Phase& phase, const Batch& batch, const Ends& ends);
  double weight_of(const BatchPlan& plan, int64_t part) const;
  PhaseComputed compute_by_graph(const std::string& name,
                                 const Phase& phase,
                                 const Batch& batch,
                                 const Ends& ends);
  PhaseOutput run_micro_batch(const Phase& phase, const PhaseInput& input) const;
  PhaseInput input_of(const Phase& phase, const Batch& batch, int64_t part, const Ends& ends) const;
  PhaseInput rehearsal_input(const Phase& phase, const Batch& batch) const;
  const Phase* continuation_of(const Phase& phase, int64_t iteration) const;
  void freeze_all_but(const Phase& phase, const Phase* continuation);
  void drop_gradients(const Phase& phase, const PhaseOutput& out);
  PlayerState& state_of(const Player& player);
  const PlayerState& state_of(const Player& player) const;

  StepSetup setup_;
  TrainOptions train_;
  DistOptions dist_;
  EmaOptions ema_;
  BatchPlan plan_;
  std::unique_ptr<Recipe> recipe_;
  std::unique_ptr<Generator> average_;
  std::unique_ptr<PowerAverages> power_averages_;
  std::vector<PlayerState> players_;
  ForwardPrecision precision_;
  std::unique_ptr<IterationReduction> reduction_;
  DrawKey key_;
  DeviceNumber average_weight_;          // weight of the present weights in the average
  std::unique_ptr<PhaseGraphs> graphs_;  // null: phases run as they are
  std::string why_no_graphs_;
  std::vector<Computed>* computed_ = nullptr;
};

// Returns the samples of micro-batch `part` of a rank. Sample n of the global batch goes to rank n
// mod W, and there to micro-batch (n div W) mod K (W ranks, K = accumulate).
Samples micro_batch_samples(const BatchPlan& plan, int64_t rank, int64_t part);

}  // namespace gantrain
