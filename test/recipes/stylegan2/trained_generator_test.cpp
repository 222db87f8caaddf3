// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;
using Catch::Contains;
using stylegan2::Pair;
using stylegan2::Tensor;
using stylegan2::Tensors;

namespace {

std::unique_ptr<gantrain::Generator> loaded(const Tensors& tensors, const Json& model = {}) {
  auto generator = stylegan2::row().make_generator(model, tensors, "file");
  generator->load(tensors, "file");
  return generator;
}

}  // namespace

TEST_CASE("ATrainedGeneratorMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    for (const bool with_model : {true, false}) {
      const Pair p(name, "io");
      CHECK(stylegan2::row().recognises(p.G_tensors));
      const auto G = loaded(p.G_tensors, with_model ? to_json(p.G_shape) : Json());
      CHECK(G->z_dim() == 64);
      CHECK(G->w_dim() == 64);
      CHECK(G->num_ws() == 8);
      CHECK(G->has_noise());
      CHECK(G->classes() == (name == "cond32" ? 10 : 0));
      const Tensor z = p["in/z"], labels = p.labels("in/c");
      SynthesisOptions options;
      const auto images = [&] { return G->images(z, labels, options); };
      CHECK(scaled_error(images(), p["out/img_const"]) < 5e-5);
      CHECK_FALSE(images().requires_grad());
      options.trunc = 0.7;
      CHECK(scaled_error(images(), p["out/img_const_psi0.7"]) < 5e-5);
      options.noise = NoiseMode::kNone;
      CHECK(scaled_error(images(), p["out/img_none_psi0.7"]) < 5e-5);
      options.trunc = 0.5;
      options.trunc_cutoff = 3;
      CHECK(scaled_error(G->map(z, labels, options), p["out/ws_psi0.5_cutoff3"]) < 5e-5);
      CHECK(torch::equal(G->synthesize(G->map(z, labels, options), options), images()));
    }
  }
}

TEST_CASE("RandomNoiseDependsOnItsSeedNotOnTheBatch") {
  const Pair p("uncond32", "io");
  const auto G = loaded(p.G_tensors);
  SynthesisOptions options;
  options.noise = NoiseMode::kRandom;
  const Tensor all = G->images(p["in/z"], {}, options);
  const Tensor third = G->images(p["in/z"].narrow(0, 2, 1), {}, options);
  CHECK(scaled_error(third[0], all[2]) < 1e-5);
  CHECK(torch::equal(G->images(p["in/z"], {}, options), all));
  options.noise_seed = 1;
  CHECK(scaled_error(G->images(p["in/z"], {}, options), all) > 1e-3);
}

TEST_CASE("BuffersThatCanBeHadOtherwiseMayBeMissing") {
  const Pair p("uncond32", "io");
  Tensors tensors = p.G_tensors;
  for (auto at = tensors.begin(); at != tensors.end();) {
    const bool buffer = at->first.find("resample_filter") != std::string::npos ||
                        at->first.find("noise_const") != std::string::npos ||
                        at->first == "mapping.w_avg";
    at = buffer ? tensors.erase(at) : std::next(at);
  }
  const auto G = loaded(tensors);
  SynthesisOptions options;
  options.noise = NoiseMode::kNone;
  CHECK(scaled_error(G->images(p["in/z"], {}, options), p["out/img_none"]) < 5e-5);
  // The mean of w is the mean of 8192: compare with that of others.
  options.trunc = 0;
  const Tensor mean = G->map(p["in/z"], {}, options)[0][0];
  options.trunc = 1;
  const Tensor z = normal(Stream(9, "z"), {0, 1, 4096}, {64});
  const Tensor others = G->map(z, {}, options).select(1, 0);
  const Tensor deviation = (others.mean(0) - mean) / others.std(0);
  CHECK(deviation.abs().max().item<double>() < 0.1);
  // Constant noise is drawn: as strong as the file's own, and the same in every load.
  const Tensor noisy = G->images(p["in/z"], {}, {});
  CHECK(scaled_error(noisy, p["out/img_none"]) > 1e-3);
  CHECK(torch::equal(loaded(tensors)->images(p["in/z"], {}, {}), noisy));
}

TEST_CASE("ANetworkWithoutNoiseLoads") {
  const Pair p("uncond32", "io");
  Tensors tensors = p.G_tensors;
  for (auto at = tensors.begin(); at != tensors.end();)
    at = at->first.find("noise_") != std::string::npos ? tensors.erase(at) : std::next(at);
  CHECK(scaled_error(loaded(tensors)->images(p["in/z"], {}, {}), p["out/img_none"]) < 5e-5);
}

TEST_CASE("MissingAndMisshapenTensorsAreNamed") {
  const Pair p("cond32", "io");
  for (const char* name :
       {"synthesis.b8.conv0.weight", "synthesis.b16.conv1.affine.bias", "mapping.fc3.bias"}) {
    Tensors tensors = p.G_tensors;
    tensors.erase(name);
    CHECK_THROWS_WITH(loaded(tensors), Contains(name) && Contains("file"));
    tensors[name] = torch::zeros({3});
    CHECK_THROWS_WITH(loaded(tensors), Contains(name));
  }
  CHECK_FALSE(stylegan2::row().recognises({}));
  CHECK_THROWS_AS(stylegan2::row().make_generator({}, {}, "file"), UserError);
}

TEST_CASE("AConditionalGeneratorNeedsAClass") {
  const Pair p("cond32", "io");
  const auto G = loaded(p.G_tensors);
  CHECK_THROWS_WITH(G->images(p["in/z"], {}, {}), Contains("10 classes"));
}

TEST_CASE("PicturesAreMadeInFloat32") {
  const Pair p("uncond32", "io");
  stylegan2::GeneratorShape s = p.G_shape;
  s.synthesis.num_fp16_res = 4;
  const auto G = loaded(p.G_tensors, to_json(s));
  const auto& net = dynamic_cast<stylegan2::Generator&>(*G->network());
  for (const auto& block : net.synthesis->blocks) CHECK_FALSE(block->half);
  CHECK_FALSE(net.is_training());
  to_device(*G->network(), at::kCPU, at::kDouble);
  const Tensor images = G->images(p["in/z"], {}, {});
  CHECK(images.scalar_type() == at::kFloat);
  CHECK(scaled_error(images, p["out/img_const"]) < 5e-5);
}
