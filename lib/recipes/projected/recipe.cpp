// SPDX-License-Identifier: Apache-2.0
#include "recipes/projected/recipe.h"

#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "gan/augmented_recipe.h"
#include "gan/model_json.h"
#include "nn/lite0_file.h"
#include "ops/autocast.h"
#include "ops/losses.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain::projected {

double blur_sigma(const Options& o, int64_t images_seen) {
  constexpr int64_t kShortest = 1000;  // a fade of up to one kimg is none
  if (o.blur_fade.images <= kShortest) return 0;
  const double left =
      1 - static_cast<double>(images_seen) / static_cast<double>(o.blur_fade.images);
  return o.blur_init_sigma * std::max(left, 0.);
}

Tensor blurred(const Tensor& x, const DeviceNumber& sigma, double most) {
  const auto reach = static_cast<int64_t>(std::floor(3 * most));
  if (!sigma.is_used() || reach == 0) return x;
  const WithoutAutocast exactly;
  const at::TensorOptions exact = x.options().dtype(at::kDouble);
  // A deviation of 0 leaves the middle tap alone.
  const Tensor deviation =
      (sigma.moves() ? sigma.value().to(exact) : at::full({}, sigma.host(), exact))
          .clamp_min(1e-30);
  const Tensor places = at::arange(-reach, reach + 1, exact);
  const Tensor taps = at::exp2(-(places / deviation).square()) *
                      (places.abs() <= (3 * deviation).floor()).to(at::kDouble);
  const Tensor filter = (taps / taps.sum()).to(x.scalar_type());
  const int64_t channels = x.size(1);
  const auto along = [&](const Tensor& t, at::IntArrayRef shape, at::IntArrayRef padding) {
    const Tensor each =
        filter.reshape(shape).expand({channels, 1, shape[2], shape[3]}).contiguous();
    return at::conv2d(
        t, each, {}, at::IntArrayRef({1, 1}), padding, at::IntArrayRef({1, 1}), channels);
  };
  const int64_t length = 2 * reach + 1;
  return along(along(x, {1, 1, 1, length}, {0, reach}), {1, 1, length, 1}, {reach, 0});
}

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  facts().check_resolution(c.resolution);
  Shape s;
  s.z_dim = o.z_dim;
  s.c_dim = s.num_classes = static_cast<int64_t>(c.class_counts.size());
  s.img_resolution = c.resolution.width;
  s.img_channels = c.channels;
  s.ngf = o.ngf;
  s.lite = o.lite;
  return s;
}

Lite0Shape random_features(const Options& o) {
  Lite0Shape shape;
  const std::vector<int64_t> widths = feature_widths(o);
  if (widths.empty()) return shape;
  shape.stem = widths.front();
  std::copy(widths.begin() + 1, widths.end(), shape.widths.begin());
  return shape;
}

// The network of --features where the file is a program; null where it is weights, or there is
// none.
std::shared_ptr<ScriptFeatures> script_features(const Options& o, const RecipeContext& c) {
  const std::string file = features_file(c.config);
  if (file.empty()) return nullptr;
  if (!is_torchscript(file)) {
    if (!feature_taps(o).empty()) {
      fail(Exit::kUsage,
           "projected.taps = {}: {} is no TorchScript, and EfficientNet-Lite0 has taps of its own",
           o.taps,
           file);
    }
    return nullptr;
  }
  if (o.dry_pass == DryPass::kOfficial)
    fail(Exit::kUsage,
         "projected.dry_pass = official: moves EfficientNet-Lite0's statistics; {} is another "
         "network",
         file);
  return std::make_shared<ScriptFeatures>(
      ScriptFeatures::Choice{.file = file,
                             .taps = feature_taps(o),
                             .side = std::max(o.input, c.resolution.width),
                             .device = c.device});
}

DiscriminatorShape discriminator_shape(const Options& o, const RecipeContext& c) {
  if (c.channels != 1 && c.channels != 3) {
    fail(Exit::kUsage,
         "data.channels = {}: projected GAN's feature network sees pictures of 1 or 3 channels",
         c.channels);
  }
  DiscriminatorShape s;
  s.features = random_features(o);
  s.cout = o.cout;
  s.ndf = o.ndf;
  s.separable = o.separable;
  s.c_dim = static_cast<int64_t>(c.class_counts.size());
  s.embedding = o.embedding;
  s.cmap_dim = o.cmap_dim;
  s.input = o.input;
  s.script = script_features(o, c);
  return s;
}

