// SPDX-License-Identifier: Apache-2.0
// Labels that are vectors, from outside: data in, a run, pictures with labels that are asked for.
#include "config/value.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Five iterations of a StyleGAN2 of 8 pixels.
const std::string kTinyStyles =
    "--preset stylegan2-tiny --resolution 8 --kimg 0.04 --batch 8 --lr-scale linear "
    "--set train.tick=0.04 "
    "--set stylegan2.channel_max=8 --set stylegan2.z_dim=8 --set stylegan2.w_dim=8 "
    "--set samples.rows=2 --set samples.columns=4 --cond on ";

void write_pictures(const TemporaryFolder& folder, const std::string& csv) {
  fs::create_directories(folder / "in");
  for (int i = 0; i < 8; ++i) {
    Image image = test_picture(8, 8, 3);
    for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(pixel / 2 + 4 * i);
    write_file(folder / fmt::format("in/{}.png", i), encode_png(image, 0));
  }
  write_file(folder / "in/labels.csv", csv);
}

std::string rows(const std::vector<std::string>& labels) {
  std::string text = "file,red,large,angle\n";
  for (size_t i = 0; i < labels.size(); ++i) text += fmt::format("{}.png,{}\n", i, labels[i]);
  return text;
}

const std::vector<std::string> kLabels = {
    "1,0,0.5", "0,1,-1", "1,1,2", "0,0,0.25", "1,0,", "0,1,1", ",,", "1,1,0"};

TEST_CASE("ARunOnLabelVectorsLearnsAndDrawsThem") {
  const TemporaryFolder folder;
  write_pictures(folder, rows(kLabels));
  const Outcome first =
      gantrain(tiny(kTinyStyles + "--data in --run-dir run"), {.folder = folder.path()});
  INFO(first.err);
  REQUIRE(first.code == 0);
  const fs::path run = folder / "run";
  CHECK(read_safetensors(last_model(run)).at("mapping.embed.weight").shape ==
        std::vector<int64_t>{8, 3});
  const FileTensors before = read_safetensors(files_like(run, "model-").front());
  const FileTensors after = read_safetensors(last_model(run));
  const std::string embedding = "mapping.embed.weight";  // gradients reach it
  CHECK(max_distance(after.at(embedding), before.at(embedding)) > 1e-5);
  const Json config = Json::parse(read_file(run / "config.json"));
  REQUIRE(config["classes"]["attributes"].size() == 3);
  CHECK(config["classes"]["attributes"][2]["name"] == "angle");
  CHECK(config["classes"]["attributes"][2]["most"] == 2);
  CHECK(config["classes"]["attributes"][0]["yes_or_no"] == true);
  const std::string log = read_file(run / "log.txt");
  CHECK(holds(log, "labels of 3 numbers; labels are used"));
  CHECK(holds(first.err, "labels.csv: 1 picture without a label, and 1 number missing"));
  CHECK(holds(log, "angle  -1 to 2"));
  // Resumed, the data may not have another number; nor may it have classes.
  std::vector<std::string> changed = kLabels;
  changed[3] = "0,0,0.26";
  write_pictures(folder, rows(changed));
  const Outcome other = gantrain(tiny(kTinyStyles + "--data in --run-dir run --kimg 0.08"),
                                 {.folder = folder.path()});
  CHECK(other.code == 2);
  // With one value the mean moves that stands for those that are missing.
  CHECK(holds(other.err, "3 pictures with another label (3.png, 4.png, 6.png)"));

  std::string next;
  const auto draw = [&](const std::string& more, const std::string& to) {
    const Outcome drawn =
        run_in(folder, "generate --model run --format npy --outdir " + to + " " + more);
    INFO(drawn.err);
    CHECK(drawn.code == 0);
    next = next_of(drawn);
    return read_file(folder / to / "seed0001.npy");
  };
  const std::string red = draw("--seeds 1 --label red=1,large=0,angle=0.5", "a");
  CHECK(draw("--seeds 1 --label 0=1,1=0,2=0.5", "b") == red);
  CHECK(draw("--seeds 1 --label red=0,large=1,angle=0.5", "c") != red);
  write_file(folder / "two.csv", "angle,red,large\n2,0,1\n0.5,1,0\n");
  CHECK(draw("--seeds 0,1 --label two.csv", "d") == red);
  CHECK(holds(next, "--seeds 0,1 --loop --label two.csv"));  // a label for each
  write_file(folder / "one.csv", "1,0,0.5\n");
  CHECK(draw("--seeds 0,1 --label one.csv", "e") == red);
  draw("--seeds 0,1", "f");  // labels of real pictures
  succeed(folder,
          next_of(succeed(folder,
                          "interpolate --model run --seeds 0,1 --frames 2 --label two.csv --outdir "
                          "way --trunc 0.5")));
  succeed(folder,
          "interpolate --model run --seeds 0,1 --frames 2 --space z --label red=1 --outdir z");
  succeed(folder, "nn run --seeds 0,1 --label red=1 --data in -o sheet.png");
  succeed(folder, "edit run --method ganspace --samples 20 --count 1 --seeds 0-2 -o found");
  const Json found = Json::parse(read_file(folder / "found/directions.json"));
  CHECK(found["labels"] == 8);  // all that the model knows
  succeed(folder, "export run --to web -o page.html");
  CHECK(holds(read_file(folder / "page.html"), "\"said\":\"angle\""));
  for (const auto& [words, said] : std::map<std::string, std::string>{
           {"--class angle", "angle is no class, but a value from -1 to 2"},
           {"--label rot=1", "rot is no number of this model's labels"},
           {"--label red=1 --class red", "exclude each other"},
           {"--seeds 0-2 --label two.csv", "2 labels; one for all is needed"}}) {
    const Outcome refused = run_in(folder, "generate --model run -o g.png " + words);
    CAPTURE(words, refused.err);
    CHECK(refused.code == 2);
    CHECK(holds(refused.err, said));
  }
  const Outcome measured =
      run_in(folder, "metrics run --data in --metrics msssim --num-images 32 --per-class --json");
  CHECK(holds(measured.out, "msssim/red"));
  CHECK_FALSE(holds(measured.out, "msssim/angle"));
  CHECK(holds(measured.err, "--per-class: no classes but values: angle"));

  // A class is compared with the real pictures that have it, of two classes with those of either.
  const auto compared = [&](const std::string& flags) {
    const Outcome outcome =
        run_in(folder, "metrics run --metrics diversity --num-images 8 --json " + flags);
    CAPTURE(flags, outcome.err);
    REQUIRE(outcome.code == 0);
    return std::make_pair(Json::parse(outcome.out)["recipe"]["reals"].get<int64_t>(), outcome.err);
  };
  CHECK(compared("--data in").first == 8);
  CHECK(compared("--data in --class red").first == 4);
  CHECK(compared("--data in --class red,large").first == 6);
  CHECK(holds(compared("--data in --label red=1").second,
              "--label red=1: compared with all pictures of the data"));
  fs::copy(folder / "in", folder / "plain");
  fs::remove(folder / "plain/labels.csv");
  const auto [all, said] = compared("--data plain --class red");
  CHECK(all == 8);
  CHECK(holds(said, "--class red: compared with all pictures of the data, which has no labels"));
  const Outcome value = run_in(folder, "metrics run --data in --class angle --num-images 8");
  CHECK(value.code == 2);
  CHECK(holds(value.err, "--class angle: angle is no class, but a value"));
}

