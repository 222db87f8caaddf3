// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/recipe.h"

#include "core/torch.h"
#include "gan/augmented_recipe.h"
#include "util/error.h"
#include "util/size.h"

namespace gantrain::r3gan {

namespace {

// -f(t) with f(t) = -log(1 + e^-t), t being by how much the score that should be higher is so.
Tensor pairing_loss(const Tensor& higher, const Tensor& lower) {
  return at::softplus(lower - higher).mean();
}

}  // namespace

Pairing penalties_d(const PairedD& D, const Pair& pair, const DeviceNumber& gamma) {
  const InputGradients real = input_gradients(D.real, pair.real);
  const InputGradients fake = input_gradients(D.fake, pair.fake);
  const Tensor r1 = real.squared_norms, r2 = fake.squared_norms.to(r1.scalar_type());
  return {.loss = gamma.times(r1.mean() + r2.mean(), 0.5),
          .real_scores = real.scores,
          .fake_scores = fake.scores,
          .r1_penalty = r1,
          .r2_penalty = r2};
}

Pairing pairing_d(const PairedD& D, const Pair& pair, const DeviceNumber* gamma) {
  Pairing d;
  if (gamma != nullptr) {
    d = penalties_d(D, pair, *gamma);
  } else {
    d.real_scores = D.real(pair.real);
    d.fake_scores = D.fake(pair.fake);
  }
  const Tensor loss = pairing_loss(d.real_scores, d.fake_scores);  // eq. 2
  d.loss = d.loss.defined() ? loss + d.loss : loss;
  return d;
}

Pairing pairing_g(const PairedD& D, const Pair& pair) {
  Pairing g;
  g.fake_scores = D.fake(pair.fake);
  g.real_scores = without_graph([&] { return D.real(pair.real); });
  g.loss = pairing_loss(g.fake_scores, g.real_scores);  // eq. 2
  return g;
}

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  facts().check_resolution(c.resolution);
  Shape s{stage_sizes(o, doubled_size(c.resolution).nominal())};
  s.img_resolution = c.resolution;
  s.img_channels = c.channels;
  s.z_dim = o.z_dim;
  s.c_dim = c.c_dim();
  s.embedding = o.embedding;
  s.expansion = o.expansion;
  const auto precision = c.config.read<PrecisionOptions>();
  if (precision.amp == Amp::kOff || precision.mode != PrecisionMode::kBlocks) return s;
  // The start never is in half precision.
  for (int64_t i = std::max(s.stages() - o.num_fp16_res, int64_t{1}); i < s.stages(); ++i)
    s.half_stages.push_back(i);
  return s;
}

// Whether the penalties are a phase of their own.
bool is_lazy(const Options& o) { return o.penalty_interval > 1 && o.gamma && !(*o.gamma == 0.0); }

// The share of D's steps that its main loss makes (Player::step_share).
double step_share(const Options& o) { return is_lazy(o) ? main_step_share(o.penalty_interval) : 1; }

class R3Gan final : public AugmentedRecipe<Generator, Discriminator> {
 public:
  explicit R3Gan(const RecipeContext& context);

  std::vector<DeviceNumber*> numbers() override { return {&gamma_, &T_.number()}; }
  std::vector<std::string> warnings() override { return T_.warnings("r3gan.gamma"); }
  Json model() const override { return to_json(G_net_->shape); }
  TensorNames names_in(const TensorMap& file, const Player& player) const override;
  std::vector<std::string> values_that_fit(const TensorMap& file) const override;

 private:
  R3Gan(const RecipeContext& context, const Options& options);
  PairedD seen_by_D(const PhaseInput& in) const;
  Tensor fakes(const PhaseInput& in) const;
  Tensor fakes_without_graph(const PhaseInput& in) const {
    return without_graph([&] { return fakes(in); });
  }
  PhaseOutput d_loss(const PhaseInput& in) const;
  PhaseOutput d_penalties(const PhaseInput& in) const;
  PhaseOutput g_loss(const PhaseInput& in) const;

