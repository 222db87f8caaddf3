// SPDX-License-Identifier: Apache-2.0
#include "metrics/pictures.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "core/tensors.h"
#include "core/torch.h"
#include "data/labels/labels.h"
#include "data/load/loader.h"
#include "data/pictures/manifest.h"
#include "distributed/group.h"
#include "gan/generator.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Of generated pictures in one batch: 64 of 128 x 128, 16 of 256 x 256.
constexpr int64_t kPixelsAtOnce = 1 << 20;

// For pictures 0 to size - 1 in turn the class that is furthest behind its share of them, the first
// of several: with equal weights 0, 1, ..., classes - 1, 0, ...
std::vector<int32_t> in_proportion(const std::vector<int64_t>& weights, int64_t size) {
  const auto total =
      static_cast<double>(std::accumulate(weights.begin(), weights.end(), int64_t{0}));
  std::vector<double> due(weights.size(), 0);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < size; ++i) {
    for (size_t c = 0; c < weights.size(); ++c) due[c] += static_cast<double>(weights[c]) / total;
    size_t chosen = 0;
    for (size_t c = 1; c < weights.size(); ++c) {
      // Rounding errors of sums must not decide between classes that are equally far behind.
      if (due[c] > due[chosen] + 1e-9) chosen = c;
    }
    due[chosen] -= 1;
    labels.push_back(static_cast<int32_t>(chosen));
  }
  return labels;
}

}  // namespace

DatasetPictures::DatasetPictures(std::shared_ptr<const Dataset> dataset, const Options& options)
    : dataset_(std::move(dataset)), options_(options) {
  order_ = Stream(options.seed, "reals").permutation(dataset_->size());
  if (!options.shuffled) std::iota(order_.begin(), order_.end(), int64_t{0});
  if (options.classes.empty()) return;
  const LabelVectors& vectors = dataset_->vectors();
  const auto left_out = [&](int64_t index) {
    return std::ranges::none_of(options.classes, [&](int64_t label) {
      return vectors.length() > 0 ? vectors.of(index)[label] == 1 : dataset_->label(index) == label;
    });
  };
  order_.erase(std::remove_if(order_.begin(), order_.end(), left_out), order_.end());
  if (order_.empty())
    fail(Exit::kInput, "{}: has no pictures of the classes asked for", options.data.path);
}

int64_t DatasetPictures::size() const {
  return static_cast<int64_t>(order_.size()) * (options_.mirror ? 2 : 1);
}

int64_t DatasetPictures::index_of(int64_t number) const {
  return order_[static_cast<size_t>(number) % order_.size()];
}

at::Tensor DatasetPictures::get(const std::vector<int64_t>& numbers) {
  std::vector<WantedPicture> wanted;
  for (const int64_t number : numbers)
    wanted.push_back({index_of(number), number >= static_cast<int64_t>(order_.size())});
  return load_planes(*dataset_, wanted);
}

std::vector<int64_t> DatasetPictures::labels(const std::vector<int64_t>& numbers) {
  std::vector<int64_t> all;
  if (dataset_->classes() == 0) return all;
  for (const int64_t number : numbers) all.push_back(dataset_->label(index_of(number)));
  return all;
}

at::Tensor DatasetPictures::vectors(const std::vector<int64_t>& numbers) {
  const LabelVectors& all = dataset_->vectors();
  if (all.length() == 0) return {};
  at::Tensor rows = at::empty({static_cast<int64_t>(numbers.size()), all.length()}, at::kFloat);
  auto* out = rows.mutable_data_ptr<float>();
  for (const int64_t number : numbers)
    out = std::copy_n(all.of(index_of(number)), all.length(), out);
  return rows;
}

std::vector<std::string> DatasetPictures::class_names() const {
  std::vector<std::string> names = dataset_->vectors().names;
  for (int64_t label = 0; label < dataset_->classes(); ++label)
    names.push_back(dataset_->class_name(label));
  return names;
}

Json DatasetPictures::recipe() const {
  const DataOptions& data = options_.data;
  // The folder's own name: data that was moved is the same data.
  const std::filesystem::path path = data.path;
  Json recipe = {{"data", (path.has_filename() ? path : path.parent_path()).filename().string()},
                 {"data_pictures", dataset_->size()},
                 {"resolution", Value<Size>::to_json(data.resolution)},
                 {"channels", dataset_->channels()},
                 {"fit", Value<Fit>::to_json(data.fit)},
                 {"filter", Value<Filter>::to_json(data.filter)},
                 {"mirror", options_.mirror}};
  if (!options_.classes.empty()) recipe["classes"] = options_.classes;
  return recipe;
}

std::string DatasetPictures::identity(const StopCheck& stop) {
  if (identity_.empty()) {
    identity_ = fmt::format("{} {} order={} scaled_jpeg={}",
                            data_digest(*dataset_, stop),
                            recipe().dump(),
                            options_.shuffled ? std::to_string(options_.seed) : "own",
                            Value<ScaledJpeg>::to_json(options_.data.scaled_jpeg).dump());
  }
  return identity_;
}

