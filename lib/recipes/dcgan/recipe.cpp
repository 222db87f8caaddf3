// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/recipe.h"

#include <algorithm>

#include "augment/diff_augment.h"
#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/modules.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/losses.h"
#include "util/text.h"

namespace gantrain::dcgan {

namespace {

// Layers of `main`, which stands for the nn.Sequential of the reference.
std::shared_ptr<Convolution> add_convolution(ModuleGroup& main,
                                             int64_t index,
                                             const std::vector<int64_t>& weight_shape,
                                             int64_t bias_size) {
  const std::string name = std::to_string(index);
  return add_child<Convolution>(main, name, "main." + name, weight_shape, bias_size);
}

std::shared_ptr<BatchNorm2d> add_norm(ModuleGroup& main, int64_t index, int64_t channels) {
  const std::string name = std::to_string(index);
  return add_child<BatchNorm2d>(main, name, channels, "main." + name);
}

}  // namespace

Convolution::Convolution(std::string name, std::vector<int64_t> weight_shape, int64_t bias_size)
    : block(std::move(name)) {
  weight = register_parameter("weight", torch::zeros(weight_shape));
  if (bias_size > 0) bias = register_parameter("bias", torch::zeros({bias_size}));
}

Generator::Generator(const Shape& s) : shape(s) {
  const auto main = add_child<ModuleGroup>(*this, "main");
  const auto [start, last] = doubled_size(s.resolution);
  int64_t in = s.latent;
  for (int64_t i = 0; i <= last; ++i) {
    const bool hidden = i < last;
    const int64_t out = hidden ? std::max<int64_t>(1, s.channels >> i) : s.image_channels;
    const bool bias = hidden && s.norm == Norm::kNone;
    const Size kernel = i == 0 ? start : square_of(4);
    // The reference's nn.Sequential counts convolution, norm and ReLU.
    convolutions.push_back(
        add_convolution(*main, 3 * i, {in, out, kernel.height, kernel.width}, bias ? out : 0));
    norms.push_back(nullptr);
    if (hidden && s.norm == Norm::kBatch) norms.back() = add_norm(*main, 3 * i + 1, out);
    in = out;
  }
}

Tensor Generator::forward(const Tensor& z) {
  Tensor x = z.reshape({z.size(0), -1, 1, 1});
  for (size_t i = 0; i < convolutions.size(); ++i) {
    const int64_t stride = i == 0 ? 1 : 2;
    const int64_t padding = i == 0 ? 0 : 1;
    const Convolution& layer = *convolutions[i];
    x = in_block(layer.block, [&] {
      return autocast_conv_transpose2d(x, layer.weight, layer.bias, {stride, {padding, padding}});
    });
    if (i == 0) x = in_fast_layout(x);
    if (norms[i]) x = norms[i]->forward(x);
    if (i + 1 < convolutions.size()) x = torch::relu(x);
  }
  return torch::tanh(x.to(convolutions[0]->weight.scalar_type()));
}

Discriminator::Discriminator(const Shape& s) : shape(s) {
  const auto main = add_child<ModuleGroup>(*this, "main");
  const auto [start, last] = doubled_size(s.resolution);
  int64_t in = s.image_channels;
  int64_t index = 0;
  for (int64_t i = 0; i <= last; ++i) {
    const bool hidden = i < last;
    const int64_t out = hidden ? s.channels << i : 1;
    const bool bias = hidden && s.norm == Norm::kNone;
    const Size kernel = hidden ? square_of(4) : start;
    convolutions.push_back(
        add_convolution(*main, index++, {out, in, kernel.height, kernel.width}, bias ? out : 0));
    norms.push_back(nullptr);
    // The reference counts a norm from the second layer on, and the leaky ReLU.
    if (hidden && i > 0) {
      if (s.norm == Norm::kBatch) norms.back() = add_norm(*main, index, out);
      ++index;
    }
    ++index;
    in = out;
  }
}

Tensor Discriminator::forward(const Tensor& images) {
  Tensor x = in_fast_layout(images);
  for (size_t i = 0; i < convolutions.size(); ++i) {
    const bool hidden = i + 1 < convolutions.size();
    const Convolution& layer = *convolutions[i];
    const int64_t padding = hidden ? 1 : 0;
    {
      const BlockScope named(layer.block);
      const AutocastDisabled exact("the last 4x4 block: scores", !hidden);
      x = autocast_conv2d(x, layer.weight, layer.bias, {hidden ? 2 : 1, {padding, padding}});
    }
    if (norms[i]) x = norms[i]->forward(x);
    if (hidden) x = torch::leaky_relu(x, 0.2);
  }
  return x.reshape({-1});
}

void initialise(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    const Tensor& p = item.value();
    if (ends_with(item.key(), "bias")) {
      p.zero_();
      continue;
    }
    const double mean = p.dim() == 1 ? 1.0 : 0.0;  // batch norm's scale, or a convolution
    p.copy_(mean + 0.02 * normal_like(p, seed, "init/" + player + "/" + item.key()));
  }
}

