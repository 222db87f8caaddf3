// SPDX-License-Identifier: Apache-2.0
#include "data/labels/labels.h"

#include "data/picture_files.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

using Numbers = std::vector<int64_t>;

namespace {

std::string json_error(std::string_view json) {
  return input_error([&] { labels_of_json(json, "dataset.json", {"a.png"}); });
}

}  // namespace

TEST_CASE("FoldersAreClassesInOrderOfTheirNames") {
  const Labels labels = labels_of_folders({"dogs/1.png", "cats/1.png", "dogs/deep/2.png"});
  CHECK(labels.classes == 2);
  CHECK(labels.of == Numbers{1, 0, 1});
}

TEST_CASE("FoldersAreNoClassesWherePicturesLieOutside") {
  CHECK(labels_of_folders({"1.png", "cats/1.png", "dogs/1.png"}).classes == 0);
  CHECK(labels_of_folders({"1.png", "2.png"}).classes == 0);
  CHECK(labels_of_folders({}).classes == 0);
}

TEST_CASE("APictureBesideFoldersThatAreNoClassesForItIsNamed") {
  keep_log_lines();
  const auto said = [](Files files, const std::function<void(DataOptions&)>& change) {
    for (const char* name : {"cat/1.png", "dog/2.png"}) files.emplace_back(name, one_color(1));
    const Scratch scratch;
    DataOptions options = at(lay_out(scratch, files, "folder"));
    change(options);
    take_kept_lines();
    open_dataset(options);
    return join(take_kept_lines(), "\n");
  };
  const auto nothing = [](DataOptions&) {};
  const Files one = {{"sheet.png", one_color(2)}};
  CHECK(
      contains(said(one, nothing),
               "set: its 2 sub-folders are not taken for classes, since 1 picture lies in none of "
               "them (sheet.png); move or remove what is no picture of a class, or --set "
               "data.unlabelled=keep (data inspect and data pack: --unlabelled keep)"));
  CHECK(contains(said({{"sheet.png", one_color(2)}, {"thumb.png", one_color(3)}}, nothing),
                 "since 2 pictures lie in none of them (sheet.png, ...)"));
  CHECK_FALSE(contains(said({}, nothing), "sub-folders"));
  CHECK_FALSE(contains(said(one, [](DataOptions& o) { o.labels = "none"; }), "sub-folders"));
  CHECK_FALSE(contains(said(one, [](DataOptions& o) { o.cond = Cond::kOff; }), "sub-folders"));
  CHECK_FALSE(
      contains(said(one, [](DataOptions& o) { o.unlabelled = Unlabelled::kKeep; }), "sub-folders"));
}

TEST_CASE("FoldersThatHoldEverythingAreLookedThrough") {
  const Labels labels = labels_of_folders({"all/cat/1.png", "all/catfish/1.png"});
  CHECK(labels.of == Numbers{0, 1});
  CHECK(labels_of_folders({"all/1.png", "all/2.png"}).classes == 0);
  CHECK(labels_of_folders({"all/1.png"}).classes == 0);
}

TEST_CASE("JsonLabelsGoByPath") {
  const Labels labels = labels_of_json(R"({"labels": [["b.png", 4], ["x\\a.png", 0], ["c", 9]]})",
                                       "dataset.json",
                                       {"b.png", "x/a.png"});
  CHECK(labels.classes == 5);
  CHECK(labels.of == Numbers{4, 0});
}

TEST_CASE("JsonWithoutLabelsGivesNone") {
  CHECK(labels_of_json(R"({"labels": null})", "j", {"a/1.png", "b/1.png"}).classes == 0);
  CHECK(labels_of_json("{}", "j", {"a/1.png"}).of.empty());
}