void see(const char* whose, const Tensor& logits, PhaseOutput& out) {
  const std::string name(whose);
  out.statistics.emplace_back("Loss/scores/" + name, logits.flatten());
  out.statistics.emplace_back("Loss/signs/" + name, logits.sign().flatten());
}

class Projected final : public AugmentedRecipe<Generator, Discriminator> {
 public:
  explicit Projected(const RecipeContext& context);

  std::vector<DeviceNumber*> numbers() override { return {&blur_, &T_.number()}; }
  std::vector<AllReducedSum> sums() override;
  std::vector<std::string> warnings() override;
  Json model() const override { return to_json(G_net_->shape); }
  std::vector<std::string> values_that_fit(const TensorMap& file) const override;

 private:
  Projected(const RecipeContext& context, const Options& options);
  void read_features(const Config& config);
  std::string other_than_began() const;
  Tensor fakes(const PhaseInput& in, const Tensor& labels) const;
  Tensor logits(const PhaseInput& in, int64_t call, const Tensor& x, const Tensor& labels) const;
  PhaseOutput g_loss(const PhaseInput& in) const;
  PhaseOutput d_loss(const PhaseInput& in) const;

  Options options_;
  Latents latents_;
  DeviceNumber blur_;
  std::string other_features_;  // a file of other features than the published ones
  std::string file_;            // --features
  std::string features_;        // SHA-256 of the file's, or drawn, ones; empty once compared
};

Projected::Projected(const RecipeContext& context)
    : Projected(context, context.config.read<Options>()) {}

Projected::Projected(const RecipeContext& context, const Options& options)
    : AugmentedRecipe(context,
                      options,
                      std::make_shared<Generator>(shape_of(options, context)),
                      std::make_shared<Discriminator>(discriminator_shape(options, context)),
                      main_step_share(kDInterval)),
      options_(options),
      latents_(options.z_dim, context.class_counts, context.device) {
  read_features(context.config);
  if (const auto& pretrained = D_net_->features->pretrained)
    features_ = sha256_of(state_of(*pretrained));
  begin_training({&G_player_, &D_player_}, context);
  G_player_.active = [net = G_net_.get()](const std::string& name) { return net->uses(name); };
  if (blur_sigma(options_, 0) > 0) {
    blur_ = {[o = options_](int64_t images_seen) { return blur_sigma(o, images_seen); },
             context.tensors().dtype(at::kDouble)};
  }
  const int64_t turn = options_.D.steps;  // updates of D for one turn of G
  for (int64_t i = 0; i < options_.G.steps; ++i) {
    const std::string name = i == 0 ? "G" : "G" + std::to_string(i + 1);
    phases_.push_back(
        {name, G_player_, [this](const PhaseInput& in) { return g_loss(in); }, {turn, turn - 1}});
  }
  phases_.push_back({"D", D_player_, [this](const PhaseInput& in) { return d_loss(in); }});
  for (Phase& phase : phases_) phase.all_parameters_used = true;
}

void Projected::read_features(const Config& config) {
  if (const auto& script = D_net_->features->script) {
    other_features_ = script->description() + "; a program that runs with your rights";
    return;
  }
  Lite0& network = *D_net_->features->pretrained;
  file_ = features_file(config);
  if (!file_.empty()) {
    const Lite0Weights weights = read_lite0(file_);
    load_into(network, weights.tensors, file_);
    if (!weights.published) other_features_ = describe(weights);
  }
  if (options_.dry_pass == DryPass::kOfficial) network.probe();
}

// A state or a model with D holds the features that it was trained with, and these stay.
std::string Projected::other_than_began() const {
  if (features_.empty() || features_ == sha256_of(state_of(*D_net_->features->pretrained)))
    return "";
  const std::string stay = "D goes on with those of the state or model that this run began at";
  return file_.empty() ? "features: " + stay
                       : fmt::format("--features {}: for metrics alone; {}", file_, stay);
}

std::vector<std::string> Projected::warnings() {
  std::vector<std::string> all = T_.warnings("ada.target");
  const std::string other = other_than_began();
  features_.clear();
  if (!other.empty()) {
    all.push_back(other);
    other_features_.clear();
  }
  if (!other_features_.empty()) all.push_back("--features: " + other_features_);
  other_features_.clear();
  return all;
}

Tensor Projected::fakes(const PhaseInput& in, const Tensor& labels) const {
  return G_(latents_.z(in), labels, drawn_noise(in.key, in.samples, in.real.options()));
}

// D of pictures as it sees them: blurred and augmented, each call with draws of its own.
Tensor Projected::logits(const PhaseInput& in,
                         int64_t call,
                         const Tensor& x,
                         const Tensor& labels) const {
  const Tensor seen = blurred(x, blur_, options_.blur_init_sigma);
  return D_(T_(seen, in.key.of_phase(call), in.samples), labels);
}

