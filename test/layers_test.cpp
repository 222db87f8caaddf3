// SPDX-License-Identifier: Apache-2.0
// The table of layers in CONTRIBUTING.md, read against every #include.
#include <filesystem>
#include <map>
#include <set>

#include "support/catch.h"
#include "support/paths.h"
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
       split(read_file(fs::path(source_folder()) / "CONTRIBUTING.md"), '\n')) {
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
  const fs::path lib = fs::path(source_folder()) / "lib";
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

// What is said of one recipe stands in its folder; two tables list the recipes. Presets may have a
// recipe's name, so the places that name presets are listed here.
TEST_CASE("NoRecipesNameStandsOutsideItsFolder") {
  const fs::path root = source_folder();
  std::set<std::string> recipes;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "lib/recipes"))
    if (entry.is_directory()) recipes.insert(entry.path().filename());
  REQUIRE(recipes.size() > 3);
  const std::set<std::string> tables = {"lib/recipes/facts.cpp", "app/config/recipes.cpp"};
  const std::set<std::string> name_presets = {"app/config/resolve.h",
                                              "lib/curation/inspection_text.cpp"};
  for (const char* top : {"lib", "app"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      const std::string path = fs::relative(entry.path(), root);
      if (tables.count(path) + name_presets.count(path) > 0) continue;
      const std::string text = read_file(entry.path());
      for (const std::string& recipe : recipes) {
        if (starts_with(path, "lib/recipes/" + recipe + "/")) continue;
        for (const std::string& use :
             {'"' + recipe + '"', '"' + recipe + ".", recipe + "::", "recipes/" + recipe + "/"}) {
          CAPTURE(path, use);
          CHECK(text.find(use) == std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("TorchStaysOutOfTheThinProgram") {
  const std::set<std::string> without_torch = {
      "util", "config", "launch", "command", "image", "page", "serve", "tune"};
  const std::set<fs::path> thin_halves = {
      "bench/common", "bench/launch", "bench/ddp/model", "inspect/machine"};
  for (const Source& source : sources()) {
    const std::string stem = source.path.stem();
    const bool thin = without_torch.count(first_folder(source.path.string())) == 1 ||
                      stem.ends_with("options") || stem == "requests" || stem == "recipe_facts" ||
                      stem == "plan" || stem == "run_folder" ||
                      thin_halves.count(source.path.parent_path() / stem) == 1;
    if (!thin) continue;
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK_FALSE(is_torch(include));
    }
  }
}

// The arithmetic of a CPU and of a GPU on plain arrays: compiled for every instruction set, or by
// nvcc.
bool is_kernel(const fs::path& path) {
  if (first_folder(path.string()) != "ops") return false;
  const std::string stem = path.stem(), folder = path.parent_path().filename();
  return path.extension() == ".cu" || stem.ends_with("_cpu") || stem.ends_with("_gpu") ||
         stem.ends_with("_plan") || stem == "activation" || stem == "matrix_step" ||
         folder == "vector" || (folder == "gpu" && !stem.ends_with("_cuda") && stem != "library");
}

TEST_CASE("KernelsKnowNoTorch") {
  int kernels = 0;
  for (const Source& source : sources()) {
    if (!is_kernel(source.path)) continue;
    ++kernels;
    for (const std::string& include : source.includes) {
      CAPTURE(source.path, include);
      CHECK_FALSE(is_torch(include));
      const std::string module = first_folder(include);
      if (module == "ops") CHECK(is_kernel(include));
      if (allowed().count(module) == 1 && module != "ops") CHECK(include == "core/philox.h");
    }
  }
  CHECK(kernels > 40);
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
