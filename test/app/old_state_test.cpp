// SPDX-License-Identifier: Apache-2.0
// States that the program wrote before its heart was redesigned: a run that goes on from one of
// them ends, bit for bit, where the program of that day ended. fixtures/old_states.json has the
// commands that made them.
#include <catch2/catch.hpp>

#include "app/tensor_file.h"
#include "app/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path fixtures() { return GANTRAIN_FIXTURES; }

// [{"recipe": "dcgan", "flags": ["--preset", "dcgan-tiny", ...]}, ...]: the whole command but for
// the state and the run folder.
Json old_states() { return Json::parse(read_file(fixtures() / "old_states.json")); }

void check_same_tensors(const FileTensors& got, const FileTensors& expected) {
  CHECK(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    REQUIRE(got.count(name) == 1);
    CHECK(got.at(name).dtype == tensor.dtype);
    CHECK(got.at(name).shape == tensor.shape);
    CHECK((got.at(name).bytes == tensor.bytes));  // in brackets: megabytes are not to be printed
  }
}

TEST_CASE("RunsGoOnFromOldStatesBitForBit") {
  const TemporaryFolder folder;
  const Json all = old_states();
  REQUIRE(all.size() >= 4);
  for (const Json& state : all) {
    const auto recipe = state["recipe"].get<std::string>();
    CAPTURE(recipe);
    Words arguments = state["flags"].get<Words>();
    const std::string file = (fixtures() / ("state-" + recipe + ".pt")).string();
    for (const std::string& word :
         {std::string("--resume"), file, std::string("--run-dir"), recipe})
      arguments.push_back(word);
    const Outcome outcome = gantrain(arguments, {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const std::vector<fs::path> models = files_like(folder / recipe, "model-");
    REQUIRE_FALSE(models.empty());
    check_same_tensors(read_safetensors(models.back()),
                       read_safetensors(fixtures() / ("resumed-" + recipe + ".safetensors")));
  }
}

}  // namespace
}  // namespace gantrain
