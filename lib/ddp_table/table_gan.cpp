// SPDX-License-Identifier: Apache-2.0
// The two toy GANs with which the table is measured.
#include <array>

#include "core/tensors.h"
#include "core/torch.h"
#include "ddp_table/ddp_table.h"
#include "util/text.h"

namespace gantrain {

Tensor TableGan::add(NamedTensors& net, const std::string& name, at::IntArrayRef shape) {
  const Tensor weights = 0.2 * normal_like(torch::zeros(shape), 0, "table/" + name);
  net.emplace_back(name, weights.requires_grad_(true));
  return net.back().second;
}

NamedTensors TableGan::all() const {
  NamedTensors both = G;
  both.insert(both.end(), D.begin(), D.end());
  return both;
}

namespace {

struct Layer {
  Tensor weight, bias;
};

class StaticGan final : public TableGan {
 public:
  StaticGan() {
    g1_ = layer(G, "G.1", {kLatents, 16, 4, 4}, 16);
    g2_ = layer(G, "G.2", {16, 3, 4, 4}, 3);
    d1_ = layer(D, "D.1", {32, 3, 4, 4}, 32);
    d2_ = layer(D, "D.2", {1, 32, 4, 4}, 1);
  }

  Tensor generate(const Tensor& z, const TableStage& /*stage*/) const override {
    const Tensor x = torch::leaky_relu(
        at::conv_transpose2d(z.reshape({-1, kLatents, 1, 1}), g1_.weight, g1_.bias), 0.2);
    return torch::tanh(at::conv_transpose2d(x, g2_.weight, g2_.bias, 2, 1));
  }

  Tensor judge(const Tensor& x, const TableStage& /*stage*/) const override {
    const Tensor h = torch::leaky_relu(at::conv2d(x, d1_.weight, d1_.bias, 2, 1), 0.2);
    return at::conv2d(h, d2_.weight, d2_.bias).reshape({-1});
  }

  int64_t side(const TableStage& /*stage*/) const override { return 8; }

 private:
  Layer layer(NamedTensors& net, const std::string& name, at::IntArrayRef shape, int64_t outputs) {
    return {add(net, name + ".weight", shape), add(net, name + ".bias", {outputs})};
  }
  Layer g1_, g2_, d1_, d2_;
};

// Blocks of G and toRGB layers by level; those of D mirror them.
class ProgressiveGan final : public TableGan {
 public:
  ProgressiveGan() {
    fc_ = {add(G, "G.fc.weight", {kLatents, 16 * kMaps}), add(G, "G.fc.bias", {16 * kMaps})};
    for (int64_t level = 0; level < kLevels; ++level) {
      if (level > 0) g_blocks_.push_back(convolution(G, "G.block", level, {kMaps, kMaps, 3, 3}));
      to_rgb_.push_back(convolution(G, "G.rgb", level, {3, kMaps, 1, 1}));
    }
    for (int64_t level = kLevels - 1; level >= 0; --level) {
      from_rgb_.insert(from_rgb_.begin(), convolution(D, "D.rgb", level, {kMaps, 3, 1, 1}));
      if (level > 0)
        d_blocks_.insert(d_blocks_.begin(), convolution(D, "D.block", level, {kMaps, kMaps, 3, 3}));
    }
    out_ = {add(D, "D.out.weight", {16 * kMaps, 1}), add(D, "D.out.bias", {1})};
  }

  Tensor generate(const Tensor& z, const TableStage& s) const override {
    Tensor x = torch::leaky_relu(at::addmm(fc_.bias, z, fc_.weight), 0.2).view({-1, kMaps, 4, 4});
    Tensor below;
    for (int64_t level = 1; level <= s.level; ++level) {
      below = double_size(x);
      x = block(g_blocks_, level, below);
    }
    const Tensor pictures = apply(to_rgb_, s.level, x);
    if (s.alpha == 1) return pictures;
    return s.alpha * pictures + (1 - s.alpha) * apply(to_rgb_, s.level - 1, below);
  }

  Tensor judge(const Tensor& x, const TableStage& s) const override {
    Tensor h = torch::leaky_relu(apply(from_rgb_, s.level, x), 0.2);
    for (int64_t level = s.level; level > 0; --level) {
      h = at::avg_pool2d(block(d_blocks_, level, h), 2);
      if (level < s.level || s.alpha == 1) continue;
      const Tensor skip = apply(from_rgb_, level - 1, at::avg_pool2d(x, 2));
      h = s.alpha * h + (1 - s.alpha) * torch::leaky_relu(skip, 0.2);
    }
    return at::addmm(out_.bias, h.flatten(1), out_.weight).squeeze(1);
  }

  TableStage stage_at(int64_t iteration) const override {
    constexpr std::array<TableStage, 9> kStages = {
        {{0, 1}, {0, 1}, {1, .25}, {1, .75}, {1, 1}, {2, .25}, {2, .75}, {2, 1}, {2, 1}}};
    return kStages.at(static_cast<size_t>(iteration));
  }

  bool is_active(const std::string& parameter, const TableStage& s) const override {
    const std::vector<std::string> words = split(parameter, '.');  // G.block.2.weight
    if (words.size() != 4) return true;
    const int64_t level = parse_int(words[2]).value();
    if (words[1] == "block") return level <= s.level;
    return level == s.level || (s.alpha < 1 && level == s.level - 1);
  }

  int64_t side(const TableStage& stage) const override { return int64_t{4} << stage.level; }

 private:
  static constexpr int64_t kMaps = 8;
  static constexpr int64_t kLevels = 3;

  Layer convolution(NamedTensors& net,
                    const std::string& kind,
                    int64_t level,
                    at::IntArrayRef shape) {
    const std::string name = kind + "." + std::to_string(level);
    return {add(net, name + ".weight", shape), add(net, name + ".bias", {shape[0]})};
  }
  static Tensor apply(const std::vector<Layer>& layers, int64_t level, const Tensor& x) {
    const Layer& layer = layers.at(static_cast<size_t>(level));
    return at::conv2d(x, layer.weight, layer.bias, 1, layer.weight.size(2) / 2);
  }
  static Tensor block(const std::vector<Layer>& blocks, int64_t level, const Tensor& x) {
    return torch::leaky_relu(apply(blocks, level - 1, x), 0.2);  // there is none at level 0
  }
  static Tensor double_size(const Tensor& x) {
    return x.repeat_interleave(2, 2).repeat_interleave(2, 3);
  }

  Layer fc_, out_;
  std::vector<Layer> g_blocks_, to_rgb_, d_blocks_, from_rgb_;
};

}  // namespace

std::unique_ptr<TableGan> make_table_gan(bool progressive) {
  if (progressive) return std::make_unique<ProgressiveGan>();
  return std::make_unique<StaticGan>();
}

}  // namespace gantrain
