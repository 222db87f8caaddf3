// SPDX-License-Identifier: Apache-2.0
#include "bench/modes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "core/torch.h"
#include "data/labels/labels.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kStack = 3;  // pictures of a stacked one
constexpr int64_t kTrainingBatch = 128, kBatch = 512;
constexpr double kRate = 0.05, kMomentum = 0.9;  // of the classifier
constexpr std::array<int64_t, 3> kMaps = {32, 64, 64};

// He et al. 2015, arXiv:1502.01852.
at::Tensor drawn_weights(const std::vector<int64_t>& shape,
                         int64_t inputs,
                         uint64_t seed,
                         uint64_t k) {
  at::Tensor weights = at::empty(shape);
  Stream(seed, "modes/classifier").normal(weights.data_ptr<float>(), weights.numel(), k);
  return weights.mul_(std::sqrt(2. / static_cast<double>(inputs))).set_requires_grad(true);
}

at::Tensor batch_of(const at::Tensor& of, const std::vector<int64_t>& order, int64_t first) {
  const int64_t count = std::min(kTrainingBatch, static_cast<int64_t>(order.size()) - first);
  return of.index_select(
      0, at::from_blob(const_cast<int64_t*>(order.data()) + first, {count}, at::kLong));
}

}  // namespace

ClassPictures read_class_pictures(const Dataset& dataset, int64_t most, uint64_t seed) {
  if (dataset.classes() < 2)
    fail(Exit::kInput, "{}: modes are counted by classes, and it has none", dataset.description());
  std::vector<int64_t> order = Stream(seed, "modes/order").permutation(dataset.size());
  order.resize(static_cast<size_t>(std::min(most, dataset.size())));
  ClassPictures read{.classes = dataset.classes()};
  std::vector<int64_t> labels;
  LoadBuffers buffers;
  for (const int64_t index : order) {
    const ImageView picture = dataset.view(index, buffers);
    if (!read.pictures.defined()) {
      read.pictures =
          at::empty({static_cast<int64_t>(order.size()), picture.height, picture.width}, at::kByte);
    }
    std::memcpy(read.pictures[static_cast<int64_t>(labels.size())].data_ptr(),
                picture.pixels,
                static_cast<size_t>(picture.height) * static_cast<size_t>(picture.width));
    labels.push_back(dataset.label(index));
  }
  read.labels = at::tensor(labels, at::kLong);
  return read;
}

at::Tensor stack_pictures(const ClassPictures& of, int64_t count, uint64_t seed) {
  const Stream stream(seed, "modes/stacks");
  const auto pictures = static_cast<uint64_t>(of.pictures.size(0));
  std::vector<at::Tensor> channels;
  for (uint32_t channel = 0; channel < kStack; ++channel) {
    std::vector<int64_t> drawn;
    for (int64_t i = 0; i < count; ++i)
      drawn.push_back(
          static_cast<int64_t>(stream.below(pictures, static_cast<uint64_t>(i), channel)));
    channels.push_back(of.pictures.index_select(0, at::tensor(drawn, at::kLong)));
  }
  return at::stack(channels, /*dim=*/3);
}

ModeClassifier::ModeClassifier(int64_t classes, int64_t size, uint64_t seed) {
  int64_t inputs = 1, side = size;
  uint64_t layer = 0;
  const auto add = [&](const std::vector<int64_t>& shape, int64_t fan_in) {
    parameters_.push_back(drawn_weights(shape, fan_in, seed, layer++));
    parameters_.push_back(at::zeros({shape.front()}).set_requires_grad(true));
  };
  for (const int64_t maps : kMaps) {
    add({maps, inputs, 3, 3}, 9 * inputs);
    inputs = maps;
    side /= 2;
  }
  add({classes, inputs * side * side}, inputs * side * side);
}

at::Tensor ModeClassifier::logits(const at::Tensor& pictures) const {
  at::Tensor x = pictures.unsqueeze(1).to(at::kFloat).div_(127.5).sub_(1);
  size_t p = 0;
  for (; p < 2 * kMaps.size(); p += 2)
    x = at::max_pool2d(
        at::relu(at::conv2d(x, parameters_[p], parameters_[p + 1], /*stride=*/1, /*padding=*/1)),
        /*kernel_size=*/2);
  return at::linear(x.flatten(1), parameters_[p], parameters_[p + 1]);
}

void ModeClassifier::train(const ClassPictures& on, int64_t epochs, uint64_t seed) {
  const int64_t pictures = on.pictures.size(0);
  const int64_t steps = epochs * ((pictures + kTrainingBatch - 1) / kTrainingBatch);
  std::vector<at::Tensor> momentum;
  for (const at::Tensor& parameter : parameters_) momentum.push_back(at::zeros_like(parameter));
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Stream stream(seed, "modes/epochs", static_cast<uint64_t>(epoch));
    const std::vector<int64_t> order = stream.permutation(pictures);
    for (int64_t first = 0; first < pictures; first += kTrainingBatch, ++step) {
      const at::Tensor loss = at::cross_entropy_loss(logits(batch_of(on.pictures, order, first)),
                                                     batch_of(on.labels, order, first));
      const auto gradients = torch::autograd::grad({loss}, parameters_);
      const at::NoGradGuard unrecorded;
      // Down to nothing, evenly.
      const double rate = kRate * static_cast<double>(steps - step) / static_cast<double>(steps);
      for (size_t k = 0; k < parameters_.size(); ++k)
        parameters_[k].sub_(momentum[k].mul_(kMomentum).add_(gradients[k]), rate);
    }
  }
}

at::Tensor ModeClassifier::classify(const at::Tensor& pictures) const {
  const at::NoGradGuard unrecorded;
  std::vector<at::Tensor> classes;
  for (const at::Tensor& some : pictures.split(kBatch)) classes.push_back(logits(some).argmax(1));
  return at::cat(classes);
}

double ModeClassifier::accuracy(const ClassPictures& of) const {
  return classify(of.pictures).eq(of.labels).to(at::kDouble).mean().item<double>();
}

NamedTensors ModeClassifier::weights() const {
  NamedTensors named;
  for (size_t k = 0; k < parameters_.size(); ++k)
    named.emplace_back(fmt::format("layer{}.{}", k / 2, k % 2 == 0 ? "weight" : "bias"),
                       parameters_[k].detach());
  return named;
}

void ModeClassifier::set_weights(const std::map<std::string, at::Tensor>& weights) {
  const at::NoGradGuard unrecorded;
  const auto own = this->weights();
  for (size_t k = 0; k < own.size(); ++k) parameters_[k].copy_(weights.at(own[k].first));
}

at::Tensor modes_of(const ModeClassifier& classifier, const at::Tensor& stacked, int64_t classes) {
  at::Tensor modes = at::zeros({stacked.size(0)}, at::kLong);
  for (int64_t channel = 0; channel < kStack; ++channel)
    modes = modes * classes + classifier.classify(stacked.select(1, channel));
  return modes;
}

ModeCount count_modes(const at::Tensor& modes, int64_t all) {
  const at::Tensor shares =
      modes.bincount({}, all).to(at::kDouble) / static_cast<double>(modes.size(0));
  const at::Tensor shown = shares.masked_select(shares.gt(0));
  return {.modes = shown.size(0),
          .kl = (shown * (shown * static_cast<double>(all)).log()).sum().item<double>()};
}

}  // namespace gantrain
