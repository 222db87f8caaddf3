// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "distributed/options.h"
#include "page/run_page.h"
#include "train/options.h"
#include "train/run/reporter.h"
#include "train/run/run_metrics.h"
#include "train/run/run_start.h"
#include "train/save/checkpoint_writer.h"

namespace gantrain {

// The sections of a configuration that control a run.
struct RunConfig {
  explicit RunConfig(const Config& config)
      : train(config.read<TrainOptions>()),
        save(config.read<SaveOptions>()),
        samples(config.read<SampleOptions>()),
        metrics(config.read<MetricsOptions>()),
        run(config.read<RunOptions>()),
        dist(config.read<DistOptions>()) {}

  TrainOptions train;
  SaveOptions save;
  SampleOptions samples;
  MetricsOptions metrics;
  RunOptions run;
  DistOptions dist;
};

// One rank's training run, from the first broadcast to the last save: cadences, files and requests.
// All ranks make the same collective calls; rank 0 writes the files.
class Trainer {
 public:
  explicit Trainer(const TrainSetup& setup);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  Exit run();

 private:
  void begin_stage(int64_t number);
  void fit_batch(const Size& resolution);
  void enter_due_stage();
  void count_stage();
  void iterate();
  void train_on_a_batch();
  void predict_time();
  RankRequests poll_requests();
  void end_of_iteration(int64_t images_before);
  void tick();
  void check_ranks();
  CheckpointWriter::Save save_of_now() const;
  void save();
  void end_save(const std::filesystem::path& state) const;
  void finish_saving();
  void save_model_now(const std::filesystem::path& path, std::function<void()> afterwards = {});
  void sample(const std::string& file);
  std::unique_ptr<RunMetrics> make_metrics();
  void measure();
  SynthesisOptions drawn_now() const;
  void on_rank_0(const std::function<void()>& work);
  Exit finish();
  Exit stop();
  [[noreturn]] void end_collapsed();
  Exit leave(Exit code);

  bool writes() const { return group_->rank() == 0; }
  const Schedule& schedule() const { return step_->recipe().schedule(); }
  std::string name_now() const;  // "000200"
  std::filesystem::path state_path_now() const;
  std::filesystem::path model_path_now() const;

  const TrainSetup& setup_;
  const RunConfig options_;
  const std::optional<int64_t> models_kept_;  // train/model_options.h
  const bool raw_models_;
  Config config_;  // with what was decided as the run began
  TrainingData data_;
  int lock_ = -1;  // descriptor of the run folder's lock
  std::shared_ptr<Group> group_;
  std::shared_ptr<DeviceMemory> memory_;  // null on a CPU
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<SampleGrids> grids_;
  std::unique_ptr<RunMetrics> metrics_;
  std::filesystem::path folder_;
  Counters counters_;
  std::unique_ptr<DataRecord> data_record_;  // of the run folder, on rank 0
  int64_t iterations_ = 0;                   // of the session
  double warm_at_ = 0;                       // monotonic seconds after the first one
  RankRequests asked_;                       // this rank's, until all ranks know of them
  RankRequests granted_;                     // of any rank, known to all since the last iteration
  std::string stop_reason_ = "another rank asked";
  bool is_first_iteration_ = true;  // of the session or stage
  std::unique_ptr<CheckpointWriter> writer_ = std::make_unique<CheckpointWriter>();  // of rank 0
  PageWriter page_;                                                                  // of rank 0
  int64_t sampled_at_ = -1;  // images seen at the last sample grid
  int64_t measured_at_ = -1;
  double session_start_ = 0;    // monotonic seconds
  double earlier_seconds_ = 0;  // trained in sessions before this one
};

}  // namespace gantrain