TEST_CASE("JsonThatMakesNoSenseIsNamed") {
  CHECK(json_error("{") == "dataset.json: not a JSON object");
  CHECK(json_error("[]") == "dataset.json: not a JSON object");
  CHECK(json_error(R"({"labels": 3})").find("must be null or a list") != std::string::npos);
  CHECK(json_error(R"({"labels": ["a.png"]})").find("must be [\"path\", class]") !=
        std::string::npos);
  CHECK(json_error(R"({"labels": [["a.png", -1]]})").find("the class of a.png") !=
        std::string::npos);
  CHECK(json_error(R"({"labels": [["a.png", 0.5]]})").find("the class of a.png") !=
        std::string::npos);
  CHECK(
      json_error(R"({"labels": [["b.png", 0]]})") ==
      "dataset.json: no label for a.png; complete it, or --set data.labels=none (data inspect and "
      "data pack: --labels none) does without, and --set data.unlabelled=keep (--unlabelled keep) "
      "takes such pictures as they are");
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  CHECK(json_error(R"({"labels": [["a.png", 0]], "classes": )" + deep + "}") ==
        "dataset.json: \"classes\" must be a list of the classes' names");
  CHECK(json_error(R"({"labels": [["a.png", )" + deep + "]]}").find("the class of a.png") !=
        std::string::npos);
}

TEST_CASE("TwoLabelsOfOneFileAreFoundHoweverItIsWritten") {
  const auto error_of = [](const std::string& path) {
    return input_error([&] {
      labels_of_rows({{path, "x"}, {"d/a.png", "y"}}, LabelColumns{}, "list.csv", {"d/a.png"});
    });
  };
  for (const char* path : {"d/a.png", "./d/a.png", "d\\a.png", ".\\d\\a.png"}) {
    CAPTURE(path);
    CHECK(error_of(path) == "list.csv: two labels for d/a.png: x and y");
  }
}

TEST_CASE("AFoundListCountsWhereItNamesAPicture") {
  const std::vector<std::string> pictures = {"d/a.png"};
  const auto rows = [&](const std::string& path) {
    return found_labels_of_rows({{path, "x"}}, LabelColumns{}, "list.csv", pictures);
  };
  for (const char* path : {"d/a.png", "d/a", "a.png", "a"}) CHECK(rows(path).has_value());
  CHECK_FALSE(rows("b.png").has_value());
  const auto json = [&](const char* text) { return found_labels_of_json(text, "j", pictures); };
  for (const char* text : {"[]", "3", "{}", R"({"labels": 3})", R"({"labels": [["b.png", 0]]})"}) {
    CAPTURE(text);
    CHECK_FALSE(json(text).has_value());
  }
  CHECK(json(R"({"labels": [["a.png", 1]]})")->of == Numbers{1});
  CHECK(json(R"({"labels": null})")->classes == 0);
  CHECK(input_error([&] { json("{"); }).find("j: not JSON") == 0);
  CHECK(input_error([&] { json(R"({"labels": [["a.png", -1]]})"); }).find("class of a.png") !=
        std::string::npos);
}

namespace {

using Rows = std::vector<std::vector<std::string>>;

const Files kTwo = {{"x/1.png", one_color(1)}, {"x/2.png", one_color(2)}};

Files with(const std::string& name, const std::string& content) {
  Files files = kTwo;
  files.emplace_back(name, content);
  return files;
}

std::string classes_of(const Dataset& data) {
  std::string all;
  for (int64_t i = 0; i < data.size() && data.classes() > 0; ++i) {
    all += (i > 0 ? " " : "") + data.class_name(data.label(i));
  }
  return all;
}

}  // namespace

TEST_CASE("CsvIsReadAsItsStandardSays") {
  CHECK(read_csv("a,b\n\"c, d\",\"say \"\"e\"\"\"\r\n\n f , \n", "n") ==
        Rows{{"a", "b"}, {"c, d", "say \"e\""}, {"f", ""}});
  CHECK(read_csv("\xef\xbb\xbf"
                 "a;b\n1;\"2\n3\"",
                 "n") == Rows{{"a", "b"}, {"1", "2\n3"}});
  CHECK(read_csv("a\tb c\n", "n") == Rows{{"a", "b c"}});
  CHECK(read_csv("", "n").empty());
  CHECK(read_csv("a,", "n") == Rows{{"a", ""}});
  CHECK(input_error([] { read_csv("a,b\n\"c,d", "list.csv"); }) ==
        "list.csv: line 2: a quote is not closed");
}

TEST_CASE("ColumnsAreFoundByTheirNames") {
  const auto columns = label_columns({{"id", "Filename", "Class"}, {"0", "a.png", "cat"}});
  REQUIRE(columns);
  CHECK(columns->file == 1);  // likelier than "id"
  CHECK(columns->label == 2);
  CHECK(columns->header);
  CHECK_FALSE(label_columns({{"a.png", "cat"}, {"b.png", "dog"}})->header);
  CHECK_FALSE(label_columns({{"file_name", "text"}, {"a.png", "a cat"}}));
  CHECK_FALSE(label_columns({{"a", "b", "c"}}));
  CHECK_FALSE(label_columns({}));
}

