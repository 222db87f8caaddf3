// SPDX-License-Identifier: Apache-2.0
// --init-from: a fresh run that starts at another's weights.
#include <fmt/format.h>

#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
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
  const fs::path source = trained(folder, "source", "--seed 3 --kimg 0.064");
  const fs::path model = last_model(source);
  const FileTensors expected = read_safetensors(model);
  // The run's newest model, or the file; on every rank the same.
  for (const std::string& from : {std::string("source"), model.string()}) {
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

TEST_CASE("ARunThatGoesOnSaysThatItDoesNotBeginAtTheModel") {
  const TemporaryFolder folder;
  trained(folder, "source", "--seed 3 --kimg 0.064");
  trained(folder, "run", "--kimg 0.032");
  const Outcome more =
      gantrain(tiny("--run-dir run --kimg 0.064 --init-from source"), {.folder = folder.path()});
  INFO(more.err);
  CHECK(more.code == 0);
  CHECK(holds(more.err, "init    source is not used: the run goes on from its own state"));
  const Outcome other =
      gantrain(tiny("--run-dir run --preset stylegan2-tiny"), {.folder = folder.path()});
  INFO(other.err);
  CHECK(other.code == 2);
  CHECK(holds(other.err, "trained with recipe dcgan, and this run is of recipe stylegan2"));
}

TEST_CASE("AModelOfTheAverageAloneIsSharedAndTheStateHasAllNetworks") {
  const TemporaryFolder folder;
  const fs::path whole = trained(folder, "raw", "--seed 3 --kimg 0.064");
  const FileTensors all = read_safetensors(last_model(whole));
  const fs::path source = trained(folder, "source", "--seed 3 --kimg 0.064 --save-raw=off");
  const fs::path model = last_model(source);
  const fs::path state = files_like(source, "state-").back();
  const FileTensors shared = read_safetensors(model);
  const auto is_raw = [](const std::string& name) {
    return starts_with(name, "G.") || starts_with(name, "D.");
  };
  size_t raw = 0;
  for (const auto& [name, tensor] : all) {
    CAPTURE(name);
    raw += is_raw(name) ? 1 : 0;
    if (is_raw(name)) {
      CHECK(shared.count(name) == 0);
    } else {
      CHECK(shared.at(name).bytes == tensor.bytes);
    }
  }
  CHECK(raw > 0);
  // A run folder and a state give everything.
  for (const std::string& from : {std::string("source"), state.string()}) {
    const std::string name = from == "source" ? "of-run" : "of-state";
    const fs::path run = train(folder, name, "--kimg 0 --seed 4 --init-from " + from);
    const FileTensors start = read_safetensors(first_model(run));
    for (const auto& [key, tensor] : all) {
      CAPTURE(from, key);
      CHECK(start.at(key).bytes == tensor.bytes);
    }
    CHECK(read_file(run / "log.txt")
              .find(fmt::format("{}: {} tensors loaded, 0 re-initialised, 0 skipped",
                                state.filename().string(),
                                all.size())) != std::string::npos);
  }
  // The model alone: both generators begin at the average, D afresh, and that is said.
  const fs::path run = train(folder, "of-model", "--kimg 0 --seed 4 --init-from " + model.string());
  const FileTensors start = read_safetensors(first_model(run));
  for (const auto& [name, tensor] : shared) {
    CAPTURE(name);
    CHECK(start.at(name).bytes == tensor.bytes);
    CHECK(start.at("G." + name).bytes == tensor.bytes);
  }
  CHECK(read_file(run / "log.txt").find("init    D begins afresh: " + model.filename().string()) !=
        std::string::npos);
}

TEST_CASE("AnotherResolutionIsSaidAndReinitialised") {
  const TemporaryFolder folder;
  trained(folder, "small", "--kimg 0");
  const FileTensors small = read_safetensors(first_model(folder / "small"));
  const std::string more = "--kimg 0 --seed 1 --resolution 32";
  const FileTensors fresh = read_safetensors(first_model(trained(folder, "fresh", more)));
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

// A network that grows, of so many pixels, at its first stage.
std::string growing(const std::string& recipe, int64_t pixels) {
  return fmt::format(
      "--preset {0}-tiny --resolution {1} --set {0}.fmap_max=16 --set {0}.latent_size=16 "
      "--set schedule.start=4 --set data.synth_size=64 --set samples.rows=1 ",
      recipe,
      pixels);
}

// The raw generator's tensors of a model as a file of their own, without metadata.
void write_raw_generator(const fs::path& model, const fs::path& file) {
  FileTensors raw;
  for (const auto& [name, tensor] : read_safetensors(model)) {
    if (name.rfind("G.", 0) == 0) raw[name.substr(2)] = tensor;
  }
  write_safetensors(file, raw, {});
}

// Level by level both generators of a network of `to` pixels that starts at one of `from` draw what
// that one drew, and D takes pictures as it did.
void check_levels(const std::string& recipe, int64_t from, int64_t to) {
  CAPTURE(recipe, from, to);
  const TemporaryFolder folder;
  const fs::path source =
      trained(folder, "source", growing(recipe, from) + "--kimg 0.064 --seed 3");
  const fs::path target =
      train(folder, "target", growing(recipe, to) + "--kimg 0 --seed 4 --init-from source");
  const fs::path old_model = last_model(source), new_model = first_model(target);
  write_raw_generator(old_model, folder / "source.safetensors");
  write_raw_generator(new_model, folder / "target.safetensors");
  const auto drawn = [&](const std::string& model, int64_t level) {
    const Outcome outcome = gantrain(
        words_of(fmt::format("generate --device cpu {} --seeds 1 --format npy --outdir out "
                             "--level {} --alpha 1",
                             model,
                             level)),
        {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return read_file(folder / "out" / "seed0001.npy");
  };
  const FileTensors before = read_safetensors(old_model), after = read_safetensors(new_model);
  for (int64_t level = 4, up = 0; level <= std::min(from, to); level *= 2, ++up) {
    CAPTURE(level);
    const std::string average = drawn("source", level);
    CHECK(drawn("target", level) == average);
    const std::string raw = drawn("source.safetensors", level);
    CHECK(drawn("target.safetensors", level) == raw);
    if (level == 4) CHECK(average != raw);
    const auto from_rgb = [&](int64_t pixels) {
      int64_t lod = -up;
      for (int64_t side = 4; side < pixels; side *= 2) ++lod;
      return fmt::format("D.FromRGB_lod{}.weight", lod);
    };
    CHECK(after.at(from_rgb(to)).bytes == before.at(from_rgb(from)).bytes);
  }
  const std::string log = read_file(target / "log.txt");
  const std::string part = recipe == "stylegan1" ? "synthesis." : "";
  const std::string top = part + "ToRGB_lod0.weight: [3, 16, 1, 1]";
  CHECK(log.find("init    loaded G." + part + "ToRGB_lod1.weight from G." + part +
                 (from < to ? "ToRGB_lod0.weight\n" : "ToRGB_lod2.weight\n")) != std::string::npos);
  if (from < to) {
    CHECK(log.find("re-initialised G_ema." + top + ", missing in the file") != std::string::npos);
    CHECK(log.find("re-initialised, 0 skipped") != std::string::npos);
  } else {
    CHECK(log.find("skipped G." + top) != std::string::npos);
    CHECK(log.find(" 0 re-initialised,") != std::string::npos);
  }
}

TEST_CASE("PgganStartsAtAModelOfAnotherSizeLevelByLevel") {
  check_levels("pggan", 16, 32);
  check_levels("pggan", 32, 16);
}

TEST_CASE("StyleGan1StartsAtAModelOfAnotherSizeLevelByLevel") {
  check_levels("stylegan1", 16, 32);
  check_levels("stylegan1", 32, 16);
}

TEST_CASE("AStateWinsOverTheModelToStartFrom") {
  const TemporaryFolder folder;
  trained(folder, "source", "--kimg 0 --seed 3");
  const std::string more = "--init-from source --kimg ";
  train(folder, "run", more + "0.064");
  fs::remove_all(folder / "source");  // not looked at again
  const fs::path resumed = train(folder, "run", more + "0.128");
  CHECK(read_file(resumed / "log.txt").find("resume  at 0.064 kimg") != std::string::npos);
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
           {"other.safetensors", "other.safetensors: of 1 tensor, none"}}) {
    CAPTURE(from);
    const Outcome outcome =
        gantrain(tiny("--out runs --init-from " + from), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 3);
    CHECK(outcome.err.find(named) != std::string::npos);
  }
  CHECK_FALSE(fs::exists(folder / "runs"));
}

}  // namespace
}  // namespace gantrain
