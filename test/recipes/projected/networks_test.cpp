// SPDX-License-Identifier: Apache-2.0
#include "gan/recipe.h"
#include "nn/style/network_checks.h"
#include "recipes/projected/networks_of_fixtures.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;
using namespace gantrain::projected;
using Catch::Contains;

namespace {

constexpr double kTolerance = 5e-5;  // of fixtures' pictures, activations, maps and buffers
constexpr double kLogits = 1e-4;

const std::vector<std::string> kGenerators = {
    "big64", "lite32_c5", "lite128", "big128_c5", "big256"};

// The rows and columns that a fixture stores of large pictures.
Tensor stored_pixels(const Tensor& x) {
  if (x.size(2) < 128) return x;
  return x.slice(2, 1, std::nullopt, 4).slice(3, 2, std::nullopt, 4);
}

// Compares what one call of a generator shows with out/KIND... of the fixture.
struct CallCheck {
  const TensorFile& io;
  std::string kind;  // "act" or "train_act"
  int compared = 0;

  void operator()(const std::string& module, const Tensor& x) {
    CAPTURE(module);
    const Tensor first = x[0];
    const auto is = [&](const std::string& key, const Tensor& value) {
      const auto at = io.tensors.find("out/" + key + "/" + module);
      if (at == io.tensors.end()) return;
      CHECK(scaled_error(value, at->second) < kTolerance);
      ++compared;
    };
    is(kind + "_rms", first.square().mean().sqrt());
    const int64_t maps = std::min(first.size(0), int64_t{2}),
                  side = std::min(first.size(1), int64_t{6});
    is(kind + "_corner", first.narrow(0, 0, maps).narrow(1, 0, side).narrow(2, 0, side));
  }
};

void check_pictures(const TensorFile& io, const std::string& name, const Tensor& x) {
  const Tensor& expected = io.tensors.at("out/" + name);
  CHECK(scaled_error(stored_pixels(x).narrow(0, 0, expected.size(0)), expected) < kTolerance);
  const auto is = [&](const std::string& what, const Tensor& value) {
    const auto at = io.tensors.find("out/" + name + "_" + what);
    if (at != io.tensors.end()) CHECK(scaled_error(value, at->second) < kTolerance);
  };
  is("mean", x.mean({2, 3}));
  is("rms", x.square().mean({2, 3}).sqrt());
}

// Every tensor of the file below `prefix` is that of the network.
int check_buffers(const TensorFile& file, const std::string& prefix, const torch::nn::Module& net) {
  const Tensors mine = tensors_of(net);
  int compared = 0;
  for (const auto& [key, expected] : file.tensors) {
    if (!key.starts_with(prefix)) continue;
    CAPTURE(key);
    CHECK(scaled_error(mine.at(key.substr(prefix.size())), expected) < kTolerance);
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("PicturesActivationsAndStatisticsAreTheOfficialGenerators") {
  const torch::NoGradGuard no_grad;
  for (const std::string& name : kGenerators) {
    CAPTURE(name);
    const TensorFile io = fixture("proj_" + name + "_io");
    const auto G = generator_of(name);
    const Tensor z = io.tensors.at("in/z"), labels = at_or_none(io, "in/class_idx");
    G->eval();
    CallCheck eval{io, "act"}, train{io, "train_act"};
    check_pictures(io, "img_eval", G->forward(z, labels, tiled_noise(io), std::ref(eval)));
    if (io.tensors.count("out/img_eval_zero_noise_rms") != 0) {
      const Tensor silent = G->forward(z, labels, no_noise());
      CHECK(scaled_error(silent.square().mean({2, 3}).sqrt(),
                         io.tensors.at("out/img_eval_zero_noise_rms")) < kTolerance);
    }
    G->train();
    check_pictures(io, "img_train", G->forward(z, labels, tiled_noise(io), std::ref(train)));
    CHECK(eval.compared >= 10);
    CHECK(train.compared >= 5);
    CHECK(check_buffers(io, "after/", *G) > 20);
  }
}

TEST_CASE("TensorsAreTheOfficialNetworks") {
  for (const std::string& name : kGenerators)
    check_same_layout(*generator_of(name), NetworkFile("proj_" + name + "_G").tensors);
  for (const std::string name : {"big64", "lite32_c5"}) {
    const NetworkFile file("proj_" + name + "_D");
    check_same_layout(Discriminator(projected::discriminator_shape(file.config)),
                      discriminator_tensors(name));
  }
}

TEST_CASE("MapsAndProjectionsAreTheOfficialOnes") {
  const TensorFile io = fixture("proj_features_io");
  const auto f = [&](const std::string& key) { return io.tensors.at("out/" + key); };
  ProjectedFeatures features({.features = narrow_features(), .cout = kNarrowCout});
  load_into(features, NetworkFile("proj_features").tensors, "features", "feature_network.");
  const Tensor x = as_pictures(io.tensors.at("in/x_u8")).requires_grad_(true);
  std::array<Tensor, 4> across;
  const std::array<Tensor, 4> maps = features.pretrained->maps(x);
  const std::array<Tensor, 4> mixed = features.mixed(maps, &across);
  Tensor half_sum = torch::zeros({});
  for (size_t i = 0; i < maps.size(); ++i) {
    for (const auto& [key, value] :
         {std::pair{"backbone", maps[i]}, {"ccm", across[i]}, {"csm", mixed[i]}}) {
      const std::string name = key + std::to_string(i);
      CAPTURE(name);
      const bool whole = io.tensors.count("out/" + name) != 0;
      const Tensor expected = f(whole ? name : name + "_sample0");
      CHECK(scaled_error(value.narrow(0, 0, expected.size(0)), expected) < kTolerance);
    }
    half_sum = half_sum + 0.5 * mixed[i].square().mean();
  }
  half_sum.backward();
  CHECK(scaled_error(x.grad(), io.tensors.at("d_x")) < kTolerance);
}

TEST_CASE("LogitsOfTheHeadsAndTheirStatisticsAreTheOfficialOnes") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"big64", "lite32_c5"}) {
    CAPTURE(name);
    const TensorFile loss = fixture("proj_" + name + "_loss");
    Discriminator D(projected::discriminator_shape(NetworkFile("proj_" + name + "_D").config));
    load_into(D, discriminator_tensors(name), "D");
    const Tensor real = as_pictures(loss.tensors.at("in/real_u8"));
    const Tensor labels = at_or_none(loss, "in/real_class_idx");
    D.eval();
    CHECK(scaled_error(D.forward(real, labels), loss.tensors.at("out/D_real_logits_eval")) <
          kLogits);
    D.train();
    CHECK(scaled_error(D.forward(real, labels), loss.tensors.at("out/D_real_logits_train")) <
          kLogits);
    CHECK(check_buffers(loss, "after/", D) > 20);
  }
}

