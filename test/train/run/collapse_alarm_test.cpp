// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/tensors.h"
#include "data/load/loader.h"
#include "support/catch.h"
#include "support/step_setup.h"
#include "support/tensor_checks.h"
#include "train/run/run_metrics.h"
#include "train/step/run_ranks.h"

using namespace gantrain;

namespace {

std::shared_ptr<const Dataset> shapes(int64_t count = 256) {
  DataOptions options;
  options.resolution = square_of(16);
  options.synth_size = count;
  return open_dataset(options);
}

// A generator of 16 pixels whose pictures are what `paint` makes of z and labels.
class Painter final : public Generator {
 public:
  using Paint = std::function<at::Tensor(const at::Tensor& z, const at::Tensor& labels)>;
  explicit Painter(Paint paint, int64_t classes = 0)
      : paint_(std::move(paint)), classes_(classes) {}
  std::shared_ptr<torch::nn::Module> network() override { return nullptr; }
  int64_t z_dim() const override { return 8; }
  int64_t classes() const override { return classes_; }
  at::Tensor images(const at::Tensor& z,
                    const at::Tensor& labels,
                    const SynthesisOptions&) override {
    return paint_(z, labels).clamp(-1, 1);
  }

 private:
  Paint paint_;
  int64_t classes_;
};

// Smooth pictures, each of its own colours.
at::Tensor colours(const at::Tensor& z, const at::Tensor&) {
  return z.narrow(1, 0, 3).view({-1, 3, 1, 1}).expand({z.size(0), 3, 16, 16});
}

at::Tensor pattern() {
  return torch::sin(torch::arange(3 * 16 * 16, at::kFloat)).view({1, 3, 16, 16});
}

EvaluationSubject subject_of(Generator& generator,
                             int64_t reals = 256,
                             const Size& size = square_of(16)) {
  DataOptions data;
  data.resolution = size;
  return {.generator = generator, .dataset = shapes(reals), .data = data, .seed = 1, .cache = {}};
}

double measured(Painter::Paint paint,
                int64_t classes = 0,
                int64_t reals = 256,
                FeatureNetwork* network = nullptr) {
  Painter generator(std::move(paint), classes);
  const auto group = join_on_cpu();
  return Distinctness(*group, subject_of(generator, reals), network).measure({});
}

}  // namespace

TEST_CASE("TheNearestDistanceIsTheMeanOverPictures") {
  const at::Tensor pictures = torch::tensor({{0.0F, 0.0F}, {3.0F, 3.0F}, {4.0F, 4.0F}});
  CHECK(nearest_distance(pictures) == Approx((3 + 1 + 1) / 3.0));
  CHECK(nearest_distance(torch::zeros({5, 3, 4, 4})) == 0);
}

TEST_CASE("AGeneratorThatIgnoresZMakesNothingDistinct") {
  const auto same = [](const at::Tensor& z, const at::Tensor&) {
    return pattern().expand({z.size(0), 3, 16, 16});
  };
  CHECK(measured(same) == 0);
  CHECK(measured(colours) > 0.3);
}

TEST_CASE("AHandfulOfVeryDifferentPicturesIsNotDistinct") {
  const auto four = [](const at::Tensor& z, const at::Tensor&) {
    const at::Tensor sign = z.narrow(1, 0, 2).sign().view({-1, 2, 1, 1});
    return pattern() * sign.narrow(1, 0, 1) + 0.5 * sign.narrow(1, 1, 1);
  };
  CHECK(measured(four) < 0.01);
}

