// SPDX-License-Identifier: Apache-2.0
// `gantrain inspect`: what every file of a run is, and what broken ones lack.
#include <algorithm>

#include "config/value.h"
#include "support/catch.h"
#include "support/official_writer.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "support/zip_writer.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Outcome inspect(const TemporaryFolder& folder, const std::string& arguments) {
  return gantrain(words_of("inspect " + arguments), {.folder = folder.path()});
}

Json look(const TemporaryFolder& folder, const std::string& arguments) {
  CAPTURE(arguments);
  const Outcome outcome = inspect(folder, "--json " + arguments);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

std::string last(const fs::path& run, const std::string& prefix) {
  return files_like(run, prefix).back().string();
}

Json row_of(const Json& content, const std::string& name) {
  for (const Json& row : content.at("tensors")) {
    if (row.at("name") == name) return row;
  }
  FAIL("no tensor " + name);
  return {};
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST_CASE("InspectTellsEveryFileOfARun") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.1");
  const Json model = look(folder, last(run, "model-"));
  CHECK(model.at("kind") == "model");
  CHECK(model.at("facts").at("recipe") == "dcgan");
  CHECK(model.at("facts").at("kimg") == "0.112");
  CHECK(model.at("parts").at("G_ema") == model.at("parts").at("G"));
  const Json state = look(folder, last(run, "state-"));
  CHECK(state.at("kind") == "state");
  CHECK(state.at("facts").at("preset") == "dcgan-tiny");
  CHECK(state.at("config").at("train.batch") == 16);
  CHECK(state.at("parts").at("G_ema") == model.at("parts").at("G_ema"));
  CHECK(state.at("parts").contains("D.opt"));
  const Json whole = look(folder, "run");
  CHECK(whole.at("kind") == "run");
  CHECK(whole.at("facts").at("status").get<std::string>().rfind("done", 0) == 0);
  CHECK(whole.at("facts").at("models").size() == files_like(run, "model-").size());
  CHECK(whole.at("facts").at("states").size() == files_like(run, "state-").size());
  CHECK(whole.at("facts").at("bytes") > 10000);
  CHECK(whole.at("tensors") == model.at("tensors"));
  CHECK(look(folder, last(run / "samples", "")).at("kind") == "picture");
  CHECK(look(folder, "run/config.json").at("config").at("recipe") == "dcgan");
  const Json stats = look(folder, "run/stats.jsonl");
  CHECK(stats.at("kind") == "JSON lines");
  CHECK(stats.at("facts").at("last").at("Progress/kimg").at("mean") == 0.112);
  CHECK(look(folder, "run/data-manifest.jsonl").at("facts").at("lines") == 1);
  CHECK(look(folder, "run/env.json").at("facts").at("ranks") == 1);
  const Json events = look(folder, last(run, "events."));
  CHECK(events.at("kind") == "TensorBoard events");
  CHECK(events.at("facts").at("records") > 10);
  CHECK(!events.at("facts").contains("end"));
  CHECK(look(folder, "run/STATUS").at("facts").at("last") == trim(read_file(run / "STATUS")));
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    if (entry.path().filename() != ".lock") look(folder, entry.path().string());
  }
}

TEST_CASE("InspectTellsWhatARunThatFailedLeft") {
  const TemporaryFolder folder;
  write_file(folder / "rank1.json",
             R"({"message": {"message": "it died", "extraInfo": {"rank": 1, "signal": 9,
                 "py_callstack": "it died"}}})");
  const Json failure = look(folder, "rank1.json");
  CHECK(failure.at("kind") == "failure of a rank");
  CHECK(failure.at("facts").at("message") == "it died");
  CHECK(failure.at("facts").at("signal") == 9);
  CHECK(!failure.at("facts").contains("py_callstack"));
  write_file(folder / "stats.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"a\"");
  const Json cut = look(folder, "stats.jsonl").at("facts");
  CHECK(cut.at("lines") == 2);
  CHECK(cut.at("last") == Json{{"a", 2}});
  CHECK(cut.contains("end"));
  const fs::path run = trained(folder, "run", "--kimg 0.1");
  const std::string events = read_file(last(run, "events."));
  write_file(folder / "events.out.tfevents.1", events.substr(0, events.size() - 3));
  CHECK(look(folder, "events.out.tfevents.1").at("facts").contains("end"));
}

TEST_CASE("InspectCountsWhatIsNotFinite") {
  const TemporaryFolder folder;
  const float infinite = std::numeric_limits<float>::infinity();
  write_safetensors(folder / "m.safetensors",
                    {{"a", {"F32", {2, 2}, floats({3, -4, infinite, std::nanf("")})}},
                     {"G.b", {"F32", {1}, floats({2})}}},
                    {});
  const Json content = look(folder, "m.safetensors");
  const Json row = row_of(content, "G_ema/a");
  CHECK(row.at("dtype") == "float32");
  CHECK(row.at("shape") == Json{2, 2});
  CHECK(row.at("norm") == 5);
  CHECK(row.at("min") == -4);
  CHECK(row.at("max") == 3);
  CHECK(row.at("non_finite") == 2);
  CHECK(content.at("parts").at("G_ema").at("non_finite") == 2);
  CHECK(content.at("parts").at("G").at("non_finite") == 0);
  const Outcome text = inspect(folder, "m.safetensors");
  CHECK(text.code == 0);
  CHECK(text.out.find("G_ema/a") != std::string::npos);
  CHECK(text.out.find("[2, 2]") != std::string::npos);
}

