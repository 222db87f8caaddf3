// SPDX-License-Identifier: Apache-2.0
// `gantrain import` from outside: the file it writes is the reference's weights.
#include <algorithm>

#include "config/value.h"
#include "support/catch.h"
#include "support/official_writer.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Outcome import(const TemporaryFolder& folder, const std::string& more) {
  return gantrain(words_of("import " + more), {.folder = folder.path()});
}

Json header_of(const fs::path& path) {
  const std::string file = read_file(path);
  uint64_t size = 0;
  REQUIRE(file.size() > 8);
  std::copy_n(file.data(), 8, reinterpret_cast<char*>(&size));
  return Json::parse(file.substr(8, size)).at("__metadata__");
}

FileTensors fixture_tensors(const std::string& name) {
  return read_safetensors(fs::path(fixtures_folder()) / (name + ".safetensors"));
}

// As in the cache of the Hugging Face Hub: the file is a link into blobs/.
TEST_CASE("ASnapshotWithANetworkPickleIsImportedAsThePickleIs") {
  const TemporaryFolder folder;
  if (!write_official_pickle(folder / "net.pkl", "uncond")) return;
  const fs::path repository = folder / "models--org--faces";
  fs::create_directories(repository / "blobs");
  fs::create_directories(repository / "snapshots/0123/weights");
  fs::copy_file(folder / "net.pkl", repository / "blobs/abcd");
  fs::create_symlink("../../../blobs/abcd", repository / "snapshots/0123/weights/net.pkl");
  REQUIRE(import(folder, "net.pkl -o plain.safetensors").code == 0);
  for (const std::string from : {"models--org--faces", "models--org--faces/snapshots/0123"}) {
    CAPTURE(from);
    const Outcome outcome = import(folder, from + " -o model.safetensors");
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(read_file(folder / "model.safetensors") == read_file(folder / "plain.safetensors"));
  }
  const Outcome shared = import(folder, "models--org--faces -o shared");
  INFO(shared.err);
  REQUIRE(shared.code == 0);
  for (const char* name : {"README.md", "config.json", "model.safetensors", "grid.png"})
    CHECK(fs::exists(folder / "shared" / name));
}

TEST_CASE("ANetworkPickleBecomesAModelFileWithItsBits") {
  const TemporaryFolder folder;
  for (const std::string set : {"uncond", "cond"}) {
    CAPTURE(set);
    if (!write_official_pickle(folder / (set + ".pkl"), set)) return;
    const Outcome outcome = import(folder, set + ".pkl -o " + set + ".safetensors");
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("next    gantrain generate --model " + set + ".safetensors") !=
          std::string::npos);
    const FileTensors model = read_safetensors(folder / (set + ".safetensors"));
    size_t expected = 0;
    for (const auto& [prefix, name] : std::vector<std::pair<std::string, std::string>>{
             {"", "sg2_" + set + "32_G"}, {"D.", "sg2_" + set + "32_D"}}) {
      for (const auto& [key, tensor] : fixture_tensors(name)) {
        const std::string there = prefix + key.substr(2);
        CAPTURE(there);
        REQUIRE(model.count(there) == 1);
        CHECK(model.at(there).dtype == tensor.dtype);
        CHECK(model.at(there).shape == tensor.shape);
        CHECK(model.at(there).bytes == tensor.bytes);
        expected += prefix.empty() ? 2 : 1;  // and the raw G beside it
      }
    }
    CHECK(model.size() == expected);
    const Json about = header_of(folder / (set + ".safetensors"));
    CHECK(about.at("format") == "pt");
    CHECK(about.count("gantrain.version") == 1);
    Json network = Json::parse(about.at("gantrain.model").get<std::string>());
    CHECK(network.at("recipe") == "stylegan2");
    network.erase("recipe");
    const Json fixture =
        header_of(fs::path(fixtures_folder()) / ("sg2_" + set + "32_G.safetensors"));
    CHECK(network == Json::parse(fixture.at("config").get<std::string>()));
  }
}