  Options options_;
  Latents latents_;
  DeviceNumber gamma_;
};

R3Gan::R3Gan(const RecipeContext& context) : R3Gan(context, context.config.read<Options>()) {}

R3Gan::R3Gan(const RecipeContext& context, const Options& options)
    : AugmentedRecipe(context,
                      options,
                      std::make_shared<Generator>(shape_of(options, context)),
                      std::make_shared<Discriminator>(shape_of(options, context)),
                      step_share(options)),
      options_(options),
      latents_(options.z_dim, context.class_counts, context.device, context.label_rows) {
  if (!options_.gamma) throw std::logic_error("r3gan.gamma was not chosen: complete()");
  begin_training({&G_player_, &D_player_}, context);
  gamma_ = on_device(*options_.gamma, context.tensors());
  phases_ = alternating_phases(
      D_player_,
      [this](const PhaseInput& in) { return d_loss(in); },
      G_player_,
      [this](const PhaseInput& in) { return g_loss(in); });
  if (!is_lazy(options_)) return;
  // Lazy regularisation: Karras et al. 2020a, sec. 3.1.
  phases_.push_back({.name = "Dreg",
                     .player = D_player_,
                     .loss = [this](const PhaseInput& in) { return d_penalties(in); },
                     .cadence = {options_.penalty_interval, 0},
                     .role = Role::kPenalty,
                     .gain = static_cast<double>(options_.penalty_interval)});
}

// D of pictures under the augmentation T, each call with draws of its own. The labels of the real
// pictures belong to both of a pair.
PairedD R3Gan::seen_by_D(const PhaseInput& in) const {
  const auto one = [this, &in](int64_t call) {
    return [this, &in, key = in.key.of_phase(call)](const Tensor& x) {
      return D_(T_(x.to(in.real.scalar_type()), key, in.samples), in.labels);
    };
  };
  return {.real = one(reals_of(in.key.phase)), .fake = one(fakes_of(in.key.phase))};
}

// G(z), each with the label of the real picture that it is paired with.
Tensor R3Gan::fakes(const PhaseInput& in) const { return G_(latents_.z(in), in.labels); }

// Eq. 2 and, where they are not lazy, eq. 3.
PhaseOutput R3Gan::d_loss(const PhaseInput& in) const {
  const Pair pair{in.real, fakes_without_graph(in)};
  const bool penalised = !is_lazy(options_) && gamma_.is_used();
  const Pairing d = pairing_d(seen_by_D(in), pair, penalised ? &gamma_ : nullptr);
  PhaseOutput out{.loss = d.loss};
  if (penalised)
    out.statistics = {{"Loss/r1_penalty", d.r1_penalty}, {"Loss/r2_penalty", d.r2_penalty}};
  out.statistics.emplace_back("Loss/scores/real", d.real_scores);
  out.statistics.emplace_back("Loss/signs/real", d.real_scores.sign());
  out.statistics.emplace_back("Loss/scores/fake", d.fake_scores);
  out.statistics.emplace_back("Loss/relativistic_logits/D", d.real_scores - d.fake_scores);
  return out;
}

// Eq. 3 alone.
PhaseOutput R3Gan::d_penalties(const PhaseInput& in) const {
  const Pairing d = penalties_d(seen_by_D(in), {in.real, fakes_without_graph(in)}, gamma_);
  return {.loss = d.loss,
          .statistics = {{"Loss/r1_penalty", d.r1_penalty}, {"Loss/r2_penalty", d.r2_penalty}}};
}

// Eq. 2 from the other side.
PhaseOutput R3Gan::g_loss(const PhaseInput& in) const {
  const Pairing g = pairing_g(seen_by_D(in), {in.real, fakes(in)});
  return {.loss = g.loss,
          .statistics = {{"Loss/signs/fake", g.fake_scores.sign()},
                         {"Loss/relativistic_logits/G", g.fake_scores - g.real_scores}}};
}

