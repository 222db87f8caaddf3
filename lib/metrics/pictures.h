// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/value.h"
#include "data/pictures/dataset.h"
#include "gan/schedule.h"

namespace gantrain {

class Generator;
class Group;

// Pictures that can be asked for by number, the same on every rank and at every call: the data's,
// or those that a generator makes of latents keyed by (seed, number).
class Pictures {
 public:
  virtual ~Pictures() = default;
  virtual int64_t size() const = 0;
  // Returns the pictures of these numbers, each from 0 to size() - 1: uint8 [N, C, H, W] on the
  // CPU.
  virtual at::Tensor get(const std::vector<int64_t>& numbers) = 0;
  // Returns the labels of the same pictures; empty without labels.
  virtual std::vector<int64_t> labels(const std::vector<int64_t>& /*numbers*/) { return {}; }
  // Returns the labels of the same pictures where these are vectors, float32 [N, L]; undefined
  // where they are not.
  virtual at::Tensor vectors(const std::vector<int64_t>& /*numbers*/) { return {}; }
  // Returns the name of each class, by label, or of each number of vectors; empty without labels.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Returns what results depend on, for their recipe: {"filter": "lanczos", ...}.
  virtual Json recipe() const { return Json::object(); }
  // Returns what identifies the pictures for ever: a hash of their content. Statistics of them are
  // kept under it; "" where nothing is to be kept. It may read all of the data at the first call:
  // `stop` is then asked many times a second on the calling thread, and where it returns true,
  // UserError(kStopped) is thrown.
  virtual std::string identity(const StopCheck& /*stop*/ = {}) { return ""; }
};

// The pictures of a data set.
class DatasetPictures final : public Pictures {
 public:
  struct Options {
    DataOptions data;  // with which the data set was opened
    // Whether picture k is the k-th of a fixed permutation of the data, keyed by this seed, so that
    // the first thousand stand for all; else of the data's own order.
    uint64_t seed = 0;
    bool shuffled = true;
    bool mirror = false;  // followed by all pictures again, flipped left to right
    // Pictures of these classes alone, or with a 1 at one of these places of their vectors; empty:
    // all.
    std::vector<int64_t> classes;
  };
  DatasetPictures(std::shared_ptr<const Dataset> dataset, const Options& options);

  int64_t size() const override;
  at::Tensor get(const std::vector<int64_t>& numbers) override;
  std::vector<int64_t> labels(const std::vector<int64_t>& numbers) override;
  at::Tensor vectors(const std::vector<int64_t>& numbers) override;
  std::vector<std::string> class_names() const override;
  Json recipe() const override;
  std::string identity(const StopCheck& stop = {}) override;

 private:
  int64_t index_of(int64_t number) const;

  std::shared_ptr<const Dataset> dataset_;
  Options options_;
  std::vector<int64_t> order_;
  std::string identity_;
};

// Pictures that a generator makes: number k of z drawn by (seed, purpose, k).
class GeneratedPictures final : public Pictures {
 public:
  struct Options {
    int64_t size = 50'000;  // how many there are
    uint64_t seed = 0;
    std::string purpose = "metrics";  // of the stream of z
    SynthesisOptions synthesis;
    // Weight of each class, such as its number of real pictures: every beginning of the sequence
    // of pictures has labels as nearly in this proportion as can be. Empty: all classes alike. A
    // class of weight 0 is never drawn.
    std::vector<int64_t> class_weights;
    std::vector<std::string> class_names;  // empty: numbers
    // Where labels are vectors, float32 [M, L]: picture k has row k mod M. Undefined: labels are
    // classes.
    at::Tensor label_rows = {};
  };
  // Pictures of an early stage are enlarged to the generator's full size, each pixel to a square.
  // `generator` is borrowed.
  GeneratedPictures(Generator& generator, const Options& options);

  int64_t size() const override { return options_.size; }
  at::Tensor get(const std::vector<int64_t>& numbers) override;
  std::vector<int64_t> labels(const std::vector<int64_t>& numbers) override;
  at::Tensor vectors(const std::vector<int64_t>& numbers) override;
  std::vector<std::string> class_names() const override;
  Json recipe() const override;

  // Returns what the generator is given for these pictures: classes, vectors, or nothing.
  at::Tensor given(const std::vector<int64_t>& numbers);

  Generator& generator() const { return generator_; }
  const Options& options() const { return options_; }

 private:
  at::Tensor make(const std::vector<int64_t>& numbers);

  Generator& generator_;
  Options options_;
  std::vector<int32_t> labels_;  // of every number; empty without labels
  int64_t at_once_ = 0;          // pictures that fit memory together; 0: not known yet
};

// Some of other pictures, such as those of one class. `pictures` is borrowed.
class SomePictures final : public Pictures {
 public:
  // `name` tells these from others of the same pictures: "class 3".
  SomePictures(Pictures& pictures, std::vector<int64_t> numbers, std::string name)
      : pictures_(pictures), numbers_(std::move(numbers)), name_(std::move(name)) {}