GeneratedPictures::GeneratedPictures(Generator& generator, const Options& options)
    : generator_(generator), options_(options) {
  const int64_t classes = generator.classes();
  if (classes == 0 || options.label_rows.defined()) return;
  std::vector<int64_t> weights = options.class_weights;
  if (weights.empty()) weights.assign(static_cast<size_t>(classes), 1);
  TORCH_CHECK(static_cast<int64_t>(weights.size()) == classes, "one weight for each class");
  labels_ = in_proportion(weights, options.size);
}

int64_t made_together(int64_t pixels, int64_t most) {
  return std::clamp<int64_t>(kPixelsAtOnce / pixels, 4, most);
}

at::Tensor GeneratedPictures::get(const std::vector<int64_t>& numbers) {
  const at::NoGradGuard no_grad;
  if (at_once_ == 0) {
    at_once_ = 1;
    const at::Tensor one = get({0});
    at_once_ = made_together(one.size(2) * one.size(3));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<at::Tensor> all;
  for (int64_t first = 0; first < count; first += at_once_) {
    const auto from = numbers.begin() + first;
    all.push_back(make({from, from + std::min(at_once_, count - first)}));
  }
  return at::cat(all);
}

at::Tensor GeneratedPictures::make(const std::vector<int64_t>& numbers) {
  const Stream stream(options_.seed, options_.purpose);
  std::vector<at::Tensor> z;
  for (const int64_t number : numbers)
    z.push_back(normal(stream, {number, 1, 1}, {generator_.z_dim()}));
  SynthesisOptions how = options_.synthesis;
  how.noise_seed += static_cast<uint64_t>(numbers[0]);  // other random noise in each batch
  return full_size(generator_, to_bytes(generator_.images(at::cat(z), given(numbers), how)));
}

at::Tensor GeneratedPictures::given(const std::vector<int64_t>& numbers) {
  if (options_.label_rows.defined()) return vectors(numbers);
  const std::vector<int64_t> own = labels(numbers);
  return own.empty() ? at::Tensor() : at::tensor(own, at::kLong);
}

at::Tensor GeneratedPictures::vectors(const std::vector<int64_t>& numbers) {
  const at::Tensor& rows = options_.label_rows;
  if (!rows.defined()) return {};
  return rows.index_select(0, at::tensor(numbers, at::kLong).remainder(rows.size(0)));
}

std::vector<int64_t> GeneratedPictures::labels(const std::vector<int64_t>& numbers) {
  std::vector<int64_t> all;
  if (labels_.empty()) return all;
  for (const int64_t number : numbers) all.push_back(labels_[static_cast<size_t>(number)]);
  return all;
}

std::vector<std::string> GeneratedPictures::class_names() const {
  if (!options_.class_names.empty()) return options_.class_names;
  std::vector<std::string> names;
  for (int64_t label = 0; label < generator_.classes(); ++label)
    names.push_back(std::to_string(label));
  return names;
}

Json GeneratedPictures::recipe() const {
  Json recipe = {{"fakes_seed", options_.seed}};
  const SynthesisOptions& how = options_.synthesis;
  if (how.trunc != 1) recipe["trunc"] = how.trunc;
  if (how.trunc_cutoff) recipe["trunc_cutoff"] = *how.trunc_cutoff;
  if (generator_.has_noise()) recipe["noise"] = Value<NoiseMode>::to_json(how.noise);
  const std::vector<int64_t>& weights = options_.class_weights;
  if (contains(weights, 0)) {
    recipe["fake_classes"] = Json::array();
    for (size_t label = 0; label < weights.size(); ++label) {
      if (weights[label] > 0) recipe["fake_classes"].push_back(label);
    }
  }
  return recipe;
}

at::Tensor SomePictures::get(const std::vector<int64_t>& numbers) {
  std::vector<int64_t> of_all;
  for (const int64_t number : numbers) of_all.push_back(numbers_[static_cast<size_t>(number)]);
  return pictures_.get(of_all);
}

std::string SomePictures::identity(const StopCheck& stop) {
  const std::string whole = pictures_.identity(stop);
  return whole.empty() ? "" : whole + " " + name_;
}

at::Tensor KeptPictures::get(const std::vector<int64_t>& numbers) {
  if (const auto kept = kept_.find(numbers); kept != kept_.end()) return kept->second;
  const at::Tensor pictures = pictures_.get(numbers);
  const auto bytes = static_cast<int64_t>(pictures.nbytes());
  if (bytes <= left_) {
    left_ -= bytes;
    kept_[numbers] = pictures;
  }
  return pictures;
}

const std::shared_ptr<const Dataset>& OpenedPictures::open(const DataOptions& options) {
  const Json wanted = message_of(options);
  if (dataset_ && wanted == opened_) return dataset_;
  kept_.reset();
  pictures_.reset();
  dataset_ = open_dataset(options);
  opened_ = wanted;
  return dataset_;
}

Pictures& OpenedPictures::pictures(const DatasetPictures::Options& options) {
  const Json wanted = {options.seed, options.shuffled, options.mirror, options.classes};
  if (kept_ && wanted == shown_) return *kept_;
  kept_.reset();
  pictures_.emplace(dataset_, options);
  shown_ = wanted;
  return kept_.emplace(*pictures_);
}

namespace {
constexpr int64_t kValuesAtOnce = 1 << 23;  // through the group
}

std::vector<int64_t> with_label(Pictures& pictures, int64_t count, int64_t label) {
  const std::vector<int64_t> all = Piece{.first = 0, .count = count}.numbers();
  std::vector<bool> has(all.size());
  if (const at::Tensor vectors = pictures.vectors(all); vectors.defined()) {
    const at::Tensor own = vectors.select(1, label).contiguous();  // one class of several
    for (size_t i = 0; i < has.size(); ++i) has[i] = own.const_data_ptr<float>()[i] == 1;
  } else if (const std::vector<int64_t> labels = pictures.labels(all); !labels.empty()) {
    for (size_t i = 0; i < has.size(); ++i) has[i] = labels[i] == label;
  }
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < has.size(); ++i) {
    if (has[i]) chosen.push_back(all[i]);
  }
  return chosen;
}

