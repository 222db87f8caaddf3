// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"
#include "nn/style/network_checks.h"
#include "ops/cases.h"
#include "ops/kernels.h"
#include "recipes/r3gan/networks_of_fixtures.h"
#include "recipes/r3gan/recipe.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;
using namespace gantrain::r3gan;
using Catch::Contains;

namespace {

constexpr double kTolerance = 5e-5;  // of fixtures' images, activations and logits

double rms_of_first(const Tensor& x) { return x[0].square().mean().sqrt().item<double>(); }

// Checks the outputs of a stage's layers, of which the first is layer `first`.
struct ActivationCheck {
  const Networks& p;
  std::string network;
  int compared = 0;

  void operator()(size_t stage, size_t layer, const Tensor& x) {
    const std::string key =
        fmt::format("out/act_rms/{}/MainLayers.{}.Layers.{}", network, stage, layer);
    CAPTURE(key);
    CHECK(rms_of_first(x) == Approx(p[key].item<double>()).epsilon(kTolerance));
    ++compared;
  }
};

std::unique_ptr<gantrain::Generator> loaded(const Tensors& tensors, const Json& model = {}) {
  auto generator = row().make_generator(model, tensors, "file");
  generator->load(tensors, "file");
  return generator;
}

}  // namespace

TEST_CASE("PicturesAndScoresAreTheReferences") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : kReferences) {
    const Networks p(name, "io");
    const Tensor labels = Networks::labels(p.reference);
    const Tensor pictures = p.G->forward(p["in/z"], labels);
    CAPTURE(name);
    CHECK(scaled_error(pictures, p["out/img"]) < kTolerance);
    CHECK(scaled_error(p.D->forward(p.real(), labels), p["out/D_real_logits"]) < kTolerance);
    CHECK(scaled_error(p.D->forward(p["out/img"], labels), p["out/D_fake_logits"]) < kTolerance);
    const WithKernels reference(KernelSet::kRef);
    CHECK(scaled_error(p.G->forward(p["in/z"], labels), p["out/img"]) < kTolerance);
  }
}

TEST_CASE("EveryLayerOfTheUnconditionalPairIsTheReferences") {
  const torch::NoGradGuard no_grad;
  const Networks p("uncond32", "io");
  ActivationCheck of_G{p, "G"}, of_D{p, "D"};
  Tensor x = p["in/z"];
  for (size_t s = 0; s < p.G->stages.size(); ++s) {
    const NetworkStage& stage = *p.G->stages[s];
    x = stage.start ? stage.start->forward(x) : stage.transition->forward(x);
    of_G(s, 0, x);
    for (size_t b = 0; b < stage.blocks.size(); ++b)
      of_G(s, b + 1, x = stage.blocks[b]->forward(x));
  }
  x = p.D->from_image->forward(p["out/img"]);
  for (size_t s = 0; s < p.D->stages.size(); ++s) {
    const NetworkStage& stage = *p.D->stages[s];
    for (size_t b = 0; b < stage.blocks.size(); ++b) of_D(s, b, x = stage.blocks[b]->forward(x));
    x = stage.end ? stage.end->forward(x) : stage.transition->forward(x);
    of_D(s, stage.blocks.size(), x);
  }
  int64_t given = 0;
  for (const auto& item : p.reference.tensors)
    given += item.first.starts_with("out/act_rms") ? 1 : 0;
  CHECK(of_G.compared + of_D.compared == given);
}

TEST_CASE("TensorsAreTheReferences") {
  for (const std::string name : kReferences) {
    const Networks p(name, "io");
    check_same_layout(*p.G, p.G_tensors);
    check_same_layout(*p.D, p.D_tensors);
  }
}

