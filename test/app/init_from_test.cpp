// SPDX-License-Identifier: Apache-2.0
// --init-from: a fresh run that starts at another's weights.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "app/tensor_file.h"
#include "app/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

std::string first_model(const fs::path& run) {
  const std::vector<fs::path> models = files_like(run, "model-");
  REQUIRE(!models.empty());
  return models.front().string();
}

TEST_CASE("AFreshRunStartsAtTheModelsWeights") {
  const TemporaryFolder folder;
  const fs::path source = train(folder, "source", "--seed 3");
  const fs::path model = files_like(source, "model-").back();
  const FileTensors expected = read_safetensors(model);
  // The run's newest model, or the file; on every rank the same.
  for (const std::string from : {std::string("source"), model.string()}) {
    const std::string name = from == "source" ? "of-run" : "of-file";
    const fs::path run = train(folder, name, "--kimg 0 --seed 4 --nproc 2 --init-from " + from);
    const FileTensors start = read_safetensors(first_model(run));
    REQUIRE(start.size() == expected.size());
    for (const auto& [key, tensor] : expected) {
      CAPTURE(key);
      CHECK(start.at(key).bytes == tensor.bytes);
    }
    const std::string log = read_file(run / "log.txt");
    CHECK(log.find(fmt::format("{}: {} tensors loaded, 0 re-initialised, 0 skipped",
                               model.filename().string(),
                               expected.size())) != std::string::npos);
    CHECK(log.find("init    loaded G_ema.main.0.weight") != std::string::npos);
  }
}

TEST_CASE("AnotherResolutionIsSaidAndReinitialised") {
  const TemporaryFolder folder;
  train(folder, "small", "--kimg 0");
  const FileTensors small = read_safetensors(first_model(folder / "small"));
  const std::string more = "--kimg 0 --seed 1 --resolution 32";
  const FileTensors fresh = read_safetensors(first_model(train(folder, "fresh", more)));
  const Outcome outcome =
      gantrain(tiny("--run-dir large --init-from small " + more), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  size_t same = 0, other = 0;
  for (const auto& [key, tensor] : read_safetensors(first_model(folder / "large"))) {
    CAPTURE(key);
    const auto source = small.find(key);
    const bool fits = source != small.end() && source->second.shape == tensor.shape;
    CHECK(tensor.bytes == (fits ? source->second.bytes : fresh.at(key).bytes));
    ++(fits ? same : other);
  }
  CHECK(same > 0);
  CHECK(other > 0);
  CHECK(outcome.err.find(fmt::format("{} tensors loaded, {} re-initialised", same, other)) !=
        std::string::npos);
  CHECK(outcome.err.find("init    re-initialised G_ema.main.") != std::string::npos);
  CHECK(outcome.err.find(" in the file, [") != std::string::npos);
}

TEST_CASE("AStateWinsOverTheModelToStartFrom") {
  const TemporaryFolder folder;
  train(folder, "source", "--kimg 0 --seed 3");
  const std::string more = "--init-from source --kimg 0.25";
  train(folder, "run", more);
  fs::remove_all(folder / "source");  // not looked at again
  const fs::path resumed = train(folder, "run", "--init-from source");
  CHECK(read_file(resumed / "log.txt").find("resume  at 0.256 kimg") != std::string::npos);
}

TEST_CASE("AModelToStartFromThatCannotBeReadIsNamed") {
  const TemporaryFolder folder;
  write_file(folder / "text.safetensors", "no model\n");
  write_file(folder / "net.pkl", "\x80\4\x95" + std::string(40, '\0') + ".");
  write_safetensors(folder / "other.safetensors", {{"a", {"F32", {1}, "abcd"}}}, {});
  fs::create_directory(folder / "empty");
  for (const auto& [from, named] : std::vector<std::pair<std::string, std::string>>{
           {"none", "none"},
           {"empty", "empty"},
           {"text.safetensors", "text.safetensors"},
           {"net.pkl", "gantrain import"},
           {"other.safetensors", "other.safetensors: none of its 1 tensors"}}) {
    CAPTURE(from);
    const Outcome outcome =
        gantrain(tiny("--out runs --init-from " + from), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 3);
    CHECK(outcome.err.find(named) != std::string::npos);
  }
  CHECK(files_like(folder / "runs", "0000").empty());
}

}  // namespace
}  // namespace gantrain
