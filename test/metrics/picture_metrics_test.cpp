// SPDX-License-Identifier: Apache-2.0
#include "metrics/picture_metrics.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "metrics/toy_detector.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_checks.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Tensors = std::map<std::string, at::Tensor>;

Tensors ssim_fixture(int64_t resolution) {
  return load_safetensors(fixtures_folder() + "/metrics_images" + std::to_string(resolution) +
                          ".safetensors")
      .tensors;
}

// Of all of the uint8 pictures in memory.
double ms_ssim(const at::Tensor& images) {
  TensorPictures pictures(images);
  return gantrain::ms_ssim(pictures, images.size(0));
}

std::vector<double> three() { return ms_ssim_weights(32); }

TEST_CASE("MsSsimMatchesReference") {
  const int64_t resolution = GENERATE(32, 64);
  const Tensors f = ssim_fixture(resolution);
  const at::Tensor reals = f.at("reals");
  const at::Tensor even = reals.slice(0, 0, reals.size(0), 2);
  const at::Tensor odd = reals.slice(0, 1, reals.size(0), 2);
  const auto wanted = [&](const std::string& key) {
    return Approx(f.at(key).item<double>()).margin(1e-5).epsilon(0);
  };
  const auto mean = [](const at::Tensor& pairs) { return pairs.mean().item<double>(); };

  CHECK(mean(ms_ssim_pairs(even, odd, three())) == wanted("msssim_w3_random_pairs"));
  CHECK(mean(ms_ssim_pairs(reals, f.at("near"), three())) == wanted("msssim_w3_near"));
  if (resolution == 64) {
    CHECK(mean(ms_ssim_pairs(even, odd, ms_ssim_weights(64))) == wanted("msssim_w5_random_pairs"));
    CHECK(mean(ms_ssim_pairs(reals, f.at("near"), ms_ssim_weights(64))) ==
          wanted("msssim_w5_near"));
  }
  const std::string stored = resolution == 64 ? "msssim_w5_random_pairs" : "msssim_w3_random_pairs";
  CHECK(ms_ssim(reals) == wanted(stored));
}

TEST_CASE("SsimOfOneScaleMatchesReference") {
  const Tensors f = ssim_fixture(GENERATE(32, 64));
  const at::Tensor reals = f.at("reals");
  const Similarity got =
      ssim(reals.slice(0, 0, reals.size(0), 2), reals.slice(0, 1, reals.size(0), 2));
  CHECK((got.ssim - f.at("ssim_level0")).abs().max().item<double>() < 1e-5);
  CHECK((got.cs - f.at("cs_level0")).abs().max().item<double>() < 1e-5);
}

TEST_CASE("MsSsimOfAPictureWithItselfIsOne") {
  const int64_t side = GENERATE(4, 8, 16, 32, 64, 100);
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const at::Tensor one = at::randint(0, 256, {1, channels, side, side}, at::kByte);
  CHECK(ms_ssim(one.repeat({6, 1, 1, 1})) == Approx(1).epsilon(1e-12));
}

TEST_CASE("MsSsimIsLowerForADiverseSet") {
  const at::Tensor base = at::randint(0, 256, {1, 3, 32, 32}, at::kByte);
  const at::Tensor alike =
      base.repeat({8, 1, 1, 1}).bitwise_xor(at::randint(0, 16, {8, 3, 32, 32}, at::kByte));
  const at::Tensor diverse = at::randint(0, 256, {8, 3, 32, 32}, at::kByte);
  CHECK(ms_ssim(diverse) < ms_ssim(alike));
}

TEST_CASE("MsSsimDoesNotDependOnItsChunks") {
  const at::Tensor images = at::randint(0, 256, {90, 1, 16, 16}, at::kByte);
  const at::Tensor even = images.slice(0, 0, 90, 2), odd = images.slice(0, 1, 90, 2);
  const double whole = ms_ssim_pairs(even, odd, ms_ssim_weights(16)).mean().item<double>();
  CHECK(ms_ssim(images) == Approx(whole).epsilon(1e-12));
}

}  // namespace

using at::Tensor;

namespace {

double error(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

void check(const MovedPictures& mine, const TensorFile& file, const std::string& name) {
  CAPTURE(name);
  CHECK(error(mine.pictures, file.tensors.at(name + "/z")) < 2e-5);
  CHECK(torch::equal(mine.mask, file.tensors.at(name + "/mask")));
}

}  // namespace

TEST_CASE("MovedPicturesAreTheReferences") {
  const TensorFile file = fixture("sg3_eq");
  const auto cases = nlohmann::json::parse(file.metadata.at("cases"));
  const Tensor& x = file.tensors.at("in/x");
  const auto size = static_cast<double>(x.size(3));
  const auto name = [](const char* kind, size_t i) { return kind + std::to_string(i); };
  for (size_t i = 0; i < cases["int"].size(); ++i) {
    const auto& t = cases["int"][i];
    check(shifted_by_pixels(
              x, std::llround(t[0].get<double>() * size), std::llround(t[1].get<double>() * size)),
          file,
          name("int", i));
  }
  for (size_t i = 0; i < cases["frac"].size(); ++i) {
    const auto& t = cases["frac"][i];
    check(shifted(x, t[0].get<double>() * size, t[1].get<double>() * size), file, name("frac", i));
  }
  for (size_t i = 0; i < cases["angles"].size(); ++i) {
    const double angle = cases["angles"][i];
    CHECK(error(rotation_filter(angle, 4), file.tensors.at(name("rot", i) + "/filter")) < 2e-5);
    CHECK(error(rotation_filter(-angle, 1), file.tensors.at(name("pseudo", i) + "/filter")) < 2e-5);
    check(rotated(x, angle), file, name("rot", i));
    check(pseudo_rotated(x, angle), file, name("pseudo", i));
  }
}

// Shifts that move everything out leave nothing to compare.
TEST_CASE("ShiftsBeyondThePictureAreZero") {
  const Tensor x = torch::ones({1, 1, 4, 4});
  for (const MovedPictures& moved : {shifted_by_pixels(x, 4, 0), shifted_by_pixels(x, -9, 2)}) {
    CHECK(moved.pictures.abs().max().item<double>() == 0);
    CHECK(moved.mask.sum().item<double>() == 0);
  }
}

}  // namespace gantrain
