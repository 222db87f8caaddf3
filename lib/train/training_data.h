// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "data/loader.h"
#include "gan/class_table.h"
#include "train/callbacks.h"
#include "train/device_input.h"
#include "train/training_step.h"

namespace gantrain {

// The real pictures of a run as one rank gets them: on its device, ready for the step.
class TrainingData {
 public:
  // Opens the data set of the section `data`, unless the setup brings one. Throws UserError(kInput)
  // where it cannot be read, or lacks labels that are asked for.
  explicit TrainingData(const TrainSetup& setup);
  ~TrainingData();

  // From now on hands out batches of that size with pictures of size `resolution`,
  // beginning with the image after `images_seen`.
  void begin(const Size& resolution, int64_t batch, int64_t images_seen);
  // Returns this rank's share of the next global batch. On a GPU the pictures are still on their
  // way then; what is computed with them waits for them, and the host does not. The caller fills in
  // iteration and images_seen.
  RankBatch next();
  double waited() const { return waited_; }  // seconds that the last next() waited for its pictures

  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const Size& resolution() const { return options_.resolution; }  // of the full pictures
  bool labels_used() const { return labels_used_; }
  // Returns the classes of the data, whether or not its labels are used.
  const ClassTable& classes() const { return classes_; }
  // Returns the classes that the networks are trained on; empty where labels are not used.
  ClassTable used_classes() const { return labels_used_ ? classes_ : ClassTable(); }
  // Returns the number of pictures of each class; empty where labels are not used.
  std::vector<int64_t> class_counts() const;

 private:
  const TrainSetup& setup_;
  DataOptions options_;
  at::ScalarType dtype_;
  uint64_t seed_;
  std::shared_ptr<const Dataset> dataset_;
  ClassTable classes_;
  bool labels_used_ = false;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DeviceInput> input_;  // null on a CPU
  double waited_ = 0;
};

}  // namespace gantrain