namespace {

std::shared_ptr<torch::nn::Module> module_of(const std::string& op, const Json& c) {
  const auto of = [&](const char* key) { return c[key].get<int64_t>(); };
  if (op == "residual_block")
    return std::make_shared<ResidualBlock>(
        ResidualBlock::Config{of("C"), of("groups"), of("expansion")});
  if (op == "generative_basis")
    return std::make_shared<GenerativeBasis>(of("i"), of("o"), square_of(4));
  if (op == "discriminative_basis")
    return std::make_shared<DiscriminativeBasis>(of("i"), of("o"), square_of(4));
  if (op == "upsample_layer")
    return std::make_shared<Transition>(of("i"), of("o"), Change::kTwiceAsLarge);
  if (op == "downsample_layer")
    return std::make_shared<Transition>(of("i"), of("o"), Change::kHalfAsLarge);
  if (op == "biased_activation") return std::make_shared<BiasedActivation>(5);
  // Resampling alone: nothing to convolve.
  return std::make_shared<Transition>(
      3, 3, op == "upsample" ? Change::kTwiceAsLarge : Change::kHalfAsLarge);
}

Tensor called(torch::nn::Module& module, const Tensor& x) {
  if (auto* m = dynamic_cast<ResidualBlock*>(&module)) return m->forward(x);
  if (auto* m = dynamic_cast<GenerativeBasis*>(&module)) return m->forward(x);
  if (auto* m = dynamic_cast<DiscriminativeBasis*>(&module)) return m->forward(x);
  if (auto* m = dynamic_cast<BiasedActivation*>(&module)) return m->forward(x);
  return dynamic_cast<Transition&>(module).forward(x);
}

}  // namespace

// d_*: gradients of sum(dy y); dd_*: of sum(vx d_x), which a gradient penalty needs.
TEST_CASE("LayersAndTheirDerivativesAreTheReferences") {
  for_each_case("r3gan_ops", {}, [](OperatorCase& c) {
    const std::string op = c.what["op"];
    const auto module = module_of(op, c.what);
    const bool bare = op == "upsample" || op == "downsample";
    Tensors given;
    std::vector<Tensor> weights;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : state_of(*module)) {
      given[name] = c[bare ? "Kernel" : name];
      if (!tensor.requires_grad()) continue;
      weights.push_back(tensor);
      names.push_back(name);
    }
    load_into(*module, given, c.name);
    const Tensor x = c.leaf("in/x"), dy = c.leaf("in/dy");
    const Tensor y = called(*module, x);
    c.check("y", y);
    const auto derivatives = [&](const Tensor& of, const Tensor& by, const Tensor& v) {
      std::vector<Tensor> inputs = weights;
      inputs.push_back(by);
      return torch::autograd::grad({of}, inputs, {v}, true, true, /*allow_unused=*/true);
    };
    const auto first = derivatives(y, x, dy);
    const auto second = derivatives(first.back(), dy, c["in/vx"]);
    for (size_t i = 0; i < names.size(); ++i) {
      c.check("d_" + names[i], first[i]);
      if (c["dd_" + names[i]].defined()) c.check("dd_" + names[i], second[i]);
    }
    c.check("d_x", first.back());
    c.check("dd_dy", second.back());
  });
}

TEST_CASE("NetworksOfThePresetsHaveTheReferencesNumberOfParameters") {
  struct Row {
    std::vector<int64_t> widths;
    int64_t classes, cardinality;
    double G_millions, D_millions;
  };
  const std::vector<Row> rows = {
      {{768, 768, 768, 768}, 10, 96, 20.8, 21.3},
      {{768, 768, 768, 768, 384}, 0, 96, 22.4, 22.4},
      {{768, 768, 768, 768, 384, 192, 96}, 0, 96, 23.1, 23.0},
  };
  for (const Row& r : rows) {
    Shape s;
    s.img_resolution = square_of(int64_t{4} << (r.widths.size() - 1));
    s.c_dim = r.classes;
    s.widths = r.widths;
    for (const int64_t width : r.widths) s.cardinalities.push_back(width / 8);
    s.blocks.assign(r.widths.size(), 2);
    const auto millions = [](const torch::nn::Module& net) {
      return static_cast<double>(count(net.parameters())) / 1e6;
    };
    CHECK(millions(r3gan::Generator(s)) == Approx(r.G_millions).margin(0.05));
    CHECK(millions(r3gan::Discriminator(s)) == Approx(r.D_millions).margin(0.05));
  }
}

