// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/load/loader.h"
#include "data/pictures/dataset.h"
#include "gan/class_table.h"
#include "gan/recipe_facts.h"
#include "train/run/trainer.h"
#include "train/step/training_step.h"

namespace gantrain {

// Returns the section `data`, for open_dataset(). A run that goes on from a state keeps that
// state's number of classes: runs of earlier versions know none of those at the end of a list that
// have no picture.
DataOptions data_to_open(const Config& config);

// Counts the pictures of each class of the data; empty where it has no labels. Where labels are
// vectors, the table has their numbers, and labels of some pictures.
ClassTable class_table_of(const Dataset& dataset);

// Returns the labels of all pictures where these are vectors, float32 [pictures, L] on the CPU;
// undefined for other data.
at::Tensor label_rows_of(const Dataset& dataset);

// Whether a run would use the labels of its data: --cond asks for them, or leaves it to the recipe.
bool wants_labels(const DataOptions& data, const RecipeFacts& recipe, const Config& config);

// Returns the classes of the data that a run is trained on; empty where labels are not used. Throws
// UserError(kInput) where --cond asks for labels that the data has not.
ClassTable trained_classes(const ClassTable& of_data,
                           const DataOptions& data,
                           const RecipeFacts& recipe,
                           const Config& config);

// Returns the number of pictures of each class; empty where labels are vectors.
std::vector<int64_t> pictures_of_classes(const ClassTable& table);

// Returns the lines that show the table when a run starts: number, name and pictures of each class;
// of more than 20 classes the first 19 and what the others have in common.
std::vector<std::string> class_lines(const ClassTable& table);

// Returns what is odd about classes that are trained on, one line each: those without a picture,
// and those with a single one.
std::vector<std::string> class_warnings(const ClassTable& table);

// Returns how the classes of a run differ from those of a state that it is to go on from, in words
// that name the first class in question; "" where names and order are the same. The numbers of
// pictures may differ. A state that is older than the table has an empty one, which fits all, and
// one whose classes had no names fits as many classes that have.
std::string class_difference(const ClassTable& saved, const ClassTable& now);

// Two queues of work of one device: what is given to a stream begins after all that was given to it
// before, and the host does not wait for it. Events order the streams among each other.
class InputStreams {
 public:
  enum class Which { kCopying, kComputing };
  using Event = int64_t;  // 0, 1, 2, ...

  virtual ~InputStreams() = default;
  // Returns memory of the host that the device reads by itself, and memory of the device.
  virtual at::Tensor host_memory(at::IntArrayRef sizes, at::ScalarType type) = 0;
  virtual at::Tensor device_memory(at::IntArrayRef sizes, at::ScalarType type) = 0;
  // Gives work to a stream.
  virtual void run(Which stream, const std::function<void()>& work) = 0;
  // From now on the event stands for the end of all that this stream has been given so far.
  virtual void record(Event event, Which stream) = 0;
  // What the stream is given from now on begins after the event as it was last recorded. An event
  // that was never recorded lies in the past.
  virtual void begin_after(Event event, Which stream) = 0;
  // The host waits for the event as it was last recorded.
  virtual void wait(Event event) = 0;
};

// Returns the streams of a device that is no CPU: the one that this thread computes on, and one for
// copies alone. They have `events` events. It is called on the thread that uses them.
std::unique_ptr<InputStreams> streams_of(at::Device device, int64_t events);

// Brings batches to a device while it still computes on earlier ones. Pictures travel as bytes or
// words, from page-locked memory, on a stream of their own, and become numbers on the device. There
// are two buffers on each side. The host waits only for a copy that began two batches ago and has
// not ended yet; the computing stream waits for its own batch's copy.
class DeviceInput {
 public:
  static constexpr int64_t kBuffers = 2;
  static constexpr int64_t kEvents = 2 * kBuffers;  // that it needs of its streams

  // Batches get numbers of type `type`.
  DeviceInput(std::unique_ptr<InputStreams> streams, at::ScalarType type);
  ~DeviceInput();

  // `loaded` is on the CPU, its pictures are bytes, and it is free to be overwritten when this
  // returns. The result is there for all work that the computing stream is given from now on; its
  // values are those of real / 127.5 - 1 on a CPU, of 16 bits real / 32767.5 - 1, to the bit.
  Batch bring(const Batch& loaded);

 private:
  // A tensor's way: page-locked memory of the host, then memory of the device.
  struct Lane {
    at::Tensor host, device;
  };
  struct Buffer {
    Lane images, labels;
  };

  void fit(Lane& lane, const at::Tensor& like, InputStreams::Event used);

  std::unique_ptr<InputStreams> streams_;
  at::Tensor half_range_;     // 127.5, on the device
  at::Tensor half_range_16_;  // 32767.5
  std::array<Buffer, kBuffers> buffers_;
  int64_t turn_ = 0;  // batches so far
};

// The real pictures of a run as one rank gets them: on its device, ready for the step.
class TrainingData {
 public:
  // Opens the data set of the section `data`, unless the setup brings one. Throws UserError(kInput)
  // where it cannot be read, or lacks labels that are asked for.
  explicit TrainingData(const TrainSetup& setup);
  ~TrainingData();

  // From now on hands out shares of batches of that size with pictures of size `resolution`,
  // beginning with the image after `images_seen`. `units` is Loader's.
  void begin(const Size& resolution, int64_t batch, int64_t images_seen, int64_t units = 0);
  // Returns this rank's share of the next global batch. On a GPU the pictures are still on their
  // way then; what is computed with them waits for them, and the host does not.
  Batch next();
  // Seconds that the last next() waited for its pictures.
  double waited() const { return loader_->waited(); }

  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const Size& resolution() const { return options_.resolution; }  // of the full pictures
  bool labels_used() const { return labels_used_; }
  // Returns the classes of the data, whether or not its labels are used.
  const ClassTable& classes() const { return classes_; }
  // Returns the classes that the networks are trained on; empty where labels are not used.
  ClassTable used_classes() const { return labels_used_ ? classes_ : ClassTable(); }
  // Returns the number of pictures of each class; empty where labels are not used, or are vectors.
  std::vector<int64_t> class_counts() const;
  // Returns the labels of all pictures where vectors are used; else undefined.
  at::Tensor label_rows() const;

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
};

}  // namespace gantrain
