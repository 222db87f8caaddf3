// SPDX-License-Identifier: Apache-2.0
#include "nn/lite0_file.h"

#include <functional>

#include "core/tensor_files.h"
#include "core/tensors.h"
#include "nn/lite0.h"
#include "nn/lite0_release.h"
#include "support/catch.h"
#include "support/lite0_weights.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "support/zip_writer.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (text.starts_with(from)) text.replace(0, from.size(), to);
  return text;
}

// The names that timm has for the stages "layerM.P.".
const std::vector<std::pair<std::string, std::string>> kTimm = {{"layer0.0.", "conv_stem."},
                                                                {"layer0.1.", "bn1."},
                                                                {"layer0.3.", "blocks.0."},
                                                                {"layer0.4.", "blocks.1."},
                                                                {"layer1.0.", "blocks.2."},
                                                                {"layer2.0.", "blocks.3."},
                                                                {"layer2.1.", "blocks.4."},
                                                                {"layer3.0.", "blocks.5."},
                                                                {"layer3.1.", "blocks.6."}};

// A network of drawn weights as timm names them.
std::map<std::string, at::Tensor> timm_network() {
  Lite0 net;
  Lite0Head head;
  std::map<std::string, at::Tensor> all;
  uint64_t seed = 0;
  for (const NamedTensors& some : {state_of(net), state_of(head)}) {
    for (const auto& [name, tensor] : some) {
      std::string timm = name;
      for (const auto& [from, to] : kTimm) timm = replaced(timm, from, to);
      all[timm] = tensor.is_floating_point() ? normal_like(tensor, ++seed, name).abs() : tensor;
    }
  }
  all["classifier.weight"] = at::zeros({1000, 1280});
  all["classifier.bias"] = at::zeros({1000});
  return all;
}

void save(const TemporaryFolder& folder, const std::map<std::string, at::Tensor>& tensors) {
  save_safetensors(folder / "net.safetensors", {tensors.begin(), tensors.end()}, {});
}

std::string refusal(const std::filesystem::path& file) {
  return input_error([&] { read_lite0(file); });
}

}  // namespace

TEST_CASE("SafetensorsWithTimmsNamesAreReadAndSaidToBeOfOtherOrigin") {
  const TemporaryFolder folder;
  const auto tensors = timm_network();
  REQUIRE(tensors.size() == 296);  // as the published file has
  save(folder, tensors);
  const Lite0Weights weights = read_lite0(folder / "net.safetensors");
  CHECK(weights.tensors.size() == 296);
  CHECK(torch::equal(weights.tensors.at("layer3.0.3.conv_pwl.weight"),
                     tensors.at("blocks.5.3.conv_pwl.weight")));
  CHECK_FALSE(weights.published);
  CHECK_THAT(describe(weights), Catch::Contains("of another origin"));
  Lite0 net;
  CHECK_NOTHROW(load_into(net, weights.tensors, "net"));
}

TEST_CASE("WeightsThatDoNotFitAreRefusedByFileAndTensor") {
  const TemporaryFolder folder;
  const auto whole = timm_network();
  using Change = std::function<void(std::map<std::string, at::Tensor>&)>;
  const std::vector<std::pair<std::string, Change>> table = {
      {"blocks.3.1.bn2.bias", [](auto& t) { t.erase("blocks.3.1.bn2.bias"); }},
      {"blocks.3.1.bn2.bias", [](auto& t) { t["blocks.3.1.bn2.bias"] = at::zeros({17}); }},
      {"blocks.7.0.conv_pw.weight",
       [](auto& t) { t["blocks.7.0.conv_pw.weight"] = at::zeros({1}); }},
      {"conv_head.weight", [](auto& t) { t["conv_head.weight"] = t["conv_head.weight"] * NAN; }},
      {"blocks.3.1.bn2.running_var",
       [](auto& t) { t["blocks.3.1.bn2.running_var"].flatten()[3] = -1; }},
      {"conv_stem.weight",
       [](auto& t) {
         t["conv_stem.weight"] = at::zeros({32, 3, 3, 3}, at::kLong);
       }},
      {"bn2.bias", [](auto& t) {
         t = {{"synthesis.weight", at::zeros({1})}};
       }}};
  for (const auto& [tensor, change] : table) {
    CAPTURE(tensor);
    auto damaged = whole;
    for (auto& item : damaged) item.second = item.second.clone();
    change(damaged);
    save(folder, damaged);
    const std::string said = refusal(folder / "net.safetensors");
    CHECK_THAT(said, Catch::Contains("net.safetensors") && Catch::Contains(tensor));
  }
}

TEST_CASE("FilesThatAreNoWeightsAreRefusedByName") {
  const TemporaryFolder folder;
  save(folder, timm_network());
  const std::string content = read_file(folder / "net.safetensors");
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"cut.safetensors", content.substr(0, content.size() / 2), "truncated"},
      {"text.pth", "no network", "SHA-256"},
      {"empty.pth", "", "SHA-256"},
      {"page.pth", "<!doctype html>", "a web page"},
      {"other.pth", "\x80\x02}.", "another file, or damaged"},
      {"other.whl", write_zip({{"a.txt", "b"}}, true), kLite0Member},
      {"fake.whl", write_zip({{kLite0Member, "\x80\x02}."}}, true), "SHA-256"},
      {"cut.whl", write_zip({{kLite0Member, "\x80\x02}."}}, true).substr(0, 60), "cut.whl"}};
  for (const auto& [name, bytes, reason] : table) {
    CAPTURE(name);
    write_file(folder / name, bytes);
    CHECK_THAT(refusal(folder / name), Catch::Contains(name) && Catch::Contains(reason));
  }
  CHECK_THAT(refusal(folder / "none.pth"), Catch::Contains("none.pth"));
}

TEST_CASE("ThePublishedWeightsAreKnownInEveryForm") {
  const std::string file = published_lite0();
  if (file.empty()) return;
  const Lite0Weights weights = read_lite0(file);
  CHECK(weights.published);
  CHECK(weights.tensors.size() == 296);
  CHECK_THAT(describe(weights), Catch::Contains("the published weights"));
  const TemporaryFolder folder;
  std::map<std::string, at::Tensor> timm;
  for (const auto& [name, tensor] : weights.tensors) {
    std::string as_timm = name;
    for (const auto& [from, to] : kTimm) as_timm = replaced(as_timm, from, to);
    timm[as_timm] = tensor;
  }
  save(folder, timm);
  CHECK(read_lite0(folder / "net.safetensors").published);
  timm["conv_stem.weight"].flatten()[0] += 1e-3;
  save(folder, timm);
  CHECK_FALSE(read_lite0(folder / "net.safetensors").published);
}
