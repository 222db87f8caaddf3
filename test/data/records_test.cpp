// SPDX-License-Identifier: Apache-2.0
// CIFAR's and MNIST's files: records of pixels.
#include "data/records.h"

#include <zlib.h>

#include "data/cifar.h"
#include "data/idx.h"
#include "data/pickle.h"
#include "data/picture_files.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr size_t kPlane = 32 * 32;

// A CIFAR picture of which each channel has one value.
std::string planes(int red, int green, int blue) {
  std::string pixels;
  for (const int value : {red, green, blue}) pixels.append(kPlane, static_cast<char>(value));
  return pixels;
}

std::string cifar10(std::initializer_list<int> labels) {
  std::string records;
  for (const int label : labels) records += static_cast<char>(label) + planes(label, 100, 200);
  return records;
}

std::string number(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

struct IdxForm {
  uint32_t count = 0;
  uint32_t height = 28;
  uint32_t width = 28;
};

std::string idx_images(const IdxForm& form) {
  std::string bytes = number(0x803) + number(form.count) + number(form.height) + number(form.width);
  for (uint32_t i = 0; i < form.count; ++i)
    bytes.append(form.height * form.width, static_cast<char>(10 + i));
  return bytes;
}

std::string idx_labels(std::initializer_list<int> labels) {
  std::string bytes = number(0x801) + number(static_cast<uint32_t>(labels.size()));
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

void write_gzip(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
}

}  // namespace

TEST_CASE("CifarTenIsReadWithItsNames") {
  const Scratch scratch;
  std::string meta;
  for (int i = 0; i < 10; ++i) meta += fmt::format("class{}\n", i);
  const Files files = {{"cifar/batches.meta.txt", meta + "\n"},
                       {"cifar/data_batch_1.bin", cifar10({3, 9})},
                       {"cifar/data_batch_2.bin", cifar10({0})},
                       {"cifar/readme.html", "text"},
                       {"cifar/test_batch.bin", cifar10({5})}};
  const auto data =
      open_dataset(at(lay_out(scratch, files, GENERATE("folder", "tar", "tar.gz", "stored")), 32));
  REQUIRE(data->size() == 3);
  CHECK(data->classes() == 10);
  CHECK(data->channels() == 3);
  CHECK(data->label(1) == 9);
  CHECK(data->class_name(9) == "class9");
  CHECK(contains(data->description(), "CIFAR-10, 3 pictures"));
  const Image image = data->load(1);
  CHECK(std::vector<int>(image.pixels.begin(), image.pixels.begin() + 6) ==
        std::vector<int>{9, 100, 200, 9, 100, 200});
}

TEST_CASE("CifarHundredHasFineLabels") {
  const Scratch scratch;
  std::string names;
  for (int i = 0; i < 100; ++i) names += fmt::format("fine{}\n", i);
  scratch.write("c/train.bin", std::string("\x05\x4d") + planes(1, 2, 3));
  scratch.write("c/fine_label_names.txt", names);
  const auto data = open_dataset(at(scratch.path("c"), 32));
  CHECK(data->classes() == 100);
  CHECK(data->class_name(data->label(0)) == "fine77");
  const auto alone = open_dataset(at(scratch.path("c/train.bin"), 32));
  CHECK(alone->label(0) == 77);
  CHECK(alone->class_name(77) == "77");
}

TEST_CASE("OneCifarBatchIsKnownByItself") {
  const Scratch scratch;
  scratch.write("any.bin", cifar10({1, 2, 3}));
  CHECK(open_dataset(at(scratch.path("any.bin"), 32))->size() == 3);
  scratch.write("bad.bin", cifar10({1, 77}));  // neither CIFAR's labels
  CHECK(contains(open_error(at(scratch.path("bad.bin"))), "nor a data file"));
  scratch.write("c/data_batch_1.bin", cifar10({1, 2}).substr(0, 5000));
  CHECK(contains(open_error(at(scratch.path("c"))), "no whole number of CIFAR-10 records"));
  scratch.write("c/data_batch_1.bin", cifar10({1, 77}));
  CHECK(contains(open_error(at(scratch.path("c"))), "none of CIFAR-10"));
}

TEST_CASE("MnistIsReadWithItsLabels") {
  const Scratch scratch;
  const bool compressed = GENERATE(false, true);
  const std::string ending = compressed ? ".gz" : "";
  std::filesystem::create_directory(scratch.path("m"));
  const auto write = [&](const std::string& name, const std::string& content) {
    if (compressed) return write_gzip(scratch.path("m/" + name + ".gz"), content);
    scratch.write("m/" + name, content);
  };
  write("train-images-idx3-ubyte", idx_images({.count = 3}));
  write("train-labels-idx1-ubyte", idx_labels({7, 0, 2}));
  write("t10k-images-idx3-ubyte", idx_images({.count = 1}));
  write("t10k-labels-idx1-ubyte", idx_labels({1}));
  for (const std::string& path :
       {scratch.path("m"), scratch.path("m/train-images-idx3-ubyte" + ending)}) {
    const auto data = open_dataset(at(path, 28));
    REQUIRE(data->size() == 3);
    CHECK(data->channels() == 1);
    CHECK(data->classes() == 8);
    CHECK(data->label(2) == 2);
    CHECK(values(*data) == std::vector<int>{10, 11, 12});
  }
  CHECK(open_dataset(at(scratch.path("m/t10k-images-idx3-ubyte" + ending), 28))->size() == 1);
  CHECK(contains(open_error(at(scratch.path("m/train-labels-idx1-ubyte" + ending))),
                 "these are labels"));
}

TEST_CASE("FitPadGivesMnistTheBlackBorderOfTheReference") {
  const Scratch scratch;
  scratch.write("train-images-idx3-ubyte", idx_images({.count = 1}));
  DataOptions options = at(scratch.path("train-images-idx3-ubyte"), 32);
  CHECK(values(*open_dataset(options)) == std::vector<int>{10});  // enlarged
  options.fit = Fit::kPad;
  const Image image = open_dataset(options)->load(0);
  CHECK(int{image.pixels[1 * 32 + 16]} == 0);
  CHECK(int{image.pixels[2 * 32 + 1]} == 0);
  CHECK(int{image.pixels[2 * 32 + 2]} == 10);
  CHECK(int{image.pixels[29 * 32 + 29]} == 10);
  CHECK(int{image.pixels[30 * 32 + 29]} == 0);
}

TEST_CASE("IdxThatContradictsItsHeaderIsRefused") {
  const Scratch scratch;
  const auto error_of = [&](const std::string& content) {
    scratch.write("train-images-idx3-ubyte", content);
    return open_error(at(scratch.path("train-images-idx3-ubyte"), 28));
  };
  const std::string good = idx_images({.count = 3});
  CHECK(contains(error_of(good.substr(0, good.size() - 1)), "ends too early"));
  CHECK(contains(error_of(good.substr(0, 10)), "ends too early"));
  CHECK(contains(error_of(good + "x"), "has 1 bytes more"));
  CHECK(contains(
      error_of(number(0x803) + number(0xffffffff) + number(0xffffffff) + number(0xffffffff) + "x"),
      "ends too early"));
  CHECK(contains(error_of(number(0x803) + number(0) + number(28) + number(28)), "0 pictures"));
  CHECK(contains(error_of(number(0x802) + number(1) + number(1) + "x"), "3 dimensions"));
  scratch.write("train-labels-idx1-ubyte", idx_labels({1, 2}));
  CHECK(contains(error_of(good), "2 labels for 3 pictures"));
}

TEST_CASE("RecordsCutOffOrDamagedNeverCrash") {
  const Scratch scratch;
  const std::string path = scratch.path("train-images-idx3-ubyte");
  const auto open = [&](std::string_view bytes) {
    write_file(path, bytes);
    const auto dataset = open_dataset(at(path, 28));
    for (int64_t i = 0; i < dataset->size(); ++i) dataset->load(i);
  };
  const std::string idx = idx_images({.count = 2, .height = 4, .width = 4});
  CHECK(accepted_beginnings(idx, open) == 0);
  accepted_damage(idx, 300, open);
}

TEST_CASE("APickleIsReadWithoutBeingCalled") {
  const Scratch scratch;
  const auto values_of = [&](const std::string& bytes) {
    scratch.write("p", bytes);
    PickleReader reader(whole_file(scratch.path("p")));
    std::vector<std::string> all;
    while (const auto value = reader.next()) {
      if (value->kind == PickledItem::Kind::kNumber)
        all.push_back(fmt::format("{}", value->number));
      if (value->kind == PickledItem::Kind::kText) all.push_back(value->text);
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  CHECK(values_of("\x80\x02}q\x01(U\x06labels]q\x02(K\x06M\x2c\x01J\xff\xff\xff\xff\x65u.") ==
        Texts{"labels", "6", "300", "-1"});
  CHECK(contains(input_error([&] { values_of("\x80\x02(U\xffshort"); }), "ends too early"));
  CHECK(
      contains(input_error([&] { values_of("\x80\x02i__builtin__\n"); }), "not a pickle of plain"));
  CHECK(
      contains(input_error([&] { values_of(std::string("T\xff\xff\xff\xff.", 6)); }), "too early"));
}

TEST_CASE("IdxPackedInAnArchiveIsPointedTo") {
  const Scratch scratch;
  const Files files = {{"train-images-idx3-ubyte", idx_images({.count = 3})}};
  CHECK(values(*open_dataset(at(lay_out(scratch, files, "stored"), 28))).size() == 3);
  CHECK(contains(open_error(at(lay_out(scratch, files, "deflated"), 28)),
                 "train-images-idx3-ubyte: is packed in an archive; unpack it first"));
}

}  // namespace gantrain
