// SPDX-License-Identifier: Apache-2.0
#include "nn/lite0.h"

#include <filesystem>

#include "core/tensors.h"
#include "nn/lite0_file.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "support/lite0_weights.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

using Maps = std::array<at::Tensor, 4>;

const Lite0Shape kNarrow = {.stem = 8, .widths = {4, 8, 8, 12, 16, 16, 24}};
const std::string kOfficial = "D/feature_network.pretrained.";

at::Tensor as_picture(const at::Tensor& bytes) { return bytes.to(at::kFloat) / 127.5 - 1; }

Lite0 narrow() {
  Lite0 net(kNarrow);
  load_into(net, fixture("proj_features").tensors, "proj_features", kOfficial);
  return net;
}

at::Tensor first(const at::Tensor& batch) { return batch.narrow(0, 0, 1); }

at::Tensor mean_of(const at::Tensor& map) { return map.mean({2, 3}); }
at::Tensor rms_of(const at::Tensor& map) { return map.square().mean({2, 3}).sqrt(); }

}  // namespace

TEST_CASE("PaddingIsTensorFlowsSame") {
  const auto padding = [](int64_t n, int64_t k, int64_t s) {
    const SamePadding p = same_padding(n, k, s);
    return std::pair(p.before, p.after);
  };
  CHECK(padding(224, 3, 1) == std::pair<int64_t, int64_t>(1, 1));
  CHECK(padding(224, 5, 1) == std::pair<int64_t, int64_t>(2, 2));
  CHECK(padding(224, 3, 2) == std::pair<int64_t, int64_t>(0, 1));
  CHECK(padding(224, 5, 2) == std::pair<int64_t, int64_t>(1, 2));
  CHECK(padding(37, 3, 2) == std::pair<int64_t, int64_t>(1, 1));
  CHECK(padding(7, 5, 2) == std::pair<int64_t, int64_t>(2, 2));
  CHECK(padding(8, 1, 1) == std::pair<int64_t, int64_t>(0, 0));
}

TEST_CASE("NamesOfANarrowNetworkAreTheOfficialOnesAndNoMore") {
  std::set<std::string> official, own;
  for (const auto& item : fixture("proj_features").tensors) {
    if (item.first.starts_with(kOfficial)) official.insert(item.first.substr(kOfficial.size()));
  }
  for (const auto& item : state_of(Lite0(kNarrow))) own.insert(item.first);
  CHECK(own == official);
}

TEST_CASE("MapsOfANarrowNetworkAreTheOfficialOnes") {
  const Lite0 net = narrow();
  const TensorFile io = fixture("proj_features_io");
  const Maps maps = net.maps(as_picture(io.tensors.at("in/x_u8")));
  CHECK(scaled_error(first(maps[0]), io.tensors.at("out/backbone0_sample0")) < 5e-6);
  for (const int i : {1, 2, 3}) {
    CAPTURE(i);
    CHECK(scaled_error(maps[i], io.tensors.at(fmt::format("out/backbone{}", i))) < 5e-6);
  }
}

// 1x1 convolutions with biases after it give the fixture's gradient: the projections are the
// recipe's, so this test has them in plain operators.
TEST_CASE("TheGradientGoesToThePictureAlone") {
  const Lite0 net = narrow();
  const TensorFile weights = fixture("proj_features"), io = fixture("proj_features_io");
  at::Tensor x = as_picture(io.tensors.at("in/x_u8")).requires_grad_();
  const Maps maps = net.maps(x);
  at::Tensor y, loss = at::zeros({});
  for (int i = 3; i >= 0; --i) {
    const auto project = [&](const at::Tensor& in, const std::string& layer) {
      const std::string name = fmt::format("D/feature_network.scratch.layer{}_{}.", i, layer);
      return at::conv2d(in, weights.tensors.at(name + "weight"), weights.tensors.at(name + "bias"));
    };
    const at::Tensor ccm = project(maps[i], "ccm");
    const at::Tensor sum = y.defined() ? ccm + y : ccm;
    y = project(at::upsample_bilinear2d(sum, {2 * sum.size(2), 2 * sum.size(3)}, true),
                "csm.out_conv");
    loss = loss + y.square().mean() / 2;
  }
  loss.backward();
  CHECK(scaled_error(x.grad(), io.tensors.at("d_x")) < 1e-5);
  for (const auto& [name, tensor] : state_of(net)) {
    CAPTURE(name);
    CHECK_FALSE(tensor.requires_grad());
  }
  CHECK(net.parameters().empty());
}

