// SPDX-License-Identifier: Apache-2.0
#include "train/training_data.h"

#include "core/torch.h"
#include "data/workers.h"
#include "train/classes.h"
#include "train/options.h"
#include "util/cores.h"
#include "util/error.h"

namespace gantrain {

TrainingData::TrainingData(const TrainSetup& setup)
    : setup_(setup), options_(setup.config.read<DataOptions>("data.")), dataset_(setup.dataset) {
  const auto train = setup.config.read<TrainOptions>("train.");
  dtype_ = train.dtype == Dtype::kFloat64 ? at::kDouble : at::kFloat;
  seed_ = static_cast<uint64_t>(train.seed);
  setup_.callbacks.phase("opening data");
  if (!dataset_)
    dataset_ = open_dataset(options_, [this] { return setup_.callbacks.stop_signal() != 0; });
  classes_ = class_table_of(*dataset_);
  labels_used_ = !trained_classes(classes_, options_, setup.recipe.facts, setup.config).empty();
}

TrainingData::~TrainingData() = default;

std::vector<int64_t> TrainingData::class_counts() const {
  return pictures_of_classes(used_classes());
}

void TrainingData::begin(const Size& resolution, int64_t batch, int64_t images_seen) {
  DataOptions of_stage = options_;
  of_stage.resolution = resolution;
  loader_.reset();  // its threads end before the next one's begin
  const RankInfo& ranks = setup_.rendezvous.ranks;
  const int64_t computing = setup_.device.is_cuda() ? kThreadsBesideGpu : at::get_num_threads();
  const int64_t workers = choose_workers(
      options_, {.cores = usable_cores(), .ranks = ranks.local_world, .computing = computing});
  loader_ = std::make_unique<Loader>(dataset_, of_stage, seed_, ranks, images_seen, batch, workers);
  if (!input_ && !setup_.device.is_cpu())
    input_ = std::make_unique<DeviceInput>(streams_of(setup_.device, DeviceInput::kEvents), dtype_);
}

RankBatch TrainingData::next() {
  setup_.callbacks.phase("loading data");
  const RealBatch loaded = loader_->next();
  waited_ = loaded.waited;
  const at::Tensor labels = labels_used_ ? loaded.labels : at::Tensor();
  if (input_) {
    DeviceBatch on_device = input_->bring(loaded.images, labels);
    return {std::move(on_device.real), std::move(on_device.labels)};
  }
  RankBatch batch;
  batch.real = loaded.images.to(dtype_).div_(127.5).sub_(1);
  batch.labels = labels;
  return batch;
}

}  // namespace gantrain