// -E[D(G(z))]: Sauer et al. 2021, eq. 3, with the hinge loss of Lim & Ye 2017; the mean is over all
// logits of all heads.
PhaseOutput Projected::g_loss(const PhaseInput& in) const {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor scores = logits(in, fakes_of(in.key.phase), fakes(in, c), c);
  see("fake", scores, out);
  out.loss = wasserstein_g(scores);
  return out;
}

// E[max(0, 1 + D(G(z)))] + E[max(0, 1 - D(x))], generated pictures first: running statistics move
// between the two.
PhaseOutput Projected::d_loss(const PhaseInput& in) const {
  PhaseOutput out;
  const Tensor c = latents_.labels(in);
  const Tensor fake = without_graph([&] { return fakes(in, c); });
  const Tensor fake_scores = logits(in, fakes_of(in.key.phase), fake, c);
  const Tensor real_scores = logits(in, reals_of(in.key.phase), in.real, in.labels);
  see("fake", fake_scores, out);
  see("real", real_scores, out);
  out.sums.emplace_back("ada", AdaptiveStrength::signs(real_scores));
  out.loss = hinge_d(real_scores, fake_scores);
  return out;
}

std::vector<AllReducedSum> Projected::sums() {
  const auto add = [this](const Tensor& sum) { T_.strength().add(sum); };
  return {{"ada", add, {T_.strength().signs()}}};
}

std::vector<std::string> Projected::values_that_fit(const TensorMap& file) const {
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
  const auto word = [](bool on) { return std::string(on ? "on" : "off"); };
  advise("projected.ngf", theirs.ngf, mine.ngf);
  advise("projected.lite", word(theirs.lite), word(mine.lite));
  advise("projected.z_dim", theirs.z_dim, mine.z_dim);
  advise("data.channels", theirs.img_channels, mine.img_channels);
  advise("data.cond", word(theirs.c_dim > 0), word(mine.c_dim > 0));
  return values;
}

// The official code draws noise anew for every picture, in evaluation too. Here the constant noise
// is one drawn pattern, the same for all pictures, and random noise follows from the options' seed.
class TrainedGenerator final : public NetworkGenerator<projected::Generator> {
 public:
  using NetworkGenerator::NetworkGenerator;

  int64_t z_dim() const override { return net_->shape.z_dim; }
  int64_t classes() const override { return net_->shape.c_dim; }
  // The lite network has none, and every way of making noise is the same to it.
  bool has_noise() const override { return true; }

  Tensor images(const Tensor& z, const Tensor& labels, const SynthesisOptions& options) override {
    const torch::AutoGradMode gradients(options.gradients);
    check_labels(labels);
    const Tensor own = z.to(net_->to_image->weight_orig.options());
    return net_->forward(own, labels, noise_of(options, own)).to(at::kFloat);
  }

 private:
  static NoiseInputs noise_of(const SynthesisOptions& options, const Tensor& z) {
    if (options.noise == NoiseMode::kNone) return no_noise();
    const bool random = options.noise == NoiseMode::kRandom;
    return drawn_noise(make_draw_key(random ? options.noise_seed : 0, 0, 0, z.device()),
                       {0, 1, random ? z.size(0) : 1},
                       z.options());
  }
};

// The tensors show the sizes; attributes of the official class say the number of classes, whose
// table has more rows, and which of two sizes with equal feature maps it is.
Json pickled_model(const PickledGenerator& g) {
  Json said = Json::object();
  const bool labelled = g.tensors.count("synthesis.embed.weight") != 0;
  for (const char* key : {"z_dim", "c_dim", "img_resolution", "img_channels"}) {
    if (g.arguments.contains(key) && (labelled || std::string_view(key) != "c_dim"))
      said[key] = g.arguments[key];
  }
  return to_json(generator_shape(said, g.tensors, g.source));
}

// Modules whose classes the official networks are instances of; the feature network's are timm's.
const PickledForm kPickled = {.modules = {"pg_modules.", "timm."}, .model = pickled_model};

}  // namespace

RecipeRow row() {
  RecipeRow row = make_row<Projected, TrainedGenerator, generator_shape, to_json>(facts());
  row.pickled = &kPickled;
  row.recognises = [](const TensorMap& tensors) {
    return tensors.count("synthesis.init.init.0.weight_orig") != 0 &&
           tensors.count("synthesis.to_big.weight_orig") != 0;
  };
  return row;
}

}  // namespace gantrain::projected