// G counts its stages from the start on, D from the pictures on: its last ones correspond.
TensorNames R3Gan::names_in(const TensorMap& file, const Player& player) const {
  if (&player == &G_player_) return Recipe::names_in(file, player);
  const int64_t shift = stages_of(file, "D.") - D_net_->shape.stages();
  return [shift](const std::string& name) -> NameInFile {
    const auto [stage, rest] = stage_tensor(name);
    if (stage < 0) return name;
    return stage + shift < 0 ? std::string() : stage_name(stage + shift) + rest;
  };
}

std::vector<std::string> R3Gan::values_that_fit(const TensorMap& file) const {
  const Shape& mine = G_net_->shape;
  Shape theirs;
  try {
    theirs = generator_shape(Json(), file, "run.init_from");
  } catch (const UserError&) {
    return {};  // of another recipe
  }
  std::vector<std::string> values;
  const auto advise = [&](const char* key, const auto& there, const auto& here) {
    if (there != here) values.push_back(fmt::format("{}={}", key, there));
  };
  // Resolutions that both have.
  const auto common = static_cast<size_t>(std::min(mine.stages(), theirs.stages()));
  const auto advise_stages = [&](const char* key, auto member) {
    const std::vector<int64_t>& there = theirs.*member;
    const std::vector<int64_t>& here = mine.*member;
    if (!std::equal(there.begin(), there.begin() + common, here.begin()))
      values.push_back(fmt::format("r3gan.{}={}", key, by_resolution(there)));
  };
  advise_stages("width", &Shape::widths);
  advise_stages("cardinality", &Shape::cardinalities);
  advise_stages("blocks", &Shape::blocks);
  advise("r3gan.expansion", theirs.expansion, mine.expansion);
  advise("r3gan.z_dim", theirs.z_dim, mine.z_dim);
  if (theirs.c_dim > 0 && mine.c_dim > 0)
    advise("r3gan.embedding", theirs.embedding, mine.embedding);
  advise("data.channels", theirs.img_channels, mine.img_channels);
  advise("data.cond", theirs.c_dim > 0 ? "on" : "off", std::string(mine.c_dim > 0 ? "on" : "off"));
  return values;
}

class TrainedGenerator final : public NetworkGenerator<r3gan::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

  int64_t z_dim() const override { return net_->shape.z_dim; }
  int64_t classes() const override { return net_->shape.c_dim; }
  bool takes_vectors() const override { return true; }

  Tensor images(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    check_labels(labels);
    const Tensor& own = net_->to_image->layer->weight;
    return net_->forward(z.to(own.options()), labels).to(at::kFloat);
  }

  void load(const TensorMap& tensors, const std::string& source) override {
    TensorMap all = tensors;
    for (const auto& [name, fresh] : state_of(*net_)) {
      if (name.ends_with("Resampler.Kernel")) all.emplace(name, fresh);
    }
    load_into(*net_, all, source);
  }
};

// The tensors show all sizes.
Json pickled_model(const PickledGenerator& g) {
  const auto require = [&](const std::string& name, int64_t axes) {
    const auto at = g.tensors.find(name);
    if (at != g.tensors.end() && at->second.dim() == axes) return;
    refuse_file(g.source,
                "{} is of class {}, and no R3GAN generator: tensor {} is missing; {}",
                g.name,
                g.class_name,
                name,
                g.supported);
  };
  require("Model.MainLayers.0.Layers.0.Basis", 3);
  require("Model.AggregationLayer.Layer.weight", 4);
  return to_json(generator_shape(Json(), g.tensors, g.source));
}

// Modules whose classes R3GAN's networks are instances of; released snapshots have the older ones.
const PickledForm kPickled = {
    .modules = {"BaselineGAN.", "R3GAN.", "training.networks_baseline.", "training.networks."},
    .model = pickled_model};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<R3Gan, TrainedGenerator, generator_shape, to_json>(facts());
  row.pickled = &kPickled;
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("Model.MainLayers.0.Layers.0.Basis") != 0 &&
           tensors.count("Model.AggregationLayer.Layer.weight") != 0;
  };
  return row;
}

}  // namespace gantrain::r3gan
