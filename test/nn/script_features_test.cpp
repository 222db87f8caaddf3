// SPDX-License-Identifier: Apache-2.0
#include "nn/script_features.h"

#include <torch/script.h>

#include <set>

#include "core/tensors.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

using Taps = std::vector<std::string>;

constexpr int64_t kSide = 64;
const Taps kLayers = {"layer1", "layer2", "layer3", "layer4"};

// A module with a 3x3 convolution of that stride.
torch::jit::Module convolution(const std::string& name, int64_t in, int64_t out, int64_t stride) {
  torch::jit::Module module(name);
  module.register_parameter("weight", normal_like(at::zeros({out, in, 3, 3}), 1, name), false);
  module.define("def forward(self, x):\n    return torch.conv2d(x, self.weight, None, [" +
                std::to_string(stride) + ", " + std::to_string(stride) + "], [1, 1])\n");
  return module;
}

// A network of four layers after a stem, with that end of forward(), which has their maps a to d.
torch::jit::Module network(const std::string& end) {
  torch::jit::Module module("Net");
  module.register_module("stem", convolution("Stem", 3, 4, 4));
  module.register_module("layer1", convolution("One", 4, 4, 1));
  module.register_module("layer2", convolution("Two", 4, 6, 2));
  module.register_module("layer3", convolution("Three", 6, 8, 2));
  module.register_module("layer4", convolution("Four", 8, 10, 2));
  module.register_module("idle", convolution("Idle", 8, 10, 2));
  module.define(
      "def forward(self, x, unused: bool = False):\n"
      "    a = self.layer1.forward(self.stem.forward(x))\n    b = self.layer2.forward(a)\n    c = "
      "self.layer3.forward(b)\n"
      "    d = self.layer4.forward(c)\n    " +
      end + "\n");
  return module;
}

// The maps by the layers' own weights.
std::vector<at::Tensor> expected_maps(const at::Tensor& x) {
  const auto run = [](const at::Tensor& in, const char* name, int64_t from, int64_t to, int64_t s) {
    return at::conv2d(in, normal_like(at::zeros({to, from, 3, 3}), 1, name), {}, s, 1);
  };
  const at::Tensor a = run(run(x, "Stem", 3, 4, 4), "One", 4, 4, 1);
  const at::Tensor b = run(a, "Two", 4, 6, 2), c = run(b, "Three", 6, 8, 2);
  return {a, b, c, run(c, "Four", 8, 10, 2)};
}

class Saved {
 public:
  explicit Saved(const torch::jit::Module& module) { module.save(file().string()); }
  std::filesystem::path file() const { return folder_ / "net.pt"; }
  ScriptFeatures open(const Taps& taps) const { return ScriptFeatures(choice(taps)); }
  std::string refusal(const Taps& taps) const {
    return input_error([&] { ScriptFeatures features(choice(taps)); });
  }

 private:
  ScriptFeatures::Choice choice(const Taps& taps) const {
    return {.file = file(), .taps = taps, .side = kSide};
  }
  TemporaryFolder folder_;
};

void check_maps(ScriptFeatures& features) {
  CHECK(features.channels() == std::array<int64_t, 4>{4, 6, 8, 10});
  const at::Tensor x = normal_like(at::zeros({2, 3, kSide, kSide}), 3, "x").requires_grad_();
  const auto maps = features.maps(x);
  const std::vector<at::Tensor> wanted = expected_maps(x);
  for (size_t i = 0; i < maps.size(); ++i) CHECK(torch::equal(maps[i], wanted[i]));
  maps[3].sum().backward();
  CHECK(x.grad().abs().sum().item<double>() > 0);
}

}  // namespace