TEST_CASE("AFreshBlockIsTheIdentity") {
  const torch::NoGradGuard no_grad;
  const Networks p("cond16", "io");
  initialise(*p.G, "G", 1);
  const Tensor x = torch::randn({2, 16, 4, 4});
  CHECK(torch::equal(p.G->stages[0]->blocks[1]->forward(x), x));
  const auto parameters = p.G->named_parameters();
  const auto deviation = [&](const char* name) {
    return parameters[name].square().mean().sqrt().item<double>();
  };
  // Four blocks: sqrt(2 / 1.04) / 4^(1/4) / sqrt(fan_in).
  CHECK(deviation("Model.MainLayers.0.Layers.1.LinearLayer2.Layer.weight") ==
        Approx(std::sqrt(2 / 1.04) / std::sqrt(2.) / std::sqrt(72.)).epsilon(0.05));
  CHECK(deviation("Model.MainLayers.0.Layers.0.Basis") == Approx(1).epsilon(0.15));
  CHECK(deviation("Model.MainLayers.0.Layers.1.NonLinearity1.Bias") == 0);
}

TEST_CASE("ATrainedGeneratorIsMadeFromItsTensorsAndItsModel") {
  for (const std::string name : kReferences) {
    for (const bool with_model : {true, false}) {
      const Networks p(name, "io");
      CHECK(row().recognises(p.G_tensors));
      Json model = p.G_model;
      model["recipe"] = "r3gan";
      Tensors tensors = p.G_tensors;
      tensors.erase("Model.MainLayers.1.Layers.0.Resampler.Kernel");
      const auto G = loaded(tensors, with_model ? model : Json());
      CHECK(G->z_dim() == p["in/z"].size(1));
      CHECK(G->classes() == (name == "cond16" ? 5 : 0));
      const Tensor labels = Networks::labels(p.reference);
      CHECK(scaled_error(G->images(p["in/z"], labels), p["out/img"]) < kTolerance);
      if (name == "cond16") CHECK_THROWS_WITH(G->images(p["in/z"], {}), Contains("5 classes"));
      // What the shape says of itself is what the reference's header says.
      const Json written = to_json(p.shape);
      for (const auto& [key, value] : p.G_model.items()) {
        CAPTURE(key);
        CHECK(written.at(key) == value);
      }
    }
  }
}

TEST_CASE("PicturesWithOneChannelAndRectanglesLoad") {
  Shape s;
  s.img_resolution = {12, 8};
  s.img_channels = 1;
  s.widths = {6, 4};
  s.cardinalities = {3, 2};
  s.blocks = {1, 2};
  r3gan::Generator net(s);
  initialise(net, "G", 1);
  const auto G = loaded(tensors_of(net), to_json(s));
  const Tensor images = G->images(torch::randn({2, 64}), {});
  CHECK(images.sizes() == at::IntArrayRef({2, 1, 8, 12}));
  CHECK(r3gan::Discriminator(s).forward(images, {}).sizes() == at::IntArrayRef({2}));
}

TEST_CASE("TensorsThatMakeNoGeneratorAreNamed") {
  const Networks p("cond16", "io");
  for (const char* name : {"Model.MainLayers.0.Layers.0.Basis",
                           "Model.MainLayers.1.Layers.1.LinearLayer2.Layer.weight",
                           "Model.MainLayers.2.Layers.1.LinearLayer1.Layer.weight",
                           "Model.AggregationLayer.Layer.weight"}) {
    Tensors tensors = p.G_tensors;
    tensors.erase(name);
    CHECK_THROWS_WITH(loaded(tensors), Contains(name) && Contains("file"));
    CHECK_THROWS_WITH(loaded(tensors, p.G_model), Contains(name) && Contains("file"));
    tensors[name] = torch::zeros({3});
    CHECK_THROWS_WITH(loaded(tensors), Contains(name) && Contains("file"));
  }
  Json model = p.G_model;
  model["WidthPerStage"] = {16, 16, 12};
  CHECK_THROWS_WITH(loaded(p.G_tensors, model), Contains("WidthPerStage = [16,16,12]"));
  CHECK_THROWS_AS(row().make_generator({}, {}, "file"), UserError);
  CHECK_FALSE(row().recognises({}));
}
