// SPDX-License-Identifier: Apache-2.0
// The table of layers in CONTRIBUTING.md, read against every #include.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "util/file.h"
#include "util/text.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

// module -> modules that it may include, beside itself: the table of CONTRIBUTING.md, whose rows
// begin with "| `lib/MODULE` | MODULE MODULE |", lowest layer first.
std::map<std::string, std::set<std::string>> read_table() {
  std::map<std::string, std::set<std::string>> table;
  const std::string begin = "| `lib/";
  for (const std::string& line :
       split(read_file(fs::path(GANTRAIN_SOURCE) / "CONTRIBUTING.md"), '\n')) {
    if (!starts_with(line, begin)) continue;
    const std::vector<std::string> cells = split(line, '|');
    REQUIRE(cells.size() == 5);
    const std::string module = trim(cells[1]).substr(5, trim(cells[1]).size() - 6);
    std::set<std::string> below;
    for (const std::string& other : split(trim(cells[2]), ' ')) {
      CAPTURE(module, other);
      if (other == "nothing") continue;
      REQUIRE(table.count(other) == 1);  // stands above it
      below.insert(other);
    }
    REQUIRE(table.emplace(module, below).second);
  }
  return table;
}

const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = read_table();
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
  if (include == "core/torch.h") return true;
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

TEST_CASE("EveryFolderOfLibHasARowInTheTable") {
  std::set<std::string> folders, rows;
  for (const Source& source : sources()) folders.insert(first_folder(source.path.string()));
  for (const auto& [module, below] : allowed()) rows.insert(module);
  CHECK(folders == rows);
  CHECK(rows.size() > 20);
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
      "util", "config", "launch", "image", "page", "serve", "cpu_kernels", "cuda_kernels"};
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
    const bool header = source.path.extension() == ".h" && source.path.filename() != "torch_pch.h";
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK(include != "torch/torch.h");  // core/torch.h compiles in half the time
      if (header) CHECK(include != "core/torch.h");
    }
  }
}