TEST_CASE("LabelsComeFromACsvInTheData") {
  const std::string kind = any_kind();
  const std::string name = GENERATE("labels.csv", "x/metadata.csv");
  const bool inside = name[0] == 'x';
  const std::string folder = inside ? "" : "x/";
  const Scratch names;
  const auto data = open_dataset(at(lay_out(
      names,
      with(name, fmt::format("file_name,label\n{0}1.png,zebra\n{0}2.png,\"ant, red\"\n", folder)),
      kind)));
  CHECK(data->classes() == 2);
  CHECK(classes_of(*data) == "zebra ant, red");
  CHECK(data->label(0) == 1);
  CHECK_FALSE(contains(data->description(), "ignored"));
  const Scratch numbers;
  const auto numbered =
      open_dataset(at(lay_out(numbers, with(name, "1.png,4\n2,0.0\nother.png,9\n"), kind)));
  CHECK(numbered->classes() == 5);
  CHECK(classes_of(*numbered) == "4 0");
}

TEST_CASE("LabelsComeFromACsvBesideAnArchive") {
  const Scratch scratch;
  const std::string path = lay_out(scratch, kTwo, GENERATE("stored", "tar", "tar.gz"));
  CHECK(open_dataset(at(path))->classes() == 0);
  scratch.write("labels.csv", "x/1.png,b\nx/2.png,a\n");
  CHECK(classes_of(*open_dataset(at(path))) == "b a");
  scratch.write("labels.csv", "of/another/archive.png,b\n");
  CHECK(open_dataset(at(path))->classes() == 0);
  scratch.write("set.csv", "x/1.png,c\nx/2.png,d\n");
  CHECK(classes_of(*open_dataset(at(path))) == "c d");
}

TEST_CASE("AGivenListOfLabelsWins") {
  const Scratch scratch;
  DataOptions options =
      at(lay_out(scratch, with("dataset.json", R"({"labels": null})"), any_kind()));
  scratch.write("elsewhere/list.csv", "1.png,b\n2.png,a\n");
  options.labels = scratch.path("elsewhere/list.csv");
  CHECK(classes_of(*open_dataset(options)) == "b a");
  scratch.write(
      "elsewhere/list.json",
      R"({"labels": [["x/1.png", [0, 1]], ["x/2.png", [1.0, 0]]], "classes": ["u", "v"]})");
  options.labels = scratch.path("elsewhere/list.json");
  CHECK(classes_of(*open_dataset(options)) == "v u");
  options.labels = scratch.path("none.csv");
  CHECK(contains(open_error(options), "none.csv: "));
  scratch.write("elsewhere/list.csv", "file_name,text\n1.png,a cat\n");
  options.labels = scratch.path("elsewhere/list.csv");
  CHECK(contains(open_error(options), "no columns of files and labels"));
}

TEST_CASE("LabelsComeFromFilesBesideThePictures") {
  const Scratch scratch;
  const std::string kind = any_kind();
  Files files = {{"0001.png", one_color(1)},
                 {"0001.cls", "7\n"},
                 {"0002.v2.png", one_color(2)},
                 {"0002.cls", "3"}};
  CHECK(classes_of(*open_dataset(at(lay_out(scratch, files, kind)))) == "7 3");
  const Scratch json;
  files = {{"0001.png", one_color(1)},
           {"0001.json", R"({"label": "cat", "width": 16})"},
           {"0002.png", one_color(2)},
           {"0002.json", R"({"label": "ape"})"}};
  CHECK(classes_of(*open_dataset(at(lay_out(json, files, kind)))) == "cat ape");
  files.back().second = "{}";
  const Scratch missing;
  CHECK(contains(open_error(at(lay_out(missing, files, kind))), "0002.png has no label beside it"));
  files[1].second = R"({"caption": "a cat"})";
  const Scratch none;
  CHECK(open_dataset(at(lay_out(none, files, kind)))->classes() == 0);
}

