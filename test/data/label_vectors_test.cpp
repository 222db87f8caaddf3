// SPDX-License-Identifier: Apache-2.0
// Labels that are several numbers a picture: from dataset.json, CSV files and folders; missing
// ones; what is refused, with the file and the entry.
#include <cmath>

#include "core/torch.h"
#include "data/labels/labels.h"
#include "data/load/loader.h"
#include "data/picture_files.h"
#include "data/pictures/manifest.h"
#include "support/process_memory.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

using NumberRows = std::vector<std::vector<float>>;
using Names = std::vector<std::string>;

const Names kThree = {"a.png", "b.png", "c.png"};

NumberRows numbers_of(const LabelVectors& vectors) {
  NumberRows rows;
  for (size_t i = 0; i < vectors.values.size(); i += vectors.names.size()) {
    const auto first = vectors.values.begin() + static_cast<long>(i);
    rows.emplace_back(first, first + vectors.length());
  }
  return rows;
}

Labels of_json(const std::string& labels, const std::string& more = "") {
  return labels_of_json(R"({"labels": )" + labels + more + "}", "dataset.json", kThree);
}

std::string entry_error(const std::string& labels, const std::string& more = "") {
  return input_error([&] { of_json(labels, more); });
}

// A data set of three pictures with labels.csv.
std::string csv_folder(const Scratch& scratch, const std::string& csv) {
  Files files = {{"labels.csv", csv}};
  for (const std::string& name : kThree) files.emplace_back(name, one_color(1));
  return lay_out(scratch, files, "folder");
}

std::string table_error(const std::string& csv) {
  const Scratch scratch;
  return open_error(at(csv_folder(scratch, csv)));
}

NumberRows table_numbers(const std::string& csv) {
  const Scratch scratch;
  return numbers_of(open_dataset(at(csv_folder(scratch, csv)))->vectors());
}

std::string lines_of(const std::function<void()>& action) {
  keep_log_lines();
  take_kept_lines();
  action();
  return join(take_kept_lines(), "\n");
}

}  // namespace

TEST_CASE("ListsOfNumbersAreVectors") {
  const Labels labels =
      of_json(R"([["a.png", [1, 0, 0.5]], ["b.png", [1, 1, -2]], ["c.png", [0, 0, 1e-3]]])",
              R"(, "attributes": ["red", "large", "angle"])");
  CHECK(labels.classes == 0);
  CHECK(labels.vectors.names == Names{"red", "large", "angle"});
  CHECK(numbers_of(labels.vectors) == NumberRows{{1, 0, 0.5f}, {1, 1, -2}, {0, 0, 1e-3f}});
  CHECK(labels.vectors.unlabelled() == 0);
  const Labels several = of_json(R"([["a.png", [1, 1]], ["b.png", [0, 0]], ["c.png", [0, 1]]])");
  CHECK(several.vectors.names == Names{"0", "1"});
  CHECK(numbers_of(several.vectors) == NumberRows{{1, 1}, {0, 0}, {0, 1}});
}

TEST_CASE("ListsWithASingleOneStayClasses") {
  const Labels labels = of_json(R"([["a.png", [0, 1]], ["b.png", [1, 0]], ["c.png", [0, 1]]])");
  CHECK(labels.classes == 2);
  CHECK(labels.of == std::vector<int64_t>{1, 0, 1});
  CHECK(labels.vectors.length() == 0);
}