TEST_CASE("TapsAreSubModulesAndWhatFollowsThemIsNotComputed") {
  const Saved plain(network("return torch.matmul(d.flatten(), torch.zeros([3]))"));  // fails
  ScriptFeatures features = plain.open(kLayers);
  check_maps(features);
  CHECK_THAT(features.description(),
             Catch::Contains("net.pt (TorchScript, SHA-256 ") &&
                 Catch::Contains("layer1 [4, 16, 16]") && Catch::Contains("layer4 [10, 2, 2]"));
  CHECK_THAT(plain.refusal({}), Catch::Contains("cannot look at a picture [1, 3, 64, 64]"));

  torch::jit::Module outer("Outer");
  outer.register_module("body", network("return d"));
  outer.define("def forward(self, x):\n    return self.body.forward(x).sum()\n");
  ScriptFeatures nested =
      Saved(outer).open({"body.layer1", "body.layer2", "body.layer3", "body.layer4"});
  check_maps(nested);
}

TEST_CASE("TapsAreKeysOrPlacesOfWhatIsReturned") {
  for (const auto& [end, taps] : std::vector<std::pair<std::string, Taps>>{
           {"return (a, b, c, d)", {}},
           {"return [a, b, c, d]", {}},
           {"return {\"a\": a, \"b\": b, \"c\": c, \"d\": d}", {}},
           {"return {\"d\": d, \"b\": b, \"x\": x, \"c\": c, \"a\": a}", {"a", "b", "c", "d"}},
           {"return [x, a, b, c, d]", {"1", "2", "3", "4"}},
           {"return (d, [c], a, b, c)", {"2", "3", "4", "0"}}}) {
    CAPTURE(end);
    ScriptFeatures features = Saved(network(end)).open(taps);
    check_maps(features);
  }
}

TEST_CASE("NothingOfTheNetworkIsTrainedAndAllOfItIsInTheState") {
  ScriptFeatures features = Saved(network("return d")).open(kLayers);
  CHECK(features.parameters().empty());
  std::set<std::string> names;
  for (const auto& [name, tensor] : state_of(features)) {
    CHECK_FALSE(tensor.requires_grad());
    names.insert(name);
  }
  CHECK(names.count("layer3.weight") == 1);
  CHECK(names.count("file_sha256") == 1);
  // A state brings weights of its own, which are used from then on, ...
  const at::Tensor x = normal_like(at::zeros({1, 3, kSide, kSide}), 3, "x");
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(features)) {
    if (name == "layer4.weight") tensor.mul_(2);
  }
  CHECK(torch::allclose(features.maps(x)[3], 2 * expected_maps(x)[3]));
  // ... but not of another file.
  ScriptFeatures other = Saved(network("return c")).open(kLayers);
  for (auto& [name, tensor] : state_of(other)) {
    if (name == "file_sha256") tensor.add_(1);
  }
  CHECK_THAT(input_error([&] { other.maps(x); }),
             Catch::Contains("this run began with the features of a file of "));
}

TEST_CASE("NetworksOfTorchsOwnCompilerAreTapped") {
  ScriptFeatures features({.file = fixtures_folder() + "/script_features.pt",
                           .taps = {"layer1", "layer2.norm", "layer3.1", "layer4"},
                           .side = kSide});
  CHECK(features.channels() == std::array<int64_t, 4>{4, 6, 8, 10});
  const auto maps = features.maps(normal_like(at::zeros({3, 3, kSide, kSide}), 3, "x"));
  CHECK(maps[2].sizes() == at::IntArrayRef({3, 8, 4, 4}));
  CHECK(maps[1].min().item<double>() < 0);  // before ReLU, which the others are after
  CHECK(maps[2].min().item<double>() >= 0);
}