TEST_CASE("LabelsAloneMakeNothingDistinct") {
  const auto of_label = [](const at::Tensor& z, const at::Tensor& labels) {
    const at::Tensor shade = labels.to(at::kFloat).div(5).sub(1).view({-1, 1, 1, 1});
    return pattern().roll(3).expand({z.size(0), 3, 16, 16}) * shade;
  };
  CHECK(measured(of_label, 10) < 0.01);
  CHECK(measured(of_label, 1000, /*reals=*/16'000) < 0.01);
}

// Sees the mean of a picture, whatever else is in it.
class SeesShade final : public FeatureNetwork {
 public:
  const std::string& name() const override { return name_; }
  const std::string& sha256() const override { return name_; }
  at::Tensor features(const at::Tensor& pictures) override {
    return pictures.mean({1, 2, 3}).view({-1, 1});
  }

 private:
  std::string name_ = "shade";
};

TEST_CASE("PicturesThatANetworkCannotTellApartAreNotDistinct") {
  SeesShade network;
  // Noise of its own in each picture, whose mean is 0.
  const auto noise = [](const at::Tensor& z, const at::Tensor&) {
    const at::Tensor directions = 20 * torch::sin(torch::arange(3 * 768.0)).to(at::kFloat);
    const at::Tensor x = torch::sin(z.narrow(1, 0, 3).mm(directions.view({3, 768})));
    return (0.6 * (x - x.mean(1, true))).view({-1, 3, 16, 16});
  };
  CHECK(measured(noise) > 0.3);
  CHECK(measured(noise, 0, 256, &network) < 0.05);
  CHECK(measured(colours, 0, 256, &network) > 0.3);
}

TEST_CASE("NothingIsSaidOfDataThatHasFewPictures") {
  for (const int64_t few : {1, 20, 99}) {
    CAPTURE(few);
    CHECK(std::isnan(measured(colours, 0, few)));
  }
  CHECK(measured(colours, 0, 100) > 0.3);
  CHECK(std::isnan(measured(colours, /*classes=*/40, /*reals=*/639)));
  CHECK(measured(colours, 40, 640) > 0.3);
}

TEST_CASE("AHundredPicturesKnownByHeartAreNoCollapse") {
  constexpr int64_t kReals = 100;
  std::vector<WantedPicture> wanted;
  for (int64_t i = 0; i < kReals; ++i) wanted.push_back({i});
  const at::Tensor reals = load_planes(*shapes(kReals), wanted).to(at::kFloat).div(127.5).sub(1);
  const auto known = [&](const at::Tensor& z, const at::Tensor&) {
    const at::Tensor share = torch::erf(z.select(1, 0) / std::sqrt(2.0)).add(1).div(2);
    return reals.index_select(0, share.mul(kReals).clamp(0, kReals - 1).to(at::kLong));
  };
  CHECK(measured(known, 0, kReals) > 0.4);
}

// A generator of pictures of a million pixels would need tens of gigabytes for 16 of them.
TEST_CASE("LargePicturesAreMadeAFewAtATime") {
  int64_t most = 0;
  Painter generator([&most](const at::Tensor& z, const at::Tensor& labels) {
    most = std::max(most, z.size(0));
    return colours(z, labels);
  });
  const auto group = join_on_cpu();
  const auto measure = [&](const Size& said) {
    return Distinctness(*group, subject_of(generator, 256, said)).measure({});
  };
  const double of_small = measure(square_of(16));
  CHECK(most == 16);
  for (const Size& size : {square_of(1024), Size{384, 376}}) {
    most = 0;
    CHECK(measure(size) == of_small);
    CHECK(most <= 4);
  }
}

TEST_CASE("AnyNumberOfRanksMeasuresTheSame") {
  const auto measure = [](const Rendezvous& r) {
    Painter generator(colours);
    const auto group = join_on_cpu(r);
    Distinctness distinctness(*group, subject_of(generator));
    return NamedTensors{{"first", torch::tensor(distinctness.measure({}), at::kDouble)},
                        {"again", torch::tensor(distinctness.measure({}), at::kDouble)}};
  };
  const TensorsByName alone = result_of_ranks(1, measure);
  CHECK(alone.at("first").item<double>() == alone.at("again").item<double>());
  check_same_bits(result_of_ranks(3, measure), alone);
  check_same_bits(result_of_ranks(6, measure), alone);
}

TEST_CASE("TheAlarmNeedsSomeMeasurementsInARow") {
  CollapseOptions options;
  options.below = 0.1;
  options.times = 3;
  options.after = Kimg{0};
  CollapseAlarm alarm(options);
  for (const double fine : {0.05, 0.05, 0.2, 0.05, 0.09, 0.1}) {
    CHECK_FALSE(alarm.begins_with(fine, 1000));
    CHECK_FALSE(alarm.is_on());
  }
  CHECK_FALSE(alarm.begins_with(0.01, 1000));
  CHECK_FALSE(alarm.begins_with(std::nan(""), 1000));  // nothing is known
  CHECK_FALSE(alarm.begins_with(0.01, 1000));
  CHECK_FALSE(alarm.begins_with(0.01, 1000));
  CHECK(alarm.begins_with(0.01, 1000));
  CHECK(alarm.is_on());
  CHECK_FALSE(alarm.begins_with(0.01, 1000));  // it is said once
  CHECK(alarm.is_on());
  CHECK_FALSE(alarm.begins_with(0.5, 1000));
  CHECK_FALSE(alarm.is_on());
}

// What stylegan2-tiny reported at 16 pixels in each kimg, without augmentation.
TEST_CASE("RunsThatCollapsedAreNamedAndHealthyOnesAreNot") {
  CollapseOptions options;
  options.after = Kimg{2000};
  const auto begins_at = [&](const std::vector<double>& curve) {
    CollapseAlarm alarm(options);
    for (size_t i = 0; i < curve.size(); ++i) {
      if (alarm.begins_with(curve[i], 1000 * static_cast<int64_t>(i + 1))) return i + 1;
    }
    return size_t{0};
  };
  // G's rate 0.05, D's 1e-5, with features of EfficientNet-Lite0: all pictures one and the same.
  CHECK(begins_at({0.07, 0.032, 0.018, 0.012, 0.013, 0.017, 0.017}) == 4);
  // G's rate 0.02, D's 1e-4: 64 pictures that the eye cannot tell apart, MS-SSIM 0.98.
  CHECK(begins_at({0.371, 0.353, 0.268, 0.191, 0.214, 0.209, 0.25, 0.226, 0.216}) == 6);
  // The presets' rates: icons of 32 pixels at every fourth kimg, whose least value this is.
  CHECK(begins_at({0.336, 0.35, 0.385, 0.404, 0.385, 0.404}) == 0);
  CHECK(begins_at({0.01, 0.05, 0.12, 0.14, 0.15, 0.17, 0.2}) == 0);  // still rising
}

TEST_CASE("NetworksThatHaveJustBegunMayBeAlike") {
  CollapseAlarm alarm({});
  const int64_t after = CollapseOptions{}.after.images;
  for (int64_t i = 0; i < 10; ++i) CHECK_FALSE(alarm.begins_with(0.001, after - 1));
  CHECK_FALSE(alarm.begins_with(0.001, after));
  CHECK_FALSE(alarm.begins_with(0.001, after));
  CHECK(alarm.begins_with(0.001, after));
}
