// SPDX-License-Identifier: Apache-2.0
// The table of layers in README.md, read against every #include.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "util/file.h"
#include "util/text.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

// module -> modules that it may include, beside itself.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"util", {}},
      {"config", {"util"}},
      {"launch", {"util"}},
      {"image", {"util"}},
      {"page", {"util", "config", "image"}},
      {"cpu_kernels", {}},
      {"core", {"util"}},
      {"cuda_kernels", {"core", "cpu_kernels"}},
      {"data", {"util", "config", "core", "image"}},
      {"ops", {"util", "core", "cpu_kernels"}},
      {"distributed", {"util", "config", "core"}},
      {"cuda", {"core", "cpu_kernels", "cuda_kernels", "ops", "distributed"}},
      {"ddp_table", {"util", "config", "core", "distributed"}},
      {"nn", {"util", "core", "ops"}},
      {"augment", {"util", "config", "core", "ops"}},
      {"gan", {"util", "config", "core", "ops", "distributed"}},
      {"recipes", {"util", "config", "core", "ops", "nn", "augment", "gan"}},
      {"metrics", {"util", "config", "image", "data", "core", "distributed", "gan"}},
      {"report", {"util", "core", "image"}},
      {"draw", {"util", "config", "launch", "core", "image", "gan", "report"}},
      {"explore",
       {"util", "config", "core", "image", "data", "ops", "gan", "metrics", "report", "draw"}},
      {"exchange", {"util", "config", "core", "gan"}},
      {"curation", {"util", "config", "image", "data"}},
      {"train",
       {"util",
        "config",
        "core",
        "image",
        "data",
        "ops",
        "distributed",
        "nn",
        "gan",
        "metrics",
        "page",
        "report"}},
  };
  return table;
}

struct Source {
  fs::path path;                      // below lib/
  std::vector<std::string> includes;  // "util/file.h", <torch/torch.h> without brackets
};

std::vector<Source> sources() {
  std::vector<Source> all;
  const fs::path lib = fs::path(GANTRAIN_SOURCE) / "lib";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(lib)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
    Source source{fs::relative(entry.path(), lib), {}};
    for (const std::string& line : split(read_file(entry.path()), '\n')) {
      if (!starts_with(line, "#include")) continue;
      const size_t open = line.find_first_of("<\"");
      const size_t close = line.find_first_of(">\"", open + 1);
      source.includes.push_back(line.substr(open + 1, close - open - 1));
    }
    all.push_back(source);
  }
  return all;
}

std::string first_folder(const std::string& path) { return path.substr(0, path.find('/')); }

bool is_torch(const std::string& include) {
  for (const char* prefix : {"torch/", "ATen/", "c10/", "caffe2/"}) {
    if (starts_with(include, prefix)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("AModuleIncludesOnlyWhatStandsAboveIt") {
  REQUIRE(sources().size() > 80);
  for (const Source& source : sources()) {
    const std::string module = first_folder(source.path.string());
    REQUIRE(allowed().count(module) == 1);
    for (const std::string& include : source.includes) {
      const std::string other = first_folder(include);
      if (allowed().count(other) == 0 || include.find('/') == std::string::npos || other == module)
        continue;
      CAPTURE(source.path, include);
      CHECK(allowed().at(module).count(other) == 1);
    }
  }
}

TEST_CASE("ARecipeIncludesNoOtherRecipe") {
  for (const Source& source : sources()) {
    if (first_folder(source.path.string()) != "recipes") continue;
    const std::string own = source.path.parent_path().string() + "/";
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      if (starts_with(include, "recipes/")) CHECK(starts_with(include, own));
    }
  }
}

TEST_CASE("TorchStaysOutOfTheThinProgram") {
  const std::set<std::string> without_torch = {
      "util", "config", "launch", "image", "page", "cpu_kernels", "cuda_kernels"};
  for (const Source& source : sources()) {
    const std::string stem = source.path.stem();
    const bool thin = without_torch.count(first_folder(source.path.string())) == 1 ||
                      stem.ends_with("options") || stem == "requests" || stem == "recipe_facts" ||
                      stem == "plan" || stem == "run_folder";
    if (!thin) continue;
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK_FALSE(is_torch(include));
    }
  }
}

TEST_CASE("OnlyDistKnowsC10d") {
  for (const Source& source : sources()) {
    if (first_folder(source.path.string()) == "distributed") continue;
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK(include.find("c10d") == std::string::npos);
    }
  }
}

TEST_CASE("HeadersOfTheUpperLayersStayNarrow") {
  for (const Source& source : sources()) {
    if (source.path.extension() != ".h" || source.path.filename() == "torch_pch.h") continue;
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK(include != "torch/torch.h");
    }
  }
}
