// SPDX-License-Identifier: Apache-2.0
// States that earlier programs wrote: a run that goes on from one of them ends where the program of
// that day ended, up to the rounding of other kernels. fixtures/old_states.json has the commands
// that made them, and how far apart two ways of rounding may end. StyleGAN v1's Adam has beta1 = 0,
// so that a parameter whose gradient is rounding noise moves by its whole learning rate either way.
#include "config/value.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

fs::path fixtures() { return fixtures_folder(); }

// [{"recipe": "dcgan", "flags": ["--preset", "dcgan-tiny", ...], "within": 1e-5}, ...]: the whole
// command but for the state and the run folder, and the largest distance of a number.
Json old_states() { return Json::parse(read_file(fixtures() / "old_states.json")); }

void check_close_tensors(const FileTensors& got, const FileTensors& expected, double within) {
  CHECK(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    REQUIRE(got.count(name) == 1);
    CHECK(got.at(name).dtype == tensor.dtype);
    CHECK(got.at(name).shape == tensor.shape);
    if (tensor.dtype == "I64") {
      CHECK((got.at(name).bytes == tensor.bytes));
    } else {
      CHECK(max_distance(got.at(name), tensor) <= within);
    }
  }
}

TEST_CASE("RunsGoOnFromOldStates") {
  const TemporaryFolder folder;
  const Json all = old_states();
  REQUIRE(all.size() >= 4);
  for (const Json& state : all) {
    const auto recipe = state["recipe"].get<std::string>();
    CAPTURE(recipe);
    Words arguments = state["flags"].get<Words>();
    const std::string file = (fixtures() / ("state-" + recipe + ".pt")).string();
    for (const std::string& word : {std::string("--save-raw"),
                                    std::string("--resume"),
                                    file,
                                    std::string("--run-dir"),
                                    recipe})
      arguments.push_back(word);
    const Outcome outcome = gantrain(arguments, {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const std::vector<fs::path> models = files_like(folder / recipe, "model-");
    REQUIRE_FALSE(models.empty());
    check_close_tensors(read_safetensors(models.back()),
                        read_safetensors(fixtures() / ("resumed-" + recipe + ".safetensors")),
                        state["within"].get<double>());
  }
}

}  // namespace
}  // namespace gantrain