TEST_CASE("ListsWithASingleOneHaveNamesAndAsManyClassesAsNumbers") {
  const std::string lists = R"([["a.png", [0, 1, 0]], ["b.png", [1, 0, 0]], ["c.png", [0, 1, 0]]])";
  const Names colours = {"red", "blue", "green"};
  for (const char* key : {"attributes", "label_names", "classes"}) {
    CAPTURE(key);
    const Labels labels = of_json(lists, fmt::format(R"(, "{}": ["red", "blue", "green"])", key));
    CHECK(labels.classes == 3);
    CHECK(labels.of == std::vector<int64_t>{1, 0, 1});
    CHECK(labels.names == colours);
    CHECK(labels.vectors.length() == 0);
  }
  CHECK(of_json(lists).classes == 3);
  CHECK(of_json(lists).names.empty());
  // Names of other numbers than the list has: none of "attributes", as many classes as "classes".
  CHECK(of_json(lists, R"(, "attributes": ["red"])").names.empty());
  const Labels two = of_json(lists, R"(, "classes": ["red", "blue"])");
  CHECK(two.classes == 2);
  CHECK(two.names == Names{"red", "blue"});
  CHECK(contains(entry_error(lists, R"(, "classes": ["red"])"),
                 "names 1 class, and the labels go up to 1"));

  const Scratch scratch;
  const std::string csv = "file_name,red,blue,green\na.png,0,1,0\nb.png,1,0,0\nc.png,0,1,0\n";
  DataOptions options = at(csv_folder(scratch, csv));
  const auto data = open_dataset(options);
  CHECK(data->classes() == 3);
  CHECK(data->class_name(data->label(0)) == "blue");
  CHECK(data->class_name(2) == "green");
  // A run that was begun with two goes on with two, as long as no picture has the third.
  options.most_classes = 2;
  CHECK(open_dataset(options)->classes() == 2);
  CHECK(open_dataset(options)->class_name(1) == "blue");
  options.most_classes = 1;
  CHECK(open_dataset(options)->classes() == 3);
}

TEST_CASE("NamesInListsAreSeveralClasses") {
  const Labels labels = of_json(R"([["a.png", ["red", "large"]], ["b.png", ["blue"]],
                                    ["c.png", ["blue", "large"]]])");
  CHECK(labels.vectors.names == Names{"blue", "large", "red"});
  CHECK(numbers_of(labels.vectors) == NumberRows{{0, 1, 1}, {1, 0, 0}, {1, 1, 0}});
}

// 20,000 pictures with a tag of their own would be 1.6 GB of numbers.
TEST_CASE("TooManyNamesAreRefusedBeforeTheyTakeMemory") {
  Names pictures;
  std::string labels, values;
  for (int i = 0; i < 20'000; ++i) {
    pictures.push_back(fmt::format("{:05}.png", i));
    const char* comma = i == 0 ? "" : ",";
    labels += fmt::format(R"({}["{}", ["tag {}"]])", comma, pictures.back(), i);
    values += fmt::format(R"({}["{}", {{"tag {}": 1}}])", comma, pictures.back(), i);
  }
  const AddressSpaceLimit limit(static_cast<rlim_t>(process_memory().addresses) + (512 << 20));
  for (const std::string& said : {labels, values}) {
    CHECK(input_error([&] {
            labels_of_json(R"({"labels": [)" + said + "]}", "dataset.json", pictures);
          }) == "dataset.json: labels of 20000 numbers; at most 4096");
  }
}

TEST_CASE("ObjectsAreNumbersByName") {
  const Labels labels = of_json(R"([["a.png", {"size": 0.25, "red": 1}],
                                    ["b.png", {"size": 0.75}], ["c.png", {"red": 0, "size": 0.5}]])");
  CHECK(labels.vectors.names == Names{"red", "size"});
  CHECK(numbers_of(labels.vectors) == NumberRows{{1, 0.25f}, {0, 0.75f}, {0, 0.5f}});
  CHECK_FALSE(labels.vectors.is_given(1, 0));
  CHECK(labels.vectors.is_given(2, 0));
}

TEST_CASE("MissingNumbersAreZerosForClassesAndMeansForValues") {
  Labels labels;
  const std::string said = lines_of([&] {
    labels = of_json(R"([["a.png", [1, 0.25]], ["b.png", null], ["c.png", [null, 0.75]]])");
  });
  CHECK(numbers_of(labels.vectors) == NumberRows{{1, 0.25f}, {0, 0.5f}, {0, 0.75f}});
  CHECK(labels.vectors.unlabelled() == 1);
  CHECK(contains(said, "dataset.json: 1 picture without a label, and 1 number missing"));
  // A picture that the list of vectors does not name counts as one without a label.
  labels = of_json(R"([["a.png", [1, 0.25]], ["c.png", [0, 0.75]]])");
  CHECK(numbers_of(labels.vectors) == NumberRows{{1, 0.25f}, {0, 0.5f}, {0, 0.75f}});
}