TEST_CASE("FeatureFilesThatDoNotFitAreRefusedByFileAndTap") {
  const Saved maps(network("return [a, b, c, d]")), dict(network("return {\"a\": a, \"b\": b}"));
  const Saved one(network("return d")), still(network("return (a.detach(), b, c, d)"));
  const Saved odd(network("return (a, b, torch.zeros([1, 2, 5, 5]), d)"));
  const Saved text(network("return (a, b, c, 7)"));
  const Saved no_numbers(network("return (a, b / 0.0, c, d)"));
  for (const auto& [saved, taps, said] :
       std::vector<std::tuple<const Saved*, Taps, std::vector<std::string>>>{
           {&one, {}, {"forward() returns [1, 10, 2, 2], and 4 maps are needed", "layer1"}},
           {&dict, {}, {"returns 2 values", "a, b, stem, layer1"}},
           {&dict, {"a", "b", "c", "d"}, {"no tap c; there are a, b, stem"}},
           {&maps, {"0", "1", "2", "7"}, {"no tap 7; there are 0, 1, 2, 3, stem"}},
           {&maps, {"layer1", "layer2", "nope", "layer4"}, {"no tap nope; there are 0, 1, 2"}},
           {&maps, {"0", "1", "2", "layer4"}, {"tap layer4 is a sub-module and others are values"}},
           {&maps, {"0", "1"}, {"2 taps are named, and 4 are needed"}},
           {&one, {"layer1", "layer2", "layer3", "idle"}, {"tap idle: forward() does not call"}},
           {&one,
            {"stem", "layer2", "layer4", "layer3"},
            {"tap layer4 is [1, 10, 2, 2] for a picture [1, 3, 64, 64]; map 2 is [1, C, 4, 4]"}},
           {&still, {}, {"tap 0: no gradient goes from it to the picture"}},
           {&odd, {}, {"tap 2 is [1, 2, 5, 5]"}},
           {&no_numbers, {}, {"tap 1: its map of a grey picture has values that are not finite"}},
           {&text, {}, {"tap 3 is Int"}}}) {
    const std::string message = saved->refusal(taps);
    CAPTURE(message);
    CHECK(message.starts_with(saved->file().string() + ": "));
    CHECK(message.find('\n') == std::string::npos);
    for (const std::string& part : said) CHECK_THAT(message, Catch::Contains(part));
  }
  const TemporaryFolder folder;
  write_file(folder / "net.pt", "no program");
  CHECK_FALSE(is_torchscript(folder / "net.pt"));
  CHECK(is_torchscript(maps.file()));
  const std::string whole = read_file(maps.file());
  write_file(folder / "cut.pt", whole.substr(0, whole.size() - 8));
  CHECK(is_torchscript(folder / "cut.pt"));
  CHECK_THAT(input_error([&] { ScriptFeatures features({.file = folder / "cut.pt"}); }),
             Catch::Contains("loaded on cpu: ") && Catch::Contains(" failed") &&
                 !Catch::Contains("frame #"));
  // Of a broken zip its ends alone are read, however long it is.
  const std::string filling(3 << 20, 'x');
  write_file(folder / "long.pt", "PK\x03\x04" + filling + "net/constants.pkl");
  CHECK(is_torchscript(folder / "long.pt"));
  write_file(folder / "long.pt", "PK\x03\x04" + filling + "net/constants.pkl" + filling);
  CHECK_FALSE(is_torchscript(folder / "long.pt"));
  CHECK_THAT(input_error([&] { is_torchscript(folder / "none.pt"); }), Catch::Contains("none.pt"));
  CHECK_THAT(input_error([&] { ScriptFeatures features({.file = folder / "net.pt"}); }),
             Catch::Contains("no TorchScript that can be loaded on cpu"));
  torch::jit::Module needs("Needs");
  needs.define("def forward(self, x, y):\n    return x + y\n");
  CHECK_THAT(Saved(needs).refusal({}), Catch::Contains("forward() needs y beside the pictures"));
  torch::jit::Module gpu("Gpu");
  gpu.define("def forward(self, x):\n    return x.to(torch.device(\"cuda:0\"))\n");
  if (!at::hasCUDA())
    CHECK_THAT(Saved(gpu).refusal({}), Catch::Contains("cannot look at a picture"));
}