TEST_CASE("NetworksHaveAsManyParametersAsPublished") {
  const auto millions = [](int64_t pixels, bool lite, int64_t classes) {
    Shape s;
    s.img_resolution = pixels;
    s.lite = lite;
    s.c_dim = s.num_classes = classes;
    const projected::Generator G(s);
    int64_t n = 0;
    for (const auto& item : G.named_parameters())
      n += G.uses(item.key()) ? item.value().numel() : 0;
    return static_cast<double>(n) / 1e6;
  };
  CHECK(millions(64, false, 0) == Approx(101.9).margin(0.05));
  CHECK(millions(128, true, 0) == Approx(78.7).margin(0.05));
  DiscriminatorShape plain;
  CHECK(static_cast<double>(count(Discriminator(plain))) / 1e6 == Approx(10.33).margin(0.005));
  plain.separable = true;
  CHECK(static_cast<double>(count(Discriminator(plain))) / 1e6 == Approx(0.70).margin(0.005));
}

TEST_CASE("ATrainedGeneratorIsMadeFromItsTensorsAndItsModel") {
  for (const std::string& name : kGenerators) {
    CAPTURE(name);
    const NetworkFile file("proj_" + name + "_G");
    const TensorFile io = fixture("proj_" + name + "_io");
    CHECK(row().recognises(file.tensors));
    for (const Json& model : {file.config, Json()}) {
      const auto G = row().make_generator(model, file.tensors, "file");
      G->load(file.tensors, "file");
      CHECK(G->z_dim() == file.config["z_dim"]);
      CHECK(G->classes() == file.config["c_dim"]);
      CHECK(G->has_noise());
      const Tensor labels = at_or_none(io, "in/class_idx");
      const Tensor x = G->images(io.tensors.at("in/z"), labels, {.noise = NoiseMode::kNone});
      CHECK(x.size(2) == file.config["img_resolution"]);
      if (!file.config["synthesis_kwargs"]["lite"].get<bool>()) {
        CHECK(scaled_error(x.square().mean({2, 3}).sqrt(),
                           io.tensors.at("out/img_eval_zero_noise_rms")) < kTolerance);
        const Tensor fixed = G->images(io.tensors.at("in/z"), labels);
        CHECK(torch::equal(fixed, G->images(io.tensors.at("in/z"), labels)));
        CHECK_FALSE(torch::equal(fixed, x));
      } else {
        const Tensor& expected = io.tensors.at("out/img_eval");
        CHECK(scaled_error(stored_pixels(x).narrow(0, 0, expected.size(0)), expected) < kTolerance);
      }
      if (G->classes() > 0)
        CHECK_THROWS_WITH(G->images(io.tensors.at("in/z"), {}), Contains("5 classes"));
    }
    const Json written = to_json(generator_shape(Json(), file.tensors, "file"));
    for (const char* key : {"z_dim", "c_dim", "img_resolution", "img_channels", "ngf", "cond"})
      CHECK(written.at(key) == file.config.at(key));
  }
}