TEST_CASE("ClassesOfWhichSomeAreMissingBecomeVectors") {
  const Labels labels =
      of_json(R"([["a.png", 1], ["b.png", null], ["c.png", 0]])", R"(, "classes": ["u", "v"])");
  CHECK(labels.classes == 0);
  CHECK(labels.vectors.names == Names{"u", "v"});
  CHECK(numbers_of(labels.vectors) == NumberRows{{0, 1}, {0, 0}, {1, 0}});
  CHECK(table_numbers("file,label\na.png,x\nb.png,\nc.png,y\n") ==
        NumberRows{{1, 0}, {0, 0}, {0, 1}});
  CHECK(numbers_of(
            of_json(R"([["a.png", [0, 0, 1]], ["b.png", null], ["c.png", [1, 0, 0]]])").vectors) ==
        NumberRows{{0, 0, 1}, {0, 0, 0}, {1, 0, 0}});
}

TEST_CASE("UnlabelledPicturesAreKeptOrRefused") {
  const Scratch scratch;
  DataOptions options = at(csv_folder(scratch, "a.png,x\nc.png,y\n"));
  CHECK(contains(open_error(options), "labels.csv: no label for b.png"));
  options.unlabelled = Unlabelled::kKeep;
  CHECK(numbers_of(open_dataset(options)->vectors()) == NumberRows{{1, 0}, {0, 0}, {0, 1}});
  const Scratch vectors;
  options.path = csv_folder(vectors, "file,s\na.png,0.5\nb.png,\nc.png,1.5\n");
  CHECK(numbers_of(open_dataset(options)->vectors()) == NumberRows{{0.5f}, {1}, {1.5f}});
  options.unlabelled = Unlabelled::kRefuse;
  CHECK(contains(open_error(options), "the label of b.png is empty"));
}

TEST_CASE("ColumnsOfNumbersAreVectors") {
  const std::string csv = "file_name,red,size\na.png,1,0.5\nc.png,0,-1e2\n\nb.png,1,.25\n";
  const Scratch scratch;
  const auto data = open_dataset(at(csv_folder(scratch, csv)));
  CHECK(data->classes() == 0);
  CHECK(data->vectors().names == Names{"red", "size"});
  CHECK(numbers_of(data->vectors()) == NumberRows{{1, 0.5f}, {1, 0.25f}, {0, -100}});
  CHECK(contains(data->description(), "labels of 2 numbers"));
  CHECK(table_numbers("a.png;1;2\nb.png;3;4\nc.png;5;6\n") == NumberRows{{1, 2}, {3, 4}, {5, 6}});
  CHECK(table_numbers("size,file\n1,a.png\n2,b.png\n3,c.png\n") == NumberRows{{1}, {2}, {3}});
}

TEST_CASE("BarsInAColumnOfLabelsAreSeveralClasses") {
  CHECK(table_numbers("file,labels\na.png,x|z\nb.png,y\nc.png,z | y\n") ==
        NumberRows{{1, 0, 1}, {0, 1, 0}, {0, 1, 1}});
}

TEST_CASE("FoundColumnsOfOtherListsAreNoLabels") {
  const Scratch scratch;
  const std::string path =
      lay_out(scratch,
              {{"a.png", one_color(1)}, {"metadata.csv", "file_name,width,height\na.png,16,16\n"}},
              any_kind());
  DataOptions options = at(path);
  CHECK(open_dataset(options)->vectors().length() == 0);
  options.labels = "metadata.csv";
  CHECK(numbers_of(open_dataset(options)->vectors()) == NumberRows{{16, 16}});
}