TEST_CASE("InspectReadsForeignFiles") {
  const TemporaryFolder folder;
  write_npy(folder / "z.npy", {"F32", {1, 2}, floats({1, 2})});
  CHECK(look(folder, "z.npy").at("kind") == "array");
  fs::create_directory(folder / "photos");
  write_file(folder / "photos/a.png", "");
  const Outcome photos = inspect(folder, "photos");
  CHECK(photos.code == 0);
  CHECK(photos.err.find("gantrain data inspect photos") != std::string::npos);
  if (!write_official_pickle(folder / "net.pkl", "cond")) return;
  const Json pickle = look(folder, "net.pkl");
  CHECK(pickle.at("kind") == "network pickle");
  CHECK(pickle.at("config").at("c_dim") == 10);
}

TEST_CASE("InspectTellsWhatInterpolateWrites") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  succeed(folder, "interpolate run --device cpu --seeds 0-1 --frames 4 --fps 20 -o walk.webp");
  const Json film = look(folder, "walk.webp");
  CHECK(film.at("kind") == "animation (WebP)");
  CHECK(film.at("facts").at("size") == "16x16");
  CHECK(film.at("facts").at("frames") >= 2);  // equal ones are stored once
  CHECK(film.at("facts").at("seconds") == 0.25);
  const std::string whole = read_file(folder / "walk.webp");
  write_file(folder / "half.webp", whole.substr(0, whole.size() - 10));
  CHECK(look(folder, "half.webp").at("facts").at("end") == "cut off");
}

TEST_CASE("AZipWithoutPicturesIsNoDataSetToLookAt") {
  const TemporaryFolder folder;
  write_file(folder / "texts.zip", write_zip({{"a.txt", "a"}, {"b.txt", "b"}}, false));
  CHECK(look(folder, "texts.zip").at("facts").at("pictures") == 0);
  CHECK(inspect(folder, "texts.zip").err.empty());
}

TEST_CASE("ADifferenceNamesKeysAndTensors") {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors",
                    {{"same", {"F32", {1}, floats({1})}},
                     {"moved", {"F32", {2}, floats({3, 4})}},
                     {"grown", {"F32", {1}, floats({1})}},
                     {"gone", {"F32", {1}, floats({1})}}},
                    {{"gantrain.model", R"({"recipe":"dcgan","z_dim":4})"}});
  write_safetensors(folder / "b.safetensors",
                    {{"same", {"F32", {1}, floats({1})}},
                     {"moved", {"F32", {2}, floats({3, 4.5})}},
                     {"grown", {"F32", {2}, floats({1, 1})}},
                     {"new", {"F32", {1}, floats({1})}}},
                    {{"gantrain.model", R"({"recipe":"dcgan","z_dim":5})"}});
  const Json difference = look(folder, "--diff a.safetensors b.safetensors");
  CHECK(difference.at("config") == Json{{"z_dim", Json{4, 5}}});
  CHECK(difference.at("missing").at("a") == Json::array({"G_ema/new"}));
  CHECK(difference.at("missing").at("b") == Json::array({"G_ema/gone"}));
  CHECK(difference.at("shape").size() == 1);
  CHECK(difference.at("shape").contains("G_ema/grown"));
  CHECK(difference.at("values").size() == 1);
  CHECK(difference.at("values").at("G_ema/moved").at("max_abs") == 0.5);
  CHECK(difference.at("values").at("G_ema/moved").at("relative") == 0.1);
  CHECK(difference.at("equal") == 1);
  const Outcome text = inspect(folder, "--diff a.safetensors b.safetensors");
  CHECK(text.out.find("G_ema/moved by at most 0.5, relative 0.1") != std::string::npos);
}

TEST_CASE("ADifferenceOfTextsIsSeen") {
  const TemporaryFolder folder;
  write_file(folder / "STATUS", "done 2 kimg\n");
  write_file(folder / "log.txt", "done 3 kimg\n");
  write_file(folder / "log2.txt", "done 3 kimg\n");
  const Json apart = look(folder, "--diff STATUS log.txt");
  CHECK(apart.at("config").at("last") == Json{"done 2 kimg", "done 3 kimg"});
  CHECK(apart.at("same_bytes") == false);
  CHECK(look(folder, "--diff log.txt log2.txt").at("same_bytes") == true);
  fs::create_directories(folder / "runs");
  CHECK(inspect(folder, "runs").err.find("next") == std::string::npos);
  const fs::path run = trained(folder, "runs/a", "--kimg 0.1");
  CHECK(inspect(folder, "runs").err.find("gantrain serve runs") != std::string::npos);
  write_file(run / "STATUS", "running\n");
  CHECK(look(folder, "runs/a").at("facts").at("status") ==
        "running, says STATUS; nobody is at work");
}