namespace {

// Whether a generator's convolution of that number can have this weight: kernels are 4x4, the first
// one has the start's size.
bool has_kernel(const Tensor& weight, int64_t layer) {
  if (weight.dim() != 4) return false;
  const Size kernel{weight.size(3), weight.size(2)};
  if (layer > 0) return kernel == square_of(4);
  const auto start = find_doubled_size(kernel);
  return start && start->doublings == 0;
}

}  // namespace

Shape generator_shape(const Json&, const TensorMap& tensors, const std::string& source) {
  const auto weight = [&](int64_t layer) -> const Tensor* {
    const auto at = tensors.find("main." + std::to_string(3 * layer) + ".weight");
    return at == tensors.end() ? nullptr : &at->second;
  };
  const Tensor* first =
      &GeneratorTensors{tensors, source, "a DCGAN generator"}.get("main.0.weight");
  Shape shape;
  DoubledSize size{.start = first->dim() == 4 ? Size{first->size(3), first->size(2)} : Size{}};
  const Tensor* last = first;
  for (int64_t layer = 0; weight(layer) != nullptr; ++layer) {
    last = weight(layer);
    if (!has_kernel(*last, layer)) {
      refuse_file(
          source,
          "tensor main.{}.weight has shape [{}]; a DCGAN generator's are [in, out, 4, 4], the "
          "first one's may be larger (4 to 7 on the shorter side)",
          3 * layer,
          fmt::join(last->sizes(), ", "));
    }
    if (layer > 0) ++size.doublings;
  }
  shape.resolution = size.at(size.nominal());
  shape.latent = first->size(0);
  shape.channels = first->size(1);
  shape.image_channels = last->size(1);
  shape.norm = tensors.count("main.1.weight") != 0 ? Norm::kBatch : Norm::kNone;
  if (last == first)
    refuse_file(source, "a DCGAN generator has at least main.0.weight and main.3.weight");
  return shape;
}

namespace {

Shape shape_of(const Options& o, const RecipeContext& c, bool generator) {
  return {.resolution = c.resolution,
          .image_channels = c.channels,
          .latent = o.latent,
          .channels = generator ? o.channels : o.d_channels,
          .norm = (generator ? o.g_norm : o.d_norm).value_or(o.norm)};
}

Json model_of(const Shape& s) {
  return {{"recipe", "dcgan"},
          {"z_dim", s.latent},
          {"img_resolution", Value<Size>::to_json(s.resolution)},
          {"img_channels", s.image_channels},
          {"channels", s.channels},
          {"norm", s.norm == Norm::kBatch ? "batch" : "none"}};
}

class Dcgan final : public Recipe {
 public:
  explicit Dcgan(const RecipeContext& context)
      : options_(context.config.read<Options>()),
        G_net_(std::make_shared<Generator>(shape_of(options_, context, true))),
        D_net_(std::make_shared<Discriminator>(shape_of(options_, context, false))),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    facts().check_resolution(context.resolution);
    initialise(*G_net_, "G", context.seed);
    initialise(*D_net_, "D", context.seed);
    begin_training({&G_player_, &D_player_}, context);
    gp_weight_ = on_device(options_.gp_weight, context.tensors());
    phases_ = alternating_phases(
        D_player_,
        [this](const PhaseInput& in) { return d_loss(in); },
        G_player_,
        [this](const PhaseInput& in) { return g_loss(in); });
    phases_[1].continues = true;  // G improves the pictures that D has just judged
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<DeviceNumber*> numbers() override { return {&gp_weight_}; }