TEST_CASE("FoldersGiveVectorsToo") {
  const Names joined = {"blue/1.png", "red+blue/2.png", "red/3.png"};
  const Labels several = labels_of_folders(joined);
  CHECK(several.vectors.names == Names{"blue", "red"});
  CHECK(numbers_of(several.vectors) == NumberRows{{1, 0}, {1, 1}, {0, 1}});
  const Labels numbers =
      labels_of_folders({"size=0.5,angle=-1/1.png", "size=1,angle=2/2.png", "3.png"});
  CHECK(numbers.vectors.names == Names{"angle", "size"});
  CHECK(numbers_of(numbers.vectors) == NumberRows{{-1, 0.5f}, {2, 1}, {0.5f, 0.75f}});
  const Names loose = {"1.png", "cat/1.png", "dog/1.png"};
  CHECK(labels_of_folders(loose).none());
  CHECK(numbers_of(labels_of_folders(loose, Unlabelled::kKeep).vectors) ==
        NumberRows{{0, 0}, {1, 0}, {0, 1}});
  // A plus that joins no folders' names belongs to the name.
  CHECK(labels_of_folders({"C++/1.png", "C/2.png"}).classes == 2);
  CHECK(labels_of_folders({"a+x/1.png", "a/2.png"}).classes == 2);
  CHECK(contains(input_error([] { labels_of_folders({"s=1/1.png", "s=nan/2.png"}); }), "s=nan"));
}

TEST_CASE("EntriesOfOtherLengthsOrKindsAreNamed") {
  CHECK(entry_error(R"([["a.png", [1, 0, 1]], ["b.png", [1, 1]], ["c.png", [0, 0, 1]]])") ==
        "dataset.json: the label of b.png: 2 numbers, and the label of a.png has 3 numbers; labels "
        "of all pictures are of one kind and length");
  CHECK(contains(entry_error(R"([["a.png", [1, 0.5]], ["b.png", 3], ["c.png", [0, 1]]])"),
                 "dataset.json: the label of b.png: the class 3, and the label of a.png has 2"));
  CHECK(contains(entry_error(R"([["a.png", 0], ["b.png", [1, 0]], ["c.png", 1]])"),
                 "the label of b.png: 2 numbers, and the label of a.png has the class 0"));
  CHECK(contains(entry_error(R"([["a.png", ["x"]], ["b.png", {"y": 1}], ["c.png", ["x"]]])"),
                 "the label of b.png: numbers by name"));
  CHECK(contains(entry_error(R"([["a.png", [1, 0.5]], ["b.png", [1, "x"]], ["c.png", [0, 1]]])"),
                 "dataset.json: the class of b.png or its vector: its number 1 is no number"));
  CHECK(contains(entry_error(R"([["a.png", []], ["b.png", []], ["c.png", []]])"), "has no number"));
  CHECK(contains(entry_error(R"([["a.png", [1, 0.5]], ["b.png", [1, 1]], ["c.png", [0, 1]]])",
                             R"(, "attributes": ["red"])"),
                 "dataset.json: names 1 number, and the labels have 2"));
  CHECK(table_error("file,x,z\na.png,1,2\nb.png,3\nc.png,5,6\n")
            .find("labels.csv: line 3: 2 fields") != std::string::npos);
  CHECK(contains(table_error("file,x\na.png,1\nb.png,2,9\nc.png,5\n"), "line 3: 3 fields"));
  CHECK(contains(table_error("file,x,z\n\na.png,1,2\nb.png,3,red\nc.png,5,6\n"),
                 "labels.csv: line 4: z is red, no number"));
}

TEST_CASE("NumbersThatAreNotFiniteAreNamed") {
  // As Python's json.dump writes them.
  CHECK(contains(entry_error(R"([["a.png", [1, NaN]], ["b.png", [1, 1]], ["c.png", [0, 1]]])"),
                 "dataset.json: the class of a.png or its vector: its number 1 is NaN"));
  CHECK(
      contains(entry_error(R"([["a.png", [1, 2]], ["b.png", [-Infinity, 1]], ["c.png", [0, 1]]])"),
               "b.png or its vector: its number 0 is -Infinity"));
  CHECK(contains(entry_error(R"([["NaN.png", 0], ["a.png", NaN]])"),
                 "a.png or its vector: it is NaN"));
  CHECK(contains(entry_error(R"([["a.png", [1, 1e300]], ["b.png", [1, 1]], ["c.png", [0, 1]]])"),
                 "its number 1 is too large"));
  CHECK(
      contains(entry_error(R"([["a.png", {"s": NaN}], ["b.png", {"s": 1}], ["c.png", {"s": 1}]])"),
               "its \"s\" is NaN"));
  for (const char* word : {"nan", "NaN", "inf", "-inf", "1e300"}) {
    CAPTURE(word);
    CHECK(contains(table_error(fmt::format("file,x\na.png,1\nb.png,{}\nc.png,2\n", word)),
                   fmt::format("labels.csv: line 3: x is {}", word)));
  }
}