TEST_CASE("NamesOfClassesComeFromFolders") {
  const Scratch scratch;
  const auto data = open_dataset(
      at(lay_out(scratch, {{"dog/1.png", one_color(1)}, {"cat/2.png", one_color(2)}}, any_kind())));
  CHECK(classes_of(*data) == "cat dog");
  DataOptions shapes = at("synth:shapes");
  CHECK(open_dataset(shapes)->class_name(0) == "disc");
  CHECK(open_dataset(shapes)->class_name(9) == "diamond");
}

TEST_CASE("AContainerInsideAFolderWithoutPicturesIsPointedTo") {
  const Scratch scratch;
  scratch.write("lsun/val_lmdb/data.mdb", "anything");
  CHECK(contains(open_error(at(scratch.path("lsun"))), "val_lmdb/?"));
  scratch.write("zips/a.ZIP", "anything");
  CHECK(contains(open_error(at(scratch.path("zips"))), "zips/a.ZIP?"));
}

TEST_CASE("LabelsCanBeLeftOut") {
  const Scratch scratch;
  DataOptions options = at(lay_out(scratch, with("labels.csv", "x/1.png,1\n"), any_kind()));
  CHECK(
      contains(open_error(options),
               "--set data.labels=none (data inspect and data pack: --labels none) does without"));
  options.labels = "none";
  CHECK(open_dataset(options)->classes() == 0);
}

TEST_CASE("NamesOfClassesAreValidText") {
  const Scratch scratch;
  scratch.write("caf\xe9/1.png", one_color(1));
  scratch.write("tea/2.png", one_color(2));
  CHECK(open_dataset(at(scratch.path()))->class_name(0) == "caf\xef\xbf\xbd");
}

TEST_CASE("LabelsThatAreWrongAreNamed") {
  const auto error_of = [](const std::string& name, const std::string& content) {
    const Scratch scratch;
    return open_error(at(lay_out(scratch, with(name, content), "folder")));
  };
  CHECK(contains(error_of("labels.csv", "x/1.png,1\n"), "labels.csv: no label for x/2.png"));
  CHECK(contains(error_of("labels.csv", "x/1.png,1\nx/2.png,-1\n"), "the class of x/2.png is -1"));
  CHECK(contains(error_of("labels.csv", "\n\nfile,label\nx/1.png,1\nx/2.png\n"),
                 "labels.csv: line 5: 1 field only"));
  CHECK(contains(error_of("labels.csv", "x/1.png,1\nx/2.png,0.5\n"), "x/2.png is 0.5"));
  CHECK(contains(error_of("labels.csv", "x/1.png,a\nx/1.png,b\nx/2.png,b\n"),
                 "two labels for x/1.png: a and b"));
  CHECK(contains(
      error_of("dataset.json", R"({"labels": [["x/1.png", 0], ["x/2.png", 1]], "classes": ["u"]})"),
      "names 1 class, and the labels go up to 1"));
  CHECK(contains(error_of("dataset.json",
                          R"({"labels": [["x/1.png", 0], ["x/2.png", 1]], "classes": [1, 2]})"),
                 "must be a list of the classes' names"));
}

TEST_CASE("ANumberThatIsMistypedMakesNoThousandsOfClasses") {
  std::vector<std::string> pictures, texts;
  for (int i = 0; i < 12; ++i) {
    pictures.push_back(fmt::format("{}.png", i));
    texts.push_back(std::to_string(i % 3));
  }
  const auto error_of = [&](size_t picture, const std::string& text) {
    std::vector<std::string> labels = texts;
    labels[picture] = text;
    return input_error([&] { labels_of_texts(labels, "list.csv", pictures); });
  };
  CHECK(contains(error_of(5, "100000"),
                 "list.csv: class 100000 of 5.png would make 100001 classes, 99997 of them without "
                 "a picture"));
  CHECK(error_of(5, "1000").empty());  // as a part of ImageNet has
  CHECK(contains(error_of(7, "x"),
                 "list.csv: 1 picture has a class that is no number (x of 7.png), and the other 11 "
                 "have numbers"));
  CHECK(contains(error_of(7, "1.5"), "the class of 7.png is 1.5"));
  // Names that happen to be numbers do not count classes.
  const Labels decades =
      labels_of_texts({"1950", "1960", "unknown"}, "list.csv", {"a.png", "b.png", "c.png"});
  CHECK(decades.names == std::vector<std::string>{"1950", "1960", "unknown"});
}