  Json model() const override { return model_of(G_net_->shape); }

 private:
  // D's phase and G's first one share z, as in pytorch/examples.
  Tensor z(const PhaseInput& in) const {
    const DrawKey key = in.key.of_phase(std::max<int64_t>(in.key.phase - 1, 0));
    return normal(key, "z", in.samples, {options_.latent}).to(in.real.options());
  }

  Tensor scores(const PhaseInput& in, Shown kind, const Tensor& x) {
    return D_(seen_by_D(options_.augmentation, x, kind, in.key, in.samples));
  }

  PhaseOutput d_loss(const PhaseInput& in) {
    const Tensor& x = in.real;
    PhaseOutput out;
    const Tensor made = [&] {  // D's phase moves neither G nor its running statistics
      const RunningStatisticsScope of_G(out.carried.running);
      return G_(z(in));
    }();
    if (in.continued) out.carried.tensors["pictures"] = made;
    const Tensor fake = made.detach();
    const Tensor real_scores = scores(in, Shown::kReal, x);
    const Tensor fake_scores = scores(in, Shown::kFake, fake);
    out.statistics = {{"Loss/scores/real", real_scores},
                      {"Loss/signs/real", real_scores.sign()},
                      {"Loss/scores/fake", fake_scores}};
    if (options_.loss != Loss::kWassersteinGp) {
      const bool logistic = options_.loss == Loss::kLogistic;
      out.loss = (logistic ? logistic_d : least_squares_d)(real_scores, fake_scores);
      return out;
    }
    const Tensor t = uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(x.options());
    const Discriminate D = [&](const Tensor& b) { return scores(in, Shown::kBetween, b); };
    const Tensor penalty = gradient_penalty(D, x, fake, t);
    out.statistics.emplace_back("Loss/gradient_penalty", penalty);
    out.loss = wasserstein_d(real_scores, fake_scores) + gp_weight_.times(penalty);
    return out;
  }

  PhaseOutput g_loss(const PhaseInput& in) {
    PhaseOutput out;
    const auto judged = in.carried.tensors.find("pictures");  // those that D's phase has scored
    const bool handed_over = judged != in.carried.tensors.end();
    if (handed_over) out.running = in.carried.running;
    const Tensor fake = handed_over ? judged->second : G_(z(in));
    const Tensor fake_scores = scores(in, Shown::kFake, fake);
    out.loss = options_.loss == Loss::kLogistic       ? logistic_g(fake_scores)
               : options_.loss == Loss::kLeastSquares ? least_squares_g(fake_scores)
                                                      : wasserstein_g(fake_scores);
    return out;
  }

  Options options_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<Discriminator> D_;
  DeviceNumber gp_weight_;
  std::vector<Phase> phases_;
};

class TrainedGenerator final : public NetworkGenerator<dcgan::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

  int64_t z_dim() const override { return net_->shape.latent; }

  Tensor images(const Tensor& z,
                const Tensor& /*labels*/,
                const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    return net_->forward(z.to(net_->convolutions[0]->weight.options())).to(torch::kFloat);
  }
};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<Dcgan, TrainedGenerator, generator_shape, model_of>(facts());
  row.recognises = [](const TensorMap& tensors) {
    const auto first = tensors.find("main.0.weight");
    return first != tensors.end() && first->second.dim() == 4 && first->second.size(2) >= 4;
  };
  return row;
}

}  // namespace gantrain::dcgan