TEST_CASE("DataThatIsPackedKeepsItsVectors") {
  const TemporaryFolder folder;
  write_pictures(folder, rows(kLabels));
  succeed(folder, "data pack in -o packed.zip --resolution 8");
  const auto seen = [&](const std::string& path) {
    const Json json = Json::parse(succeed(folder, "data inspect " + path + " --json").out);
    CHECK(json["unlabelled"] == 1);
    return json["attributes"];
  };
  const Json before = seen("in");
  REQUIRE(before.size() == 3);
  CHECK(before[2]["least"] == -1);
  CHECK(before[2]["missing"] == 2);
  CHECK(seen("packed.zip") == before);
  CHECK(holds(succeed(folder, "data inspect in").out, "vectors of 3 numbers: red 0 or 1"));
}

TEST_CASE("LabelsThatDoNotFitAreRefusedBeforeTraining") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& flags, int code, const std::string& said) {
    const Outcome outcome =
        gantrain(tiny(flags + " --data in --run-dir run"), {.folder = folder.path()});
    CAPTURE(flags, outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(holds(outcome.err, said));
    CHECK_FALSE(fs::exists(folder / "run/stats.jsonl"));
  };
  std::vector<std::string> labels = kLabels;
  labels[2] = "1,nan,2";
  write_pictures(folder, rows(labels));
  refused(kTinyStyles, 3, "labels.csv: line 4: large is nan");
  labels[2] = "1,2";
  write_pictures(folder, rows(labels));
  refused(kTinyStyles, 3, "labels.csv: line 4: 3 fields");
  write_pictures(folder, rows(std::vector<std::string>(8, "1,0,0.5")));
  refused(
      "--preset stylegan1-tiny --resolution 8 --cond on", 3, "conditional on one class a picture");
}

// A run of an earlier version knew neither the names of such lists nor classes at their end that
// have no picture; here the list itself had them not.
TEST_CASE("ARunGoesOnWhereItsListGetsNamesAndAClassWithoutAPicture") {
  const TemporaryFolder folder;
  write_pictures(folder, "");
  fs::remove(folder / "in/labels.csv");
  const auto write_list = [&](const std::string& end, const std::string& more) {
    std::string text;
    for (int i = 0; i < 8; ++i)
      text += fmt::format(
          R"({}["{}.png", [{}{}]])", i > 0 ? ", " : "", i, i % 2 == 0 ? "1, 0" : "0, 1", end);
    write_file(folder / "in/dataset.json", "{\"labels\": [" + text + "]" + more + "}");
  };
  write_list("", "");
  const std::string run = kTinyStyles + "--data in --run-dir run";
  const Outcome first = gantrain(tiny(run), {.folder = folder.path()});
  INFO(first.err);
  REQUIRE(first.code == 0);
  write_list(", 0", R"(, "attributes": ["red", "blue", "green"])");
  const Outcome again = gantrain(tiny(run + " --kimg 0.08"), {.folder = folder.path()});
  INFO(again.err);
  REQUIRE(again.code == 0);
  const Json classes = Json::parse(read_file(folder / "run/config.json"))["classes"];
  REQUIRE(classes.size() == 2);
  CHECK(classes[1]["name"] == "blue");
  CHECK(read_safetensors(last_model(folder / "run")).at("mapping.embed.weight").shape ==
        std::vector<int64_t>{8, 2});
  CHECK(run_in(folder, "generate --model run --class blue --seeds 0 -o blue.png").code == 0);
  // A new run has all three.
  const Outcome fresh =
      gantrain(tiny(kTinyStyles + "--data in --run-dir fresh"), {.folder = folder.path()});
  INFO(fresh.err);
  REQUIRE(fresh.code == 0);
  CHECK(read_safetensors(last_model(folder / "fresh")).at("mapping.embed.weight").shape ==
        std::vector<int64_t>{8, 3});
}

}  // namespace
}  // namespace gantrain
