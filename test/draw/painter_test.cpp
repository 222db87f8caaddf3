// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <algorithm>
#include <cmath>

#include "config/schema.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "support/toy_generator.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace {

const ToyAbilities kAll = {.num_ws = 3, .classes = 5, .noise = true, .levels = {4, 8}};
const ToyAbilities kNone = {.num_ws = 0, .classes = 0, .noise = false, .levels = {}};

// A request with these keys of its message; the others are not given.
ModelRequest request(const std::string& more) {
  Json message = message_of(ModelRequest());
  message["model"] = "model.safetensors";
  message.update(Json::parse("{" + more + "}"));
  return message_from<ModelRequest>(message);
}

at::Tensor z() { return latents_of_seeds({7}, 4)[0]; }

// What is refused with exit code 2, or "".
std::string refusal(const ToyAbilities& abilities, const std::string& more, bool styles = false) {
  ToyGenerator generator(abilities);
  return user_error(Exit::kUsage, [&] { Painter(generator, request(more), styles); });
}

// Of class 1.
at::Tensor picture(const std::string& more, uint64_t noise_seed = 7) {
  ToyGenerator generator(kAll);
  return Painter(generator, request(more)).picture(z(), noise_seed, 1);
}

}  // namespace

TEST_CASE("EveryFlagReachesTheGenerator") {
  const at::Tensor plain = picture("");
  REQUIRE(plain.sizes() == at::IntArrayRef({3, 8, 8}));
  ToyGenerator generator(kAll);
  CHECK(plain.equal(generator.images(z().unsqueeze(0), torch::full({1}, 1, at::kLong), {})[0]));
  CHECK(!Painter(generator, request("")).picture(z(), 7, 2).equal(plain));
  CHECK(!picture(R"("trunc": 0.5)").equal(plain));
  CHECK(picture(R"("trunc": 1)").equal(plain));
  CHECK(picture(R"("noise_mode": "const")").equal(plain));
  CHECK(!picture(R"("noise_mode": "none")").equal(plain));
  CHECK(picture(R"("level": 4)").sizes() == at::IntArrayRef({3, 4, 4}));
  CHECK(!picture(R"("alpha": 0.5)").equal(plain));
  // Channel l is layer l's alone, so that a cut-off shows.
  const at::Tensor cut = picture(R"("trunc": 0.5, "trunc_cutoff": 2)");
  CHECK(cut[2].equal(plain[2]));
  CHECK(!cut[1].equal(plain[1]));
}

TEST_CASE("RandomNoiseIsKeyedByThePicture") {
  const std::string random = R"("noise_mode": "random")";
  CHECK(picture(random, 7).equal(picture(random, 7)));
  CHECK(!picture(random, 7).equal(picture(random, 8)));
  const std::string constant = R"("noise_mode": "const")";
  CHECK(picture(constant, 7).equal(picture(constant, 8)));
}

TEST_CASE("APictureIsThatOfItsStyles") {
  ToyGenerator generator(kAll);
  Painter painter(generator, request(R"("trunc": 0.7, "noise_mode": "random")"));
  const at::Tensor ws = painter.map(z(), 3);
  REQUIRE(ws.sizes() == at::IntArrayRef({3, 4}));
  CHECK(painter.picture_of_styles(ws, 9).equal(painter.picture(z(), 9, 3)));
}

TEST_CASE("WhatAModelLacksIsRefusedWithTheModelsThatHaveIt") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {R"("trunc": 0.7)", "--trunc 0.7"},
      {R"("trunc": 0.7, "trunc_cutoff": 2)", "--trunc"},
      {R"("noise_mode": "const")", "--noise-mode const"},
      {R"("level": 4)", "--level 4"},
      {R"("alpha": 0.5)", "--alpha 0.5"}};
  for (const auto& [flags, named] : table) {
    const std::string error = refusal(kNone, flags);
    CAPTURE(flags, error);
    CHECK(error.find(named) != std::string::npos);
    CHECK(error.find("model.safetensors") != std::string::npos);
    CHECK(error.find("have") != std::string::npos);
  }
  CHECK(refusal(kNone, "").empty());
  CHECK(refusal(kNone, R"("trunc": 1)").empty());  // changes nothing
}

TEST_CASE("StylesHaveTruncationInThem") {
  CHECK(refusal(kAll, "", true).empty());
  CHECK(refusal(kAll, R"("trunc": 0.5)", true).find("--trunc 0.5") != std::string::npos);
  CHECK(refusal(kAll, R"("trunc": 1)", true).empty());
  CHECK(refusal(kAll, R"("noise_mode": "none")", true).empty());
}