TEST_CASE("TheModuleStaysFrozenInTrainingMode") {
  Lite0 net = narrow();
  const at::Tensor x = at::randn({2, 3, 32, 32});
  const at::Tensor before = net.maps(x)[3];
  net.train();
  CHECK(torch::equal(net.maps(x)[3], before));
  CHECK(torch::equal(net.maps(x)[3], before));  // the pass before moved nothing
}

TEST_CASE("MapsHaveAFourthAnEighthASixteenthAndAThirtySecondOfAnySize") {
  const Lite0 net = narrow();
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>(64, 32), {33, 50}, {1, 7}}) {
    const Maps maps = net.maps(at::zeros({1, 3, height, width}));
    for (int i = 0; i < 4; ++i) {
      const int64_t stride = int64_t{4} << i;
      CHECK(maps[i].size(1) == kNarrow.map_channels()[i]);
      CHECK(maps[i].size(2) == (height + stride - 1) / stride);
      CHECK(maps[i].size(3) == (width + stride - 1) / stride);
    }
  }
}

TEST_CASE("RandomFeaturesDependOnTheSeedAloneAndNeitherVanishNorExplode") {
  Lite0 net(kNarrow), same(kNarrow), other(kNarrow);
  net.initialise(1);
  same.initialise(1);
  other.initialise(2);
  CHECK(sha256_of(state_of(net)) == sha256_of(state_of(same)));
  CHECK(sha256_of(state_of(net)) != sha256_of(state_of(other)));
  const Maps maps = net.maps(at::randn({4, 3, 64, 64}).clamp_(-1, 1));
  for (const at::Tensor& map : maps) {
    const double deviation = map.std().item<double>();
    CHECK(deviation > 0.1);
    CHECK(deviation < 10);
  }
}

TEST_CASE("ThePublishedNetworkIsTheReferences") {
  const std::string file = published_lite0();
  if (file.empty()) return;
  const Lite0Weights weights = read_lite0(file);
  CoveredFixture io("proj_lite0");
  for (const bool probed : {false, true}) {
    Lite0 net;
    Lite0Head head;
    load_into(net, weights.tensors, file);
    load_into(head, weights.tensors, file);
    if (probed) net.probe();
    const auto now = tensors_of(net);
    for (const std::string& key : io.keys()) {
      const std::string begin = "probed_statistics/";
      if (!probed || !key.starts_with(begin)) continue;
      CAPTURE(key);
      CHECK(scaled_error(now.at(key.substr(begin.size())), io[key]) < 1e-5);
    }
    for (const std::string size : {"37x50", "64x64", "at224"}) {
      const std::string out = (probed ? "out/probed/" : "out/") + size + "/";
      const std::string in = size == "at224" ? "64x64" : size;
      at::Tensor x = as_picture(io["in/" + in + "/x_u8"]);
      if (size == "at224") x = at::upsample_bilinear2d(x, {224, 224}, false);
      x.requires_grad_();
      const Maps maps = net.maps(x);
      at::Tensor loss = at::zeros({});
      const auto check = [&](const std::string& name, const at::Tensor& value) {
        if (!io.has(out + name)) return;
        CAPTURE(out + name);
        CHECK(scaled_error(value, io[out + name]) < 5e-5);
      };
      for (int i = 0; i < 4; ++i) {
        const std::string layer = fmt::format("layer{}", i);
        const at::Tensor map = maps[i].detach();
        check(layer, map);
        check(layer + "_mean", mean_of(map));
        check(layer + "_rms", rms_of(map));
        check(layer + "_corner", map.slice(1, 0, 8).slice(2, 0, 7).slice(3, 0, 7));
        loss = loss + maps[i].square().mean() / 2 / std::pow(4, i);
      }
      const at::Tensor pooled = head.forward(maps[3].detach());
      check("pooled", pooled);
      const at::Tensor logits = at::linear(
          pooled, weights.tensors.at("classifier.weight"), weights.tensors.at("classifier.bias"));
      check("class_logits_first50", logits.slice(1, 0, 50));
      if (!io.has(out + "d_x")) continue;
      loss.backward();
      CHECK(scaled_error(x.grad(), io[out + "d_x"]) < 1e-4);
    }
  }
  CHECK(io.unused() == std::vector<std::string>{});
}