TEST_CASE("AStateAndItsModelHoldTheSameNetworks") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.1");
  const Json difference = look(folder, "--diff " + last(run, "model-") + " " + last(run, "state-"));
  CHECK(difference.at("values").empty());
  CHECK(difference.at("shape").empty());
  CHECK(difference.at("missing").at("b").empty());
  CHECK(difference.at("equal") > 10);
}

TEST_CASE("InspectNamesWhatIsBroken") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0.1");
  const std::string model = read_file(last(run, "model-")), state = read_file(last(run, "state-"));
  const std::string grid = read_file(last(run / "samples", ""));
  write_file(folder / "cut.safetensors", model.substr(0, model.size() / 2));
  write_file(folder / "cut.pt", state.substr(0, state.size() / 2));
  std::string flipped = state;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  write_file(folder / "flipped.pt", flipped);
  write_file(folder / "cut.png", grid.substr(0, grid.size() / 2));
  write_file(folder / "cut.npy", "\x93NUMPY\1");
  write_file(folder / "evil.pkl", "\x80\2cos\nsystem\nX\4" + std::string(3, '\0') + "true\x85R.");
  write_file(folder / "broken.json", "{");
  write_file(folder / "odd.txt", "hello");
  write_file(folder / "STATUS", "");
  write_file(folder / "log.txt", "\xff\xfe");
  write_file(folder / "broken.jsonl", "{}\n{\n{}\n");
  write_file(folder / "events.out.tfevents.2", "nonsense of a few bytes");
  write_safetensors(
      folder / "meta.safetensors", {{"a", {"F32", {1}, floats({1})}}}, {{"gantrain.model", "{"}});
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"cut.safetensors", 3, "tensor"},
      {"cut.pt", 3, "cut.pt"},
      {"flipped.pt", 3, "checksum"},
      {"cut.png", 3, "cut.png"},
      {"cut.npy", 3, "cut.npy"},
      {"evil.pkl", 3, "os.system"},
      {"broken.json", 3, "broken.json"},
      {"odd.txt", 3, "odd.txt"},
      {"STATUS", 3, "an empty file"},
      {"log.txt", 3, "log.txt"},
      {"broken.jsonl", 3, "line 2"},
      {"events.out.tfevents.2", 3, "first record"},
      {"meta.safetensors", 3, "gantrain.model"},
      {"none", 3, "no such file"},
      {"--diff cut.pt cut.safetensors", 3, "cut.pt"},
      {"run --diff run run", 2, "either"},
      {"", 2, "what?"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = inspect(folder, arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("InspectNamesTheFileOfARunThatIsNoneOfItsOwn") {
  const TemporaryFolder folder;
  write_file(folder / "secret.json", R"({"values":{"a secret":1}})");
  fs::create_directories(folder / "run");
  write_file(folder / "run/STATUS", "running\n");
  fs::create_symlink(folder / "secret.json", folder / "run/config.json");
  const Outcome link = inspect(folder, "run");
  CHECK(link.code == 3);
  CHECK(link.err.find("run/config.json: is a link") != std::string::npos);
  CHECK(link.err.find("a secret") == std::string::npos);
  const std::string deep(300'000, '[');
  write_file(folder / "run/stats.jsonl", "{\"x\":" + deep + std::string(300'000, ']') + "}\n");
  const Outcome rows = inspect(folder, "run/stats.jsonl");
  CHECK(rows.code == 3);
  CHECK(rows.err.find("line 1") != std::string::npos);
}

TEST_CASE("InspectShowsNoControlCharacters") {
  const TemporaryFolder folder;
  const std::string forged = "a\nerror   forged\x1b]0;owned\x07\x7f";
  write_safetensors(
      folder / "a.safetensors", {{"t" + forged, {"F32", {1}, "abcd"}}}, {{"note", forged}});
  write_safetensors(folder / "b.safetensors", {{"u" + forged, {"F32", {1}, "abcd"}}}, {});
  for (const std::string words : {"a.safetensors", "--diff a.safetensors b.safetensors"}) {
    const Outcome out = inspect(folder, words);
    CAPTURE(words, out.out, out.err);
    CHECK(out.out.find("a\\x0aerror   forged\\x1b]0;owned\\x07\\x7f") != std::string::npos);
    for (const char c : {'\x1b', '\x07', '\x7f'})
      CHECK((out.out + out.err).find(c) == std::string::npos);
    CHECK(out.out.find("\nerror") == std::string::npos);
  }
}

}  // namespace
}  // namespace gantrain