TEST_CASE("LabelsThatReplaceOrServeOthersAreWarnedOf") {
  const auto warned = [](const auto& action) {
    keep_log_lines();
    take_kept_lines();
    action();
    return join(take_kept_lines(), "\n");
  };
  CHECK(contains(warned([] {
                   CHECK(labels_of_json(R"({"labels": [["a.png", 0], ["b.png", 1], ["a.png", 1]]})",
                                        "dataset.json",
                                        {"a.png", "b.png"})
                             .of == Numbers{1, 1});
                 }),
                 "dataset.json: 1 file has two labels (a.png (0 and 1)): the last label counts"));
  CHECK(contains(
      warned([] {
        labels_of_rows(
            {{"a.png", "u"}}, LabelColumns{}, "list.csv", {"x/a.png", "y/a.png", "z/a.png"});
      }),
      "list.csv: 2 more pictures have the label of another one of the same name (x/a.png "
      "and y/a.png, x/a.png and z/a.png)"));
  CHECK(warned([] {
          labels_of_rows({{"x/a.png", "u"}, {"y/a.png", "v"}},
                         LabelColumns{},
                         "list.csv",
                         {"x/a.png", "y/a.png"});
        }).empty());
}

TEST_CASE("ListsAboutSomethingElseAreNotUsed") {
  const std::string kind = any_kind();
  for (const auto& [name, content] :
       Files{{"labels.csv", "0,cat\n1,dog\n"},
             {"labels.csv", "0,cat\n0,dog\n"},
             {"metadata.csv", "id,label\n0,cat\n1\n"},
             {"dataset.json", "{}"},
             {"dataset.json", "[1, 2]"},
             {"dataset.json", R"({"labels": [3, ["of/another.png", -1]]})"}}) {
    CAPTURE(name, content);
    const Scratch scratch;
    const auto data = open_dataset(
        at(lay_out(scratch,
                   {{"cat/a.png", one_color(1)}, {"dog/b.png", one_color(2)}, {name, content}},
                   kind)));
    CHECK(classes_of(*data) == "cat dog");
    CHECK(contains(data->description(), " ignored"));
  }
}

TEST_CASE("ListsBesideAnArchiveAreFoundByAnyNameOfAPicture") {
  const Scratch scratch;
  const Files files = {{"cat/1.png", one_color(1)}, {"dog/2.png", one_color(2)}};
  const std::string path = lay_out(scratch, files, GENERATE("stored", "tar"));
  for (const char* other : {"[1, 2]", R"({"info": "photos of mine"})", R"({"labels": []})"}) {
    scratch.write("set.json", other);
    CHECK(classes_of(*open_dataset(at(path))) == "cat dog");
  }
  scratch.write("labels.csv", "1.png,b\n2.png,a\n");
  CHECK(classes_of(*open_dataset(at(path))) == "b a");
  scratch.write("labels.csv", "1,d\n2,c\n");
  CHECK(classes_of(*open_dataset(at(path))) == "d c");
}

TEST_CASE("ListsThatAreFarTooLargeAreRefusedBeforeTheyAreParsed") {
  const std::string commas((size_t{1} << 20) + 2 * 4096 + 1, ',');
  const std::string name = GENERATE("labels.csv", "dataset.json");
  const std::string kind = GENERATE("folder", "stored", "deflated", "tar");
  const Scratch scratch;
  DataOptions options = at(lay_out(scratch, with(name, commas), kind));
  CHECK(contains(open_error(options), name + ": 1056769 bytes are too many for the labels of 2 "));
  options.labels = "none";
  CHECK(open_dataset(options)->classes() == 0);
  scratch.write("given.csv", commas);
  options.labels = scratch.path("given.csv");
  CHECK(contains(open_error(options), "given.csv: 1056769 bytes are too many"));
  const Scratch sidecar;
  CHECK(contains(open_error(at(lay_out(sidecar, with("x/1.cls", std::string(1025, '7')), kind))),
                 "x/1.cls: not a class"));
}

TEST_CASE("AFirstPictureWithoutItsLabelIsNamed") {
  const Scratch scratch;
  CHECK(contains(open_error(at(lay_out(scratch, with("x/2.cls", "3"), any_kind()))),
                 "x/1.png has no label beside it"));
  const Scratch other;  // beside no picture
  CHECK(open_dataset(at(lay_out(other, with("x/article.cls", "3"), "folder")))->classes() == 0);
}

}  // namespace gantrain