  int64_t size() const override { return static_cast<int64_t>(numbers_.size()); }
  at::Tensor get(const std::vector<int64_t>& numbers) override;
  Json recipe() const override { return pictures_.recipe(); }
  std::string identity(const StopCheck& stop = {}) override;

 private:
  Pictures& pictures_;
  std::vector<int64_t> numbers_;
  std::string name_;
};

// The same pictures, kept in memory while they fit into `bytes`, so that several metrics and the
// levels of one do not make or load them again. `pictures` is borrowed.
class KeptPictures final : public Pictures {
 public:
  explicit KeptPictures(Pictures& pictures, int64_t bytes = int64_t{1} << 30)
      : pictures_(pictures), left_(bytes) {}

  int64_t size() const override { return pictures_.size(); }
  at::Tensor get(const std::vector<int64_t>& numbers) override;
  std::vector<int64_t> labels(const std::vector<int64_t>& numbers) override {
    return pictures_.labels(numbers);
  }
  at::Tensor vectors(const std::vector<int64_t>& numbers) override {
    return pictures_.vectors(numbers);
  }
  std::vector<std::string> class_names() const override { return pictures_.class_names(); }
  Json recipe() const override { return pictures_.recipe(); }
  std::string identity(const StopCheck& stop = {}) override { return pictures_.identity(stop); }

 private:
  Pictures& pictures_;
  int64_t left_;                                     // bytes
  std::map<std::vector<int64_t>, at::Tensor> kept_;  // by numbers
};

// The pictures of a data set, kept in memory, which stay open until others are asked for.
class OpenedPictures {
 public:
  // Returns what open_dataset() does, which also says what is thrown.
  const std::shared_ptr<const Dataset>& open(const DataOptions& options);
  // Returns pictures of the data set that was opened last, by options.data.
  Pictures& pictures(const DatasetPictures::Options& options);

 private:
  Json opened_;  // the options of dataset_
  Json shown_;   // what pictures_ were made with
  std::shared_ptr<const Dataset> dataset_;
  std::optional<DatasetPictures> pictures_;
  std::optional<KeptPictures> kept_;  // of pictures_
};

// Returns the numbers of those of the first `count` pictures that have the label, or a 1 at that
// place of their vectors.
std::vector<int64_t> with_label(Pictures& pictures, int64_t count, int64_t label);

// The labels that can be measured one by one, and the names of the others: "angle, size".
struct ClassLabels {
  std::vector<int64_t> classes;
  std::string values;
};

// Labels are classes, or, where they are vectors, those of their numbers that are 0 or 1 in each of
// the first `count` pictures; the others are values.
ClassLabels class_labels(Pictures& pictures, int64_t count);

// Where a measurement stands, for a progress line: pieces of work done by all ranks together.
struct MetricProgress {
  std::string doing;  // "generated pictures"
  int64_t done = 0;
  int64_t of = 0;
};

// Who shares the work of a metric. Members are as in MetricInput.
struct SharedWork {
  Group* group = nullptr;  // null: this process alone
  at::Device device = at::kCPU;
  std::function<void(const MetricProgress&)> between = [](const MetricProgress&) {};

  int64_t rank() const;
  int64_t world() const;
};

// Pictures of one piece of work; one number for all metrics, so that pictures kept for one of them
// serve the others.
inline constexpr int64_t kPicturesAtOnce = 64;

// How many pictures of so many pixels a generator makes together, 4 to `most`, so that its largest
// layers do not need more memory than training does.
int64_t made_together(int64_t pixels, int64_t most = kPicturesAtOnce);

// A range of numbers that is done in pieces of the same size; the last one may be shorter.
struct Pieces {
  std::string doing;  // for MetricProgress
  int64_t items = 0;
  int64_t of_each = 1;  // items of a piece
};
struct Piece {
  int64_t first = 0;  // its first item
  int64_t count = 0;

  std::vector<int64_t> numbers() const;  // first, first + 1, ...
};

// Calls `run` for every piece: piece k on rank k mod world. Collective only in that all ranks call
// between() once in each round of pieces.
void share(const SharedWork& work,
           const Pieces& pieces,
           const std::function<void(const Piece&)>& run);

// Replaces a tensor on the CPU by its sum over all ranks, in blocks that fit any device. Where each
// rank has filled in other rows and left zeros elsewhere, all ranks then have all rows, bit for
// bit.
void sum_over_ranks_(const SharedWork& work, at::Tensor& tensor);
// Runs on rank 0 alone; all ranks get the value.
double on_rank_0(const SharedWork& work, const std::function<double()>& run);

// Fills `all`, zeros on the CPU with one row for each item, with the rows of every piece, and
// returns it on all ranks. Collective.
at::Tensor share_rows(const SharedWork& work,
                      const Pieces& pieces,
                      at::Tensor all,
                      const std::function<at::Tensor(const Piece&)>& rows_of);

// Returns the sum of a number of every piece, added in the order of the pieces, so that any number
// of ranks gets the same bits. Collective.
double share_sum(const SharedWork& work,
                 const Pieces& pieces,
                 const std::function<double(const Piece&)>& number_of);

// Returns rank 0's text on all ranks.
std::string text_of_rank_0(const SharedWork& work, const std::string& text);

}  // namespace gantrain