ClassLabels class_labels(Pictures& pictures, int64_t count) {
  const at::Tensor vectors = pictures.vectors(Piece{.first = 0, .count = count}.numbers());
  at::Tensor yes_or_no;  // [L]
  if (vectors.defined()) yes_or_no = vectors.eq(0).logical_or(vectors.eq(1)).all(0);
  const std::vector<std::string> names = pictures.class_names();
  ClassLabels found;
  std::vector<std::string> values;
  for (size_t k = 0; k < names.size(); ++k) {
    const auto label = static_cast<int64_t>(k);
    if (!yes_or_no.defined() || yes_or_no[label].item<bool>()) {
      found.classes.push_back(label);
    } else {
      values.push_back(names[k]);
    }
  }
  found.values = join(values, ", ");
  return found;
}

int64_t SharedWork::rank() const { return group == nullptr ? 0 : group->rank(); }
int64_t SharedWork::world() const { return group == nullptr ? 1 : group->world(); }

std::vector<int64_t> Piece::numbers() const {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

void share(const SharedWork& work,
           const Pieces& pieces,
           const std::function<void(const Piece&)>& run) {
  const int64_t world = work.world(), rank = work.rank();
  const int64_t in_round = world * pieces.of_each;
  for (int64_t first = 0; first < pieces.items; first += in_round) {
    work.between({.doing = pieces.doing, .done = first, .of = pieces.items});
    const int64_t own = first + rank * pieces.of_each;
    if (own < pieces.items)
      run({.first = own, .count = std::min(pieces.of_each, pieces.items - own)});
  }
}

void sum_over_ranks_(const SharedWork& work, at::Tensor& tensor) {
  if (work.world() == 1 || tensor.numel() == 0) return;
  const at::Tensor flat = tensor.view(-1);
  for (int64_t first = 0; first < flat.size(0); first += kValuesAtOnce) {
    const at::Tensor some = flat.narrow(0, first, std::min(kValuesAtOnce, flat.size(0) - first));
    at::Tensor sum = some.to(work.device).clone();
    work.group->sum_(sum);
    some.copy_(sum);
  }
}

double on_rank_0(const SharedWork& work, const std::function<double()>& run) {
  if (work.world() == 1) return run();
  at::Tensor value = at::zeros({1}, at::kDouble);
  work.group->on_rank_0([&] { value[0] = run(); }, [] {});
  sum_over_ranks_(work, value);
  return value.item<double>();
}

at::Tensor share_rows(const SharedWork& work,
                      const Pieces& pieces,
                      at::Tensor all,
                      const std::function<at::Tensor(const Piece&)>& rows_of) {
  share(work, pieces, [&](const Piece& piece) {
    all.narrow(0, piece.first, piece.count).copy_(rows_of(piece));
  });
  sum_over_ranks_(work, all);
  return all;
}

double share_sum(const SharedWork& work,
                 const Pieces& pieces,
                 const std::function<double(const Piece&)>& number_of) {
  const int64_t count = (pieces.items + pieces.of_each - 1) / pieces.of_each;
  at::Tensor numbers = at::zeros({count}, at::kDouble);
  share(work, pieces, [&](const Piece& piece) {
    numbers[piece.first / pieces.of_each] = number_of(piece);
  });
  sum_over_ranks_(work, numbers);
  const double* values = numbers.const_data_ptr<double>();
  return std::accumulate(values, values + count, 0.0);
}

std::string text_of_rank_0(const SharedWork& work, const std::string& text) {
  if (work.world() == 1) return text;
  at::Tensor size = at::tensor({static_cast<int64_t>(text.size())}).to(work.device);
  work.group->broadcast_(size);
  const auto bytes = size.item<int64_t>();
  if (bytes == 0) return "";
  at::Tensor content = at::zeros({bytes}, at::kByte);
  if (work.rank() == 0) std::memcpy(content.data_ptr(), text.data(), text.size());
  content = content.to(work.device);
  work.group->broadcast_(content);
  content = content.cpu();
  return {static_cast<const char*>(content.data_ptr()), static_cast<size_t>(bytes)};
}

}  // namespace gantrain