TEST_CASE("LayersAndStagesAreThoseOfTheModel") {
  CHECK(refusal(kAll, R"("trunc": 0.5, "trunc_cutoff": 4)").find("3 layers") != std::string::npos);
  CHECK(refusal(kAll, R"("trunc": 0.5, "trunc_cutoff": 3)").empty());
  CHECK(refusal(kAll, R"("level": 16)").find("4, 8") != std::string::npos);
}

TEST_CASE("OnlyInputsThatCanBeMovedAreMoved") {
  CHECK_THAT(refusal(kAll, R"("degrees": [30])"),
             Catch::Contains("--rotate 30") && Catch::Contains("model.safetensors"));
  CHECK_THAT(refusal(kAll, R"("right": [0.1])"), Catch::Contains("--translate"));
  CHECK_THAT(refusal(kAll, R"("degrees": [0, 90, 0])"), Catch::Contains("--rotate 0:90:0"));
  CHECK(refusal(kAll, R"("right": [0])") == "");
}

namespace {

using Labels = std::vector<int64_t>;

ModelRequest asked(const std::string& classes) {
  ModelRequest request;
  request.model = "model.safetensors";
  request.classes = classes;
  return request;
}

Labels labels(const std::string& classes, const ClassTable& table = {}) {
  return choose_classes(ToyGenerator({.classes = 5}), asked(classes), table).labels;
}

std::string refusal(int64_t classes, const std::string& text, bool styles = false) {
  return user_error(Exit::kUsage, [&] {
    choose_classes(ToyGenerator({.classes = classes}), asked(text), {}, styles);
  });
}

const ClassTable kNames = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}};

}  // namespace

TEST_CASE("ClassesAreNamesNumbersRangesOrAll") {
  CHECK(labels("3") == Labels{3});
  CHECK(labels("0-2,1,4") == Labels{0, 1, 2, 4});
  CHECK(labels("all") == Labels{0, 1, 2, 3, 4});
  CHECK(labels("") == Labels{0, 1, 2, 3, 4});
  CHECK(labels("d,b", kNames) == Labels{3, 1});
  CHECK(choose_classes(ToyGenerator({.classes = 5}), asked("2"), {}).asked);
  CHECK(!choose_classes(ToyGenerator({.classes = 5}), asked(""), {}).asked);
}

TEST_CASE("NamesOfOtherClassesAreNotTaken") {
  ClassTable longer = kNames;
  longer.push_back({"f", 1});
  CHECK_THROWS_AS(labels("f", longer), UserError);
  CHECK_THROWS_AS(labels("a", longer), UserError);
}

TEST_CASE("ClassesThatAModelLacksAreRefused") {
  CHECK(refusal(5, "5").find("0 to 4") != std::string::npos);
  CHECK(refusal(5, "-1").find("--class -1") != std::string::npos);
  CHECK(refusal(0, "1").find("unconditional") != std::string::npos);
  CHECK(refusal(5, "1", true).find("leave it out") != std::string::npos);
  CHECK(refusal(0, "").empty());
  CHECK(refusal(5, "", true).empty());
}

TEST_CASE("EveryRowComesInEveryClassSortedByClass") {
  const LabelledRows rows(2, {{3, 1}, true}, 100);
  REQUIRE(rows.size() == 4);
  CHECK((rows[0].row == 0 && rows[0].label == 3));
  CHECK((rows[1].row == 1 && rows[1].label == 3));
  CHECK((rows[3].row == 1 && rows[3].label == 1));
  REQUIRE(LabelledRows(2, {}, 100).size() == 2);
  CHECK(!LabelledRows(2, {}, 100)[1].label);
}

TEST_CASE("ClassesTakeTurnsWhereNobodyAskedForSoMany") {
  const LabelledRows rows(3, {{0, 1}, false}, 5);
  REQUIRE(rows.size() == 3);
  CHECK((rows[0].row == 0 && rows[0].label == 0));
  CHECK((rows[1].row == 2 && rows[1].label == 0));
  CHECK((rows[2].row == 1 && rows[2].label == 1));
  CHECK(LabelledRows(3, {{0, 1}, true}, 5).size() == 6);
  CHECK(LabelledRows(3, {{0, 1}, false}, 6).size() == 6);
}