// Whether a pickle was trained with classes or with vectors, it does not say.
TEST_CASE("NetworksOfPicklesDrawLabelsThatAreVectors") {
  const TemporaryFolder folder;
  for (const auto& [set, structure, rest] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"cond", "", ",0,0,0,0,0,0,0"},
           {"sg3_t16_c3", "", ""},
           {"r3gan_cond16", "structure=r3gan", ",0,0"}}) {
    CAPTURE(set);
    if (!write_official_pickle(folder / "net.pkl", set, structure)) return;
    REQUIRE(import(folder, "net.pkl -o net.safetensors").code == 0);
    const auto drawn = [&](const std::string& more) {
      fs::remove_all(folder / "drawn");
      succeed(folder,
              "generate --device cpu --model net.safetensors --seeds 3 --format npy "
              "--outdir drawn " +
                  more);
      return read_file(files_like(folder / "drawn", "seed0003").front());
    };
    const std::string one = drawn("--class 1");
    CHECK(drawn("--label 1=1") == one);
    write_file(folder / "half.csv", "0,0.5,0.5" + rest + "\n");
    const std::string half = drawn("--label half.csv");
    CHECK(half != one);
    CHECK(half != drawn("--class 2"));
    CHECK(drawn("--label 1=0.5,2=0.5") == half);
    succeed(folder, "export net.safetensors --to onnx --label-vectors -o net.onnx");
    const Json said = Json::parse(read_file(folder / "net.onnx.json"));
    CHECK(said["inputs"]["label"]["shape"][0] == "batch");
    CHECK(said["self_test"]["cases"][1]["label"][1] == 1);
  }
}

TEST_CASE("ImportNamesWhatItCannotRead") {
  const TemporaryFolder folder;
  write_file(folder / "evil.pkl", "\x80\2cos\nsystem\nX\4" + std::string(3, '\0') + "true\x85R.");
  write_file(folder / "empty.pkl", "");
  write_file(folder / "page.pkl", "<!DOCTYPE html><html></html>");
  write_file(folder / "pointer.pkl", "version https://git-lfs.github.com/spec/v1\n");
  write_file(folder / "zip.pkl", "PK\3\4 and so on");
  write_file(folder / "cut.pkl", "\x80\4\x95");
  write_file(folder / "dict.pkl", "\x80\2}.");
  write_safetensors(folder / "model.safetensors", {{"a", {"F32", {1}, "abcd"}}}, {});
  fs::create_directory(folder / "folder");
  const std::string out = " -o out.safetensors";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"evil.pkl" + out, 3, "evil.pkl: byte 2: global os.system is not allowed"},
      {"empty.pkl" + out, 3, "empty.pkl"},
      {"page.pkl" + out, 3, "page.pkl: not a network pickle"},
      {"pointer.pkl" + out, 3, "pointer.pkl: not a network pickle"},
      {"zip.pkl" + out, 3, "zip.pkl: a zip"},
      {"cut.pkl" + out, 3, "cut.pkl: byte 2"},
      {"dict.pkl" + out, 3, "no G_ema"},
      {"model.safetensors" + out, 3, "model.safetensors: a safetensors file"},
      {"model.safetensors --recipe nosuch" + out, 3, "nosuch"},
      {"none.pkl" + out, 3, "none.pkl"},
      {"folder" + out, 3, "folder"},
      {"dict.pkl --recipe nosuch" + out, 3, "nosuch"},
      {"dict.pkl", 2, "-o"},
      {"-o out.safetensors", 2, "which file"},
      {"dict.pkl -o out.pkl", 2, "out.pkl"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = import(folder, arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
  }
  CHECK(!fs::exists(folder / "out.safetensors"));
}

TEST_CASE("AnImportThatCannotBeWrittenSaysSo") {
  const TemporaryFolder folder;
  if (!write_official_pickle(folder / "net.pkl", "uncond")) return;
  const Outcome outcome = import(folder, "net.pkl -o none/out.safetensors");
  CHECK(outcome.code == 8);
  CHECK(outcome.err.find("none/out.safetensors") != std::string::npos);
}

}  // namespace
}  // namespace gantrain
