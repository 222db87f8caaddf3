// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"
#include "recipes/dcgan/recipe.h"
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

// The pair of fixtures/dcgan: ngf = ndf = 8, 64 pixels.
struct Pair {
  dcgan::Generator G{{{64, 64}, 3, 100, 64, dcgan::Norm::kBatch}};
  dcgan::Discriminator D{{{64, 64}, 3, 0, 8, dcgan::Norm::kBatch}};
  TensorFile reference = fixture("dcgan");

  Pair() {
    const TensorFile file = fixture("dcgan_params");
    load_into(G, file.tensors, "dcgan_params", "G/");
    load_into(D, file.tensors, "dcgan_params", "D/");
  }
  const at::Tensor& operator[](const std::string& name) const { return reference.tensors.at(name); }
};

// Compares every tensor PREFIX + name of the fixture for one network.
void check_statistics(const Pair& pair, const torch::nn::Module& net, const std::string& prefix) {
  for (const auto& item : net.named_buffers()) {
    const auto at = pair.reference.tensors.find(prefix + item.key());
    if (at == pair.reference.tensors.end()) continue;
    CAPTURE(prefix + item.key());
    CHECK(scaled_error(item.value(), at->second) < 2e-4);
  }
}

}  // namespace

TEST_CASE("OutputsMatchTheReference") {
  const torch::NoGradGuard no_grad;
  Pair p;
  p.G.eval();
  p.D.eval();
  CHECK(scaled_error(p.G.forward(p["in/z"]), p["out/G_eval"]) < 1e-5);
  CHECK(scaled_error(p.D.forward(p["in/real"][0]).sigmoid(), p["out/D_eval_of_real0"]) < 1e-5);
  p.G.train();
  p.D.train();
  CHECK(scaled_error(p.G.forward(p["in/z"]), p["out/G_train"]) < 1e-5);
  CHECK(scaled_error(p.D.forward(p["in/real"][0]).sigmoid(), p["out/D_train_of_real0"]) < 1e-5);
  check_statistics(p, p.G, "out/after_one_forward/G/");
}

TEST_CASE("ParameterCountsAreTheReferences") {
  CHECK(count(dcgan::Generator({{64, 64}, 3, 100, 512, dcgan::Norm::kBatch})) == 3'576'704);
  CHECK(count(dcgan::Discriminator({{64, 64}, 3, 0, 64, dcgan::Norm::kBatch})) == 2'765'568);
}

TEST_CASE("EverySizeGivesPicturesOfItsSizeAndOneScoreEach") {
  for (const Size& size : {square_of(8),
                           square_of(16),
                           square_of(32),
                           square_of(64),
                           square_of(128),
                           square_of(48),
                           Size{32, 16},
                           Size{16, 32},
                           Size{40, 56}}) {
    for (const dcgan::Norm norm : {dcgan::Norm::kBatch, dcgan::Norm::kNone}) {
      CAPTURE(to_text(size));
      dcgan::Generator G({size, 1, 7, 32, norm});
      dcgan::Discriminator D({size, 1, 0, 4, norm});
      const at::Tensor x = G.forward(torch::randn({2, 7}));
      CHECK(x.sizes() == at::IntArrayRef({2, 1, size.height, size.width}));
      CHECK(D.forward(x).sizes() == at::IntArrayRef({2}));
    }
  }
}

TEST_CASE("InitialWeightsDependOnTheSeedAlone") {
  const dcgan::Shape shape{{16, 16}, 3, 10, 32, dcgan::Norm::kBatch};
  dcgan::Generator a(shape), b(shape), c(shape);
  dcgan::initialise(a, "G", 1);
  dcgan::initialise(b, "G", 1);
  dcgan::initialise(c, "G", 2);
  CHECK(sha256_of(state_of(a)) == sha256_of(state_of(b)));
  CHECK(sha256_of(state_of(a)) != sha256_of(state_of(c)));
  CHECK(a.convolutions[0]->weight.std().item<double>() == Approx(0.02).epsilon(0.05));
  CHECK(a.norms[0]->weight.mean().item<double>() == Approx(1).margin(0.02));
}

TEST_CASE("RectanglesHaveTheWeightsOfSquaresExceptAtTheStart") {
  const dcgan::Generator wide({{64, 32}, 3, 7, 16, dcgan::Norm::kBatch});
  const dcgan::Generator of_square({{32, 32}, 3, 7, 16, dcgan::Norm::kBatch});
  const NamedTensors a = state_of(wide), b = state_of(of_square);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].first);
    CHECK(a[i].first == b[i].first);
    if (a[i].first == "main.0.weight") {
      CHECK(a[i].second.sizes() == at::IntArrayRef({7, 16, 4, 8}));
    } else {
      CHECK(a[i].second.sizes() == b[i].second.sizes());
    }
  }
  const dcgan::Discriminator D({{64, 32}, 3, 0, 4, dcgan::Norm::kBatch});
  CHECK(D.convolutions.back()->weight.sizes() == at::IntArrayRef({1, 16, 4, 8}));
}

TEST_CASE("ARectangularGeneratorsSizesAreReadOffItsTensors") {
  for (const Size& size : {Size{64, 32}, Size{24, 56}, Size{40, 40}}) {
    const dcgan::Generator G({size, 3, 7, 16, dcgan::Norm::kBatch});
    auto tensors = tensors_of(G);
    CHECK(dcgan::generator_shape({}, tensors, "file").resolution == size);
    tensors["main.0.weight"] = torch::zeros({7, 16, 3, 8});
    CHECK_THROWS_WITH(dcgan::generator_shape({}, tensors, "file"),
                      Catch::Contains("main.0.weight"));
  }
}

TEST_CASE("AGeneratorsSizesAreReadOffItsTensors") {
  dcgan::Generator G({{32, 32}, 1, 7, 24, dcgan::Norm::kNone});
  auto tensors = tensors_of(G);
  const dcgan::Shape shape = dcgan::generator_shape({}, tensors, "file");
  CHECK(shape.resolution == square_of(32));
  CHECK(shape.image_channels == 1);
  CHECK(shape.latent == 7);
  CHECK(shape.channels == 24);
  CHECK(shape.norm == dcgan::Norm::kNone);
  tensors["main.3.weight"] = torch::zeros({4, 4});
  CHECK_THROWS_WITH(dcgan::generator_shape({}, tensors, "file"), Catch::Contains("main.3.weight"));
  CHECK_THROWS_AS(dcgan::generator_shape({}, {}, "file"), UserError);
}