TEST_CASE("AWordInAPathIsNoNumber") {
  CHECK(contains(entry_error(R"([["NaN.png", [2, 1]], ["a\"Infinity", [NaN, 1]]])"),
                 "a\"Infinity or its vector: its number 0 is NaN"));
}

TEST_CASE("ABatchHasTheVectorsOfItsPictures") {
  const Scratch scratch;
  const DataOptions options =
      at(csv_folder(scratch, "file,x,z\na.png,1,2\nb.png,3,4\nc.png,5,6\n"));
  const auto data = open_dataset(options);
  for (const int64_t workers : {0, 2}) {
    Loader loader(data, options, /*seed=*/1, {}, 0, /*global_batch=*/3, workers);
    const Batch batch = loader.next();
    REQUIRE(batch.labels.sizes() == at::IntArrayRef{3, 2});
    CHECK(batch.labels.scalar_type() == at::kFloat);
    const Sampler order(3, 1, false);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t k = 0; k < 2; ++k)
        CHECK(batch.labels[i][k].item<float>() == data->vectors().of(order.index(i))[k]);
    }
  }
}

TEST_CASE("ADigestAndAManifestSeeEveryNumber") {
  const auto manifest_of = [](const std::string& csv) {
    const Scratch scratch;
    return list_pictures(*open_dataset(at(csv_folder(scratch, csv))), "set");
  };
  const Manifest before = manifest_of("file,x\na.png,1\nb.png,3\nc.png,5\n");
  const Manifest now = manifest_of("file,x\na.png,1\nb.png,3.0000002\nc.png,5\n");
  CHECK(before.rows[0].label >= 0);
  CHECK(before.rows[0].label == now.rows[0].label);
  CHECK(changes(before, now) == "1 picture with another label (b.png)");
}

TEST_CASE("ABadPictureTakesItsLabelAlong") {
  const Scratch scratch;
  const std::string path = csv_folder(scratch, "file,x\na.png,1\nb.png,3\nc.png,5\n");
  scratch.write("set/b.png", "no picture");
  DataOptions options = at(path);
  options.on_bad = OnBad::kSkip;
  CHECK(numbers_of(open_dataset(options)->vectors()) == NumberRows{{1}, {5}});
}

TEST_CASE("APictureThatTurnsBadIsReplacedByThatOfTheNearestLabel") {
  const Scratch scratch;
  Files files = {{"labels.csv", "file,x\na.png,1\nb.png,9\nc.png,2\n"}};
  for (int i = 0; i < 3; ++i)
    files.emplace_back(kThree[static_cast<size_t>(i)], one_color(static_cast<uint8_t>(10 * i)));
  DataOptions options = at(lay_out(scratch, files, "folder"));
  options.on_bad = OnBad::kSkip;
  options.cache_mb = 0;
  const auto data = open_dataset(options);
  scratch.write("set/a.png", "no picture any more");
  CHECK(data->load(0).pixels[0] == 20);  // c.png's
  scratch.write("set/c.png", "no picture any more");
  for (int i = 0; i < 2; ++i) CHECK(data->load(0).pixels[0] == 10);  // b.png's
}

TEST_CASE("BuiltInShapesHaveAttributes") {
  DataOptions options = at("synth:shapes-attributes", 32);
  options.synth_size = 600;
  const auto data = open_dataset(options);
  CHECK(data->classes() == 0);
  CHECK(data->vectors().names == Names{"red", "green", "blue", "size", "angle"});
  std::map<int, int> colors;
  for (int64_t i = 0; i < data->size(); ++i) {
    const float* v = data->vectors().of(i);
    colors[static_cast<int>(v[0] + 2 * v[1] + 4 * v[2])] += 1;
    CHECK((v[3] >= 0 && v[3] < 1));
    CHECK((v[4] >= -1 && v[4] < 1));
  }
  CHECK(colors.size() == 6);
  CHECK(colors.count(0) + colors.count(7) == 0);
  CHECK(data->load(7).pixels == open_dataset(options)->load(7).pixels);
  CHECK(contains(open_error(at("synth:shape")), "synth:shapes-attributes"));
}

}  // namespace gantrain