TEST_CASE("RowsThatTakeTurnsAreSortedByClassAndEachComesOnce") {
  for (const int64_t count : {2, 4, 5, 6, 7}) {
    const LabelledRows rows(count, {{4, 5, 6, 7}, false}, 1);
    REQUIRE(rows.size() == count);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) {
      CHECK(rows[i].label == 4 + rows[i].row % 4);
      if (i > 0) CHECK(rows[i].label >= rows[i - 1].label);
      seen.push_back(rows[i].row);
    }
    std::sort(seen.begin(), seen.end());
    for (int64_t i = 0; i < count; ++i) CHECK(seen[static_cast<size_t>(i)] == i);
  }
}

namespace {

const ToyAbilities kVectors = {.classes = 3, .vectors = true};

ClassTable number_table() {
  ClassTable table = {{"red", 1}, {"size", 1}, {"age", 1}};
  table.ranges = {{.yes_or_no = true}, {.mean = 0.5}, {.mean = 40}};
  table.examples = {{1, 0.25f, 33}, {0, 0.75f, 47}};
  return table;
}

ClassChoice chosen(const std::string& label, const ToyAbilities& abilities = kVectors) {
  ModelRequest how = asked("");
  how.label = label;
  return choose_classes(ToyGenerator(abilities), how, number_table());
}

std::string label_refusal(Exit code, const std::string& label) {
  return user_error(code, [&] { chosen(label); });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("LabelsAreNumbersByName") {
  const ClassChoice one = chosen("red=1,age=7");
  CHECK(torch::equal(one.tensor(), torch::tensor({1.0f, 0.5f, 7.0f}).unsqueeze(0)));
  CHECK(LabelledRows(4, one, 9)[3].label == 0);
  CHECK(class_suffix(0, one).empty());
  // Without any, pictures have the labels of real ones in turn.
  const ClassChoice examples = chosen("");
  CHECK(examples.tensor().size(0) == 2);
  CHECK(LabelledRows(5, examples, 9)[3].label == 1);
  CHECK(LabelledRows(5, examples, 9)[3].row == 3);
  CHECK(class_line(LabelledRows(5, examples, 9), number_table()).empty());
  CHECK(has(label_refusal(Exit::kUsage, "rot=1"), "rot"));
  CHECK(has(label_refusal(Exit::kUsage, "red=1,red=0"), "red is there twice"));
  CHECK(has(user_error(Exit::kUsage, [] { chosen("red=1", {.classes = 3}); }), "--class"));
  CHECK(has(user_error(Exit::kUsage, [] { chosen("red=1", {.classes = 0}); }), "unconditional"));
}

TEST_CASE("AClassAmongTheNumbersOfVectorsLeavesOthersAsUsual") {
  const auto by_class = [](const std::string& classes) {
    return choose_classes(ToyGenerator(kVectors), asked(classes), number_table());
  };
  const ClassChoice red = by_class("red");
  CHECK(torch::equal(red.tensor(), torch::tensor({1.0f, 0.5f, 40.0f}).unsqueeze(0)));
  CHECK(LabelledRows(4, red, 9).size() == 4);
  CHECK(has(user_error(Exit::kUsage, [&] { by_class("0,age"); }),
            "age is no class, but a value from 0 to 0: --label age=40"));
}

TEST_CASE("LabelsComeFromFiles") {
  const TemporaryFolder folder;
  const auto csv = [&](const std::string& text) {
    write_file(folder / "l.csv", text);
    return (folder / "l.csv").string();
  };
  const auto rows = [&](const std::string& text) { return chosen(csv(text)).tensor(); };
  CHECK(torch::equal(rows("1,2,3\n4,5,6\n"), torch::arange(1, 7).to(at::kFloat).reshape({2, 3})));
  CHECK(torch::equal(rows("age,red\n9,1\n,0\n"),
                     torch::tensor({1.0f, 0.5f, 9.0f, 0.0f, 0.5f, 40.0f}).reshape({2, 3})));
  CHECK(
      torch::equal(rows("seed,size\n17,0.25\n"), torch::tensor({0.0f, 0.25f, 40.0f}).unsqueeze(0)));
  const auto error = [&](const std::string& text) {
    return label_refusal(Exit::kInput, csv(text));
  };
  CHECK(has(error("1,2\n"), "l.csv: line 1: 2 fields, and the model's labels have 3 numbers"));
  CHECK(has(error("1,2,3\n\n4,5\n"), "l.csv: line 3: 2 fields"));
  CHECK(has(error("red,size,age\n1,nan,2\n"), "l.csv: line 2: size: nan is no finite number"));
  CHECK(has(error("red,size,age\n1,x,2\n"), "l.csv: line 2: size: x is no finite number"));
  CHECK(has(error("1,x,1\n"), "l.csv: line 1: \"x\" is neither a finite number nor one of"));
  CHECK(has(error("red,sice\n1,2\n"), "labels by name; did you mean"));
  CHECK(has(error("red,size\n1,2\n1\n"), "l.csv: line 3: 1 field, and line 1 has 2 names"));
  CHECK(has(error("red,0\n1,2\n"), "l.csv: line 1: 0 is there twice"));
  CHECK(torch::equal(rows("red,size\n1,2\n"), torch::tensor({1.0f, 2.0f, 40.0f}).unsqueeze(0)));
  CHECK(has(error("red,size\n"), "l.csv: holds no label"));
  CHECK(has(label_refusal(Exit::kInput, (folder / "none.csv").string()), "none.csv"));
  const std::string npy = (folder / "l.npy").string();
  save_npy(npy, torch::tensor({1.0f, 2.0f, 3.0f}));
  CHECK(chosen(npy).tensor().sizes() == at::IntArrayRef({1, 3}));
  save_npy(npy, torch::zeros({2, 4}));
  CHECK(has(label_refusal(Exit::kInput, npy), "l.npy: shape [2, 4]; [N, 3] is needed"));
  save_npy(npy, torch::full({2, 3}, NAN));
  CHECK(has(label_refusal(Exit::kInput, npy), "l.npy: row 0 holds a value that is not finite"));
  // A file has one label for all pictures, or one for each.
  const ClassChoice two = chosen(csv("1,2,3\n4,5,6\n"));
  CHECK(LabelledRows(2, two, 9)[1].label == 1);
  CHECK(has(user_error(Exit::kUsage, [&] { LabelledRows(3, two, 9); }),
            "l.csv: 2 labels; one for all is needed, or one for each of 3 pictures"));
  CHECK(has(user_error(Exit::kUsage, [&] { LabelledRows(1, two, 9, "4 seeds"); }),
            "or one for each of 4 seeds"));
}

TEST_CASE("APainterDrawsVectors") {
  ToyGenerator generator(kVectors);
  Painter painter(generator, request(""));
  const ClassChoice choice = chosen("red=1,size=2,age=3");
  painter.use(choice.vectors);
  const at::Tensor label = torch::tensor({1.0f, 2.0f, 3.0f}).unsqueeze(0);
  CHECK(painter.picture(z(), 7, 0).equal(generator.images(z().unsqueeze(0), label, {})[0]));
  CHECK(painter.picture_of(z(), 7, label).equal(painter.picture(z(), 7, 0)));
  CHECK_FALSE(painter.picture_of(z(), 7, 2 * label).equal(painter.picture(z(), 7, 0)));
}

TEST_CASE("AMessageNamesTheClasses") {
  CHECK(class_line(LabelledRows(1, {{0, 2}, true}, 9), kNames) == "classes a, c");
  CHECK(class_line(LabelledRows(1, {{2}, true}, 9), kNames).empty());
  CHECK(class_line(LabelledRows(1, {{2}, false}, 9), kNames).empty());
  CHECK(class_line(LabelledRows(1, {{0, 1, 2}, false}, 2), kNames) ==
        "class a alone of 3; --class chooses");
  CHECK(class_line(LabelledRows(2, {{0, 1, 2}, false}, 5), kNames) ==
        "classes a, b of 3; --class chooses");
  CHECK(class_line(LabelledRows(2, {{0, 1, 2}, false}, 6), kNames) == "classes a, b, c");
  CHECK(class_line(LabelledRows(1, {{0, 1, 2, 3, 4, 5, 6, 7}, true}, 9), {}) ==
        "classes 0, 1, 2, 3, 4, 5 and 2 more");
}

namespace {

at::Tensor draw(int64_t seed, int64_t count) { return latents_of_seeds({seed}, count)[0]; }

double angle(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return std::acos(std::clamp((x.dot(y) / x.norm() / y.norm()).item<double>(), -1.0, 1.0));
}

}  // namespace

TEST_CASE("LatentsAreNumpys") {
  const TensorFile file = fixture("numpy_randn");
  const at::Tensor latents = latents_of_seeds({0, 1, 85, 12345}, 512);
  REQUIRE(latents.scalar_type() == at::kFloat);
  int64_t row = 0;
  for (const std::string seed : {"seed0", "seed1", "seed85", "seed12345"}) {
    CAPTURE(seed);
    CHECK(latents[row++].equal(file.tensors.at(seed + "/randn512").to(at::kFloat)));
  }
}

TEST_CASE("GreatCirclesKeepLengthAndSpeed") {
  const at::Tensor a = torch::tensor({1.0, 0.0, 0.0}, at::kDouble);
  const at::Tensor b = torch::tensor({-0.6, 0.8, 0.0}, at::kDouble);
  for (int i = 0; i <= 10; ++i) {
    const double t = i / 10.0;
    CAPTURE(t);
    const at::Tensor between = spherical(a, b, t);
    CHECK(between.norm().item<double>() == Approx(1).epsilon(1e-12));
    CHECK(angle(a, between) == Approx(t * angle(a, b)).margin(1e-7));
  }
}

TEST_CASE("EndsOfAWayAreExact") {
  const at::Tensor a = draw(1, 512), b = draw(2, 512);
  for (const auto between : {spherical, linear}) {
    CHECK(between(a, b, 0).equal(a));
    CHECK(between(a, b, 1).equal(b));
    CHECK(between(a, b, 0.5).scalar_type() == at::kFloat);
  }
}

TEST_CASE("StraightLinesAreStraight") {
  const at::Tensor a = draw(1, 8).view({2, 4}), b = draw(2, 8).view({2, 4});
  const at::Tensor expected = a + (b - a) * 0.3;
  CHECK(scaled_error(linear(a, b, 0.3), expected) < 1e-6);
}

TEST_CASE("AGreatCircleThroughParallelVectorsIsALine") {
  const at::Tensor a = draw(1, 16);
  CHECK(spherical(a, a, 0.4).equal(a));
  CHECK(scaled_error(spherical(a, 3 * a, 0.5), 2 * a) < 1e-6);
  CHECK(spherical(a, -a, 0.25).isfinite().all().item<bool>());
  CHECK(spherical(torch::zeros(4), torch::ones(4), 0.5).isfinite().all().item<bool>());
}

TEST_CASE("StylesOfAFileAreALayerARowOrOneForAll") {
  const TemporaryFolder folder;
  const at::Tensor full = draw(3, 24).view({2, 3, 4});
  save_npy(folder / "full.npy", full);
  CHECK(styles_of_file(folder / "full.npy", 3, 4).equal(full));
  const at::Tensor rows = draw(4, 8).view({2, 4});
  save_npy(folder / "rows.npy", rows);
  const at::Tensor broadcast = styles_of_file(folder / "rows.npy", 3, 4);
  REQUIRE(broadcast.sizes() == at::IntArrayRef({2, 3, 4}));
  for (int64_t layer = 0; layer < 3; ++layer) CHECK(broadcast.select(1, layer).equal(rows));
}

TEST_CASE("LatentsOfAnotherShapeAreNamedWithBothShapes") {
  const TemporaryFolder folder;
  save_npy(folder / "w.npy", draw(3, 24).view({2, 3, 4}));
  save_npy(folder / "z.npy", draw(3, 24).view({4, 6}));
  save_npy(folder / "one.npy", draw(3, 4));
  for (const std::string name : {"w.npy", "z.npy", "one.npy"}) {
    const std::string z = input_error([&] { latents_of_file(folder / name, 4); });
    CAPTURE(name, z);
    CHECK(z.find(name) != std::string::npos);
    CHECK(z.find("[N, 4]") != std::string::npos);
    const std::string w = input_error([&] { styles_of_file(folder / name, 5, 4); });
    CHECK(w.find(name) != std::string::npos);
    CHECK(w.find("[N, 5, 4]") != std::string::npos);
    CHECK(w.find("[N, 4]") != std::string::npos);
  }
  CHECK(input_error([&] { latents_of_file(folder / "w.npy", 4); }).find("[2, 3, 4]") !=
        std::string::npos);
}

TEST_CASE("LatentsThatAreNotFiniteAreRefused") {
  const TemporaryFolder folder;
  at::Tensor z = draw(3, 4).view({1, 4}).clone();
  z[0][2] = std::nanf("");
  save_npy(folder / "z.npy", z);
  CHECK(input_error([&] { latents_of_file(folder / "z.npy", 4); }).find("not finite") !=
        std::string::npos);
}

}  // namespace gantrain
