// SPDX-License-Identifier: Apache-2.0
// Bandlimits, sizes and filters of the layers, and the filters' design: Karras et al. 2021, app. C.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "support/tensor_checks.h"
#include "util/text.h"

using namespace gantrain;
using namespace gantrain::stylegan3;
using at::Tensor;

namespace {

Json cases() { return Json::parse(fixture("sg3_filters").metadata.at("cases")); }

SynthesisShape shape_of(const Json& one) {
  SynthesisShape s;
  s.img_resolution = one["img_resolution"];
  s.num_layers = one["num_layers"];
  s.channel_base = one.value("cb", s.channel_base);
  s.channel_max = one.value("cm", s.channel_max);
  s.conv_kernel = one.value("k", s.conv_kernel);
  s.use_radial_filters = one.value("radial", false);
  return s;
}

Tensor of(const std::vector<double>& values, at::IntArrayRef shape) {
  return torch::tensor(values, at::kDouble).reshape(shape);
}

double absolute_error(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// A column of the plan by its name in the fixture.
std::vector<double> column(const std::vector<LayerPlan>& layers, const std::string& name) {
  std::vector<double> values;
  const auto taps = [](const std::optional<LowPass>& f) { return f ? f->taps : int64_t{1}; };
  for (const LayerPlan& p : layers) {
    const std::map<std::string, double> row = {{"cutoff", p.out.cutoff},
                                               {"stopband", p.out.stopband},
                                               {"half_width", p.out.half_width},
                                               {"channels", p.out.channels},
                                               {"sampling_rate", p.out.rate},
                                               {"size", p.out.size},
                                               {"up_factor", p.up},
                                               {"down_factor", p.down},
                                               {"up_taps", taps(p.up_filter)},
                                               {"down_taps", taps(p.down_filter)},
                                               {"down_radial", p.down_is_radial}};
    values.push_back(row.at(name));
  }
  return values;
}

}  // namespace

TEST_CASE("TheScheduleIsTheReferences") {
  CoveredFixture reference("sg3_filters");
  const Json all = cases();
  int compared = 0;
  for (const auto& [name, one] : all.items()) {
    if (!one.contains("img_resolution")) continue;
    const std::vector<LayerPlan> layers = layers_of(shape_of(one));
    for (const std::string& key : reference.keys()) {
      const std::vector<std::string> parts = split(key, '/');
      if (parts[0] != name || parts.size() != 2) continue;
      CAPTURE(key);
      ++compared;
      const Tensor& expected = reference[key];
      if (parts[1] == "padding") {
        for (size_t i = 0; i < layers.size(); ++i) {
          for (int64_t side = 0; side < 4; ++side)
            CHECK(layers[i].padding[static_cast<size_t>(side)] ==
                  expected[static_cast<int64_t>(i)][side].item<int64_t>());
        }
        continue;
      }
      const Tensor mine = of(column(layers, parts[1]), expected.sizes());
      const bool integer = !expected.is_floating_point();
      CHECK(scaled_error(mine, expected) <= (integer ? 0 : 1e-12));
    }
  }
  CHECK(compared == 5 * 12);
}

TEST_CASE("FiltersOfLayersAreTheReferences") {
  CoveredFixture reference("sg3_filters");
  int compared = 0;
  const Json all = cases();
  for (const auto& [name, one] : all.items()) {
    if (!one.contains("img_resolution")) continue;
    const std::vector<LayerPlan> layers = layers_of(shape_of(one));
    for (const std::string& key : reference.keys()) {
      const std::vector<std::string> parts = split(key, '/');
      if (parts[0] != name || parts.size() != 3) continue;
      CAPTURE(key);
      const LayerPlan& p = layers.at(static_cast<size_t>(*parse_int(parts[1].substr(1))));
      const bool up = parts[2] == "up_filter";
      const LowPass& filter = up ? *p.up_filter : *p.down_filter;
      const bool radial = !up && p.down_is_radial;
      const Tensor& expected = reference[key];
      const Tensor taps =
          of(radial ? radial_lowpass(filter) : separable_lowpass(filter), expected.sizes());
      CHECK(absolute_error(taps, expected) < 1e-7);
      ++compared;
    }
  }
  CHECK(compared > 10);
}

TEST_CASE("DesignedFiltersAreTheReferences") {
  CoveredFixture reference("sg3_filters");
  const Json all = cases();
  for (const auto& [name, one] : all.items()) {
    if (!one.contains("numtaps")) continue;
    CAPTURE(name);
    const LowPass filter{one["numtaps"], one["cutoff"], one["width"], one["fs"]};
    const Tensor& expected = reference[name + "/taps"];
    const bool radial = one["radial"];
    const Tensor taps =
        of(radial ? radial_lowpass(filter) : separable_lowpass(filter), expected.sizes());
    CHECK(absolute_error(taps, expected) < 1e-7);
    const double attenuation = kaiser_attenuation(filter);
    const Tensor& window = reference[name + "/atten_beta"];
    CHECK(attenuation == Approx(window[0].item<double>()).epsilon(1e-12));
    CHECK(kaiser_beta(attenuation) ==
          Approx(window[1].item<double>()).epsilon(1e-12).margin(1e-12));
  }
}

TEST_CASE("LayersKeepTheirNamesAtPublishedSizes") {
  const auto names = [](const SynthesisShape& shape) {
    std::string all;
    for (const LayerPlan& p : layers_of(shape)) {
      const size_t cut = p.name.find('_');
      all += (all.empty() ? "" : " ") + p.name.substr(cut + 1);
    }
    return all;
  };
  SynthesisShape t256;
  CHECK(names(t256) ==
        "36_512 36_512 36_512 52_512 52_512 84_512 84_512 148_512 148_512 148_362 276_256 276_181 "
        "276_128 256_128 256_3");
  SynthesisShape t1024;
  t1024.img_resolution = 1024;
  CHECK(
      names(t1024) ==
      "36_512 36_512 52_512 52_512 84_512 148_512 148_512 276_323 276_203 532_128 1044_81 1044_51 "
      "1044_32 1024_32 1024_3");
}
