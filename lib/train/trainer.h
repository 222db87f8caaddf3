// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/callbacks.h"
#include "train/init_from.h"
#include "train/mixed_precision.h"
#include "train/reporter.h"
#include "train/shared.h"

namespace gantrain {

// One rank's training run, from the first broadcast to the last save. All ranks make the same
// collective calls; the one that writes files is rank 0.
class Trainer {
 public:
  explicit Trainer(const TrainSetup& setup);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  Exit run();

 private:
  void open_data();
  void build_networks();
  bool resume();  // true if a state was loaded
  void open_run_folder();
  void write_start_files(bool resumed);
  void begin_stage(int64_t number);
  void enter_due_stage();
  void check_stage() const;
  void draw_as_now();
  void count_stage();
  RankBatch next_batch();
  void iterate();
  void report_gradients(const Player& player, const GradientReport& report);
  void end_of_iteration(int64_t images_before);
  RankRequests poll_requests();
  void predict_time();
  void tick();
  void check_ranks();
  void save();
  void sample(const std::string& file);
  void measure();
  Exit finish();
  Exit stop();
  void lock_run_folder();
  void check_batch_groups() const;

  bool writes() const { return group_->rank() == 0; }
  std::string name_now() const;  // "000200"

  const TrainSetup& setup_;
  TrainOptions train_;
  EmaOptions ema_options_;
  SaveOptions save_options_;
  SampleOptions sample_options_;
  MetricsOptions metrics_options_;
  RunOptions run_;
  DataOptions data_options_;
  DistOptions dist_;
  PrecisionOptions precision_options_;

  std::shared_ptr<Group> group_;
  BatchPlan plan_;
  std::shared_ptr<const Dataset> dataset_;
  bool labels_used_ = false;
  std::unique_ptr<Recipe> recipe_;
  std::unique_ptr<Generator> ema_;
  std::vector<PlayerState> players_;
  ForwardPrecision precision_;
  std::unique_ptr<SharedStatistics> shared_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<Loader> loader_;
  NamedTensors state_;
  Counters counters_;
  std::filesystem::path folder_;
  std::filesystem::path resumed_from_;
  std::optional<InitTable> init_;  // of a fresh run with --init-from, rank 0
  int lock_ = -1;                  // descriptor of the run folder's lock
  RankRequests asked_;                 // by this rank, until all have heard
  RankRequests granted_;               // by all ranks, at the end of the last iteration
  std::string stop_reason_ = "another rank asked";
  int64_t sampled_at_ = -1;  // images seen at the last sample, metric
  int64_t measured_at_ = -1;
  bool fractions_ = false;
  double session_start_ = 0;
  int64_t iterations_here_ = 0;
  double warm_at_ = 0;
  double earlier_seconds_ = 0;
};

}  // namespace gantrain