TEST_CASE("TensorsThatMakeNoGeneratorAreNamed") {
  const NetworkFile file("proj_big64_G");
  const auto loaded = [](const Tensors& tensors, const Json& model) {
    auto generator = row().make_generator(model, tensors, "file");
    generator->load(tensors, "file");
  };
  for (const char* name : {"synthesis.init.init.0.weight_orig",
                           "synthesis.feat_16.5.weight_orig",
                           "synthesis.feat_8.3.running_var",
                           "synthesis.se_64.main.1.weight_u",
                           "synthesis.to_big.weight_orig"}) {
    CAPTURE(name);
    Tensors tensors = file.tensors;
    tensors.erase(name);
    CHECK_THROWS_WITH(loaded(tensors, Json()), Contains(name) && Contains("file"));
    tensors[name] = torch::zeros({3});
    CHECK_THROWS_WITH(loaded(tensors, file.config), Contains(name) && Contains("file"));
  }
  Json model = file.config;
  model["ngf"] = 3;
  CHECK_THROWS_WITH(loaded(file.tensors, model), Contains("ngf = 3"));
  model = file.config;
  model["img_resolution"] = 128;
  CHECK_THROWS_WITH(loaded(file.tensors, model), Contains("img_resolution = 128"));
  CHECK_THROWS_AS(row().make_generator({}, {}, "file"), UserError);
  CHECK_FALSE(row().recognises({}));
}

// From 128 pixels on the official class has blocks up to 256, used or not.
TEST_CASE("BlocksAboveThePictureAreKeptAndNotUsed") {
  const auto G = generator_of("big128_c5");
  CHECK(G->blocks.count(256) == 1);
  CHECK_FALSE(G->uses("synthesis.feat_256.conv1.weight_orig"));
  CHECK_FALSE(G->uses("synthesis.se_256.main.1.weight_orig"));
  CHECK(G->uses("synthesis.feat_128.conv1.weight_orig"));
  CHECK(G->uses("synthesis.embed.weight"));
  CHECK(generator_of("big64")->blocks.size() == 4);
}

TEST_CASE("SmallInputsHaveFewerHalvings") {
  DiscriminatorShape s;
  s.features = narrow_features();
  s.cout = 4;
  s.ndf = 4;
  s.input = 64;
  Discriminator D(s);
  initialise(D, "D", 1);
  CHECK(D.forward(torch::randn({2, 1, 32, 32}), {}).sizes() == at::IntArrayRef({2, 4}));
  s.input = 224;
  Discriminator usual(s);
  initialise(usual, "D", 1);
  CHECK(usual.forward(torch::randn({2, 3, 32, 32}), {}).size(1) == 64);
  CHECK(usual.forward(torch::randn({2, 3, 256, 256}), {}).size(1) == 100);
}
