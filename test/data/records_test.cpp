// SPDX-License-Identifier: Apache-2.0
// CIFAR's and MNIST's files: records of pixels.
#include <zlib.h>

#include "data/containers/formats.h"
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

std::string big_endian(uint32_t value) {
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
  std::string bytes =
      big_endian(0x803) + big_endian(form.count) + big_endian(form.height) + big_endian(form.width);
  for (uint32_t i = 0; i < form.count; ++i)
    bytes.append(form.height * form.width, static_cast<char>(10 + i));
  return bytes;
}

std::string idx_labels(std::initializer_list<int> labels) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<uint32_t>(labels.size()));
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
  CHECK(contains(error_of(big_endian(0x803) + big_endian(0xffffffff) + big_endian(0xffffffff) +
                          big_endian(0xffffffff) + "x"),
                 "ends too early"));
  CHECK(contains(error_of(big_endian(0x803) + big_endian(0) + big_endian(28) + big_endian(28)),
                 "0 pictures"));
  CHECK(
      contains(error_of(big_endian(0x802) + big_endian(1) + big_endian(1) + "x"), "3 dimensions"));
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

TEST_CASE("CifarsPythonFilesAreReadWithoutBeingCalled") {
  const Scratch scratch;
  // {key "data": bytes, key "labels": [one label]}; Python 3 writes keys of Python 2 as bytes.
  const bool keys_are_bytes = GENERATE(false, true);
  const auto key = [&](const std::string& text) {
    return (keys_are_bytes ? "C" : "U") + std::string(1, static_cast<char>(text.size())) + text;
  };
  const auto batch = [&](int label, const std::string& pixels) {
    const std::string bytes = "B" + std::string("\x00\x0c\x00\x00", 4) + pixels;
    return "\x80\x03}q\x01(" + key("data") + bytes + key("labels") + "]q\x02K" +
           static_cast<char>(label) + "au.";
  };
  const std::string path = scratch.path("c");
  scratch.write("c/data_batch_1", batch(6, planes(1, 2, 3)));
  std::string names;
  for (int i = 0; i < 10; ++i)
    names += fmt::format(
        "U\x06"
        "class{}",
        i);
  scratch.write("c/batches.meta", "\x80\x02}U\x0blabel_names](" + names + "es.");
  const auto data = open_dataset(at(path, 32));
  REQUIRE(data->size() == 1);
  CHECK(data->label(0) == 6);
  CHECK(data->class_name(6) == "class6");
  CHECK(data->load(0).pixels[1] == 2);
  const auto error_of_batch = [&](const std::string& bytes) {
    scratch.write("c/data_batch_1", bytes);
    return open_error(at(path, 32));
  };
  CHECK(
      contains(error_of_batch(batch(12, planes(1, 2, 3))), "not CIFAR-10's: 3072 bytes of pixels"));
  CHECK(contains(error_of_batch("\x80\x02(U\xffshort"), "truncated?"));
  CHECK(contains(error_of_batch("\x80\x02"
                                "cos\nsystem\n."),
                 "global os.system is not allowed"));
}

TEST_CASE("IdxPackedInAnArchiveIsPointedTo") {
  const Scratch scratch;
  const Files files = {{"train-images-idx3-ubyte", idx_images({.count = 3})}};
  CHECK(values(*open_dataset(at(lay_out(scratch, files, "stored"), 28))).size() == 3);
  CHECK(contains(open_error(at(lay_out(scratch, files, "deflated"), 28)),
                 "train-images-idx3-ubyte: is packed in an archive; unpack it first"));
}

}  // namespace gantrain
