// SPDX-License-Identifier: Apache-2.0
#include <zip.h>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// An archive with one deflated entry.
void write_zip(const fs::path& path, const std::string& entry, const std::string& content) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  REQUIRE(archive != nullptr);
  zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
  REQUIRE(zip_file_add(archive, entry.c_str(), source, ZIP_FL_ENC_UTF_8) >= 0);
  REQUIRE(zip_close(archive) == 0);
}

std::string npy(const std::string& header, const std::string& data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>((header.size() + 1) & 0xff);
  file += static_cast<char>((header.size() + 1) >> 8);
  return file + header + "\n" + data;
}

std::string npz_error(const fs::path& path, const std::string& key = "w") {
  try {
    load_npz(path, key);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("NpzFilesComeBackUnchanged") {
  const TemporaryFolder folder;
  const at::Tensor w = torch::arange(24, at::kFloat).view({1, 3, 8});
  const at::Tensor z = torch::arange(5, at::kFloat).view({1, 5});
  save_npz(folder / "a.npz", {{"w", w}, {"z", z}});
  CHECK(is_npz(folder / "a.npz"));
  CHECK(load_npz(folder / "a.npz", "w").equal(w));
  CHECK(load_npz(folder / "a.npz", "z").equal(z));
  save_npz(folder / "b.npz", {{"w", w}, {"z", z}});
  CHECK(read_file(folder / "a.npz") == read_file(folder / "b.npz"));
}

TEST_CASE("CompressedArraysAndFloat64AreRead") {
  const TemporaryFolder folder;
  const at::Tensor w = torch::zeros({1, 4, 32});
  write_zip(folder / "a.npz", "w.npy", npy_bytes(w));
  CHECK(fs::file_size(folder / "a.npz") < 512);
  CHECK(load_npz(folder / "a.npz", "w").equal(w));
  const double value = 0.5;
  write_zip(folder / "b.npz",
            "w.npy",
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",
                std::string(reinterpret_cast<const char*>(&value), sizeof value)));
  CHECK(load_npz(folder / "b.npz", "w").equal(torch::tensor({0.5F})));
}

TEST_CASE("NpzFilesThatCannotBeAreRefusedByNameAndArray") {
  const TemporaryFolder folder;
  save_npz(folder / "good.npz", {{"w", torch::ones({2, 64})}});
  const std::string good = read_file(folder / "good.npz");
  const auto header = [](const std::string& type, const std::string& order) {
    return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (1, 2), }";
  };
  const fs::path bad = folder / "bad.npz";
  for (const size_t length : {size_t{0}, size_t{10}, good.size() / 2, good.size() - 1}) {
    write_file(bad, good.substr(0, length));
    CAPTURE(length);
    CHECK(npz_error(bad).find("bad.npz") != std::string::npos);
  }
  std::string flipped = good;
  flipped[good.size() / 3] = static_cast<char>(flipped[good.size() / 3] ^ 1);
  write_file(bad, flipped);
  CHECK(npz_error(bad).find("bad.npz (w)") != std::string::npos);
  CHECK(npz_error(folder / "good.npz", "z").find("no array \"z\" in it; it has w") !=
        std::string::npos);
  const std::vector<std::pair<std::string, std::string>> table = {
      {npy(header("|O", "False"), "pickled "), "|O"},
      {npy(header("<f2", "False"), "abcd"), "<f2"},
      {npy(header("<f4", "True"), "12345678"), "C order"},
      {npy(header("<f4", "False"), "1234"), "truncated"},
      {"no array", "not a .npy"}};
  for (const auto& [content, expected] : table) {
    write_zip(bad, "w.npy", content);
    const std::string error = npz_error(bad);
    CAPTURE(error, expected);
    CHECK(error.find("bad.npz (w)") != std::string::npos);
    CHECK(error.find(expected) != std::string::npos);
  }
}

TEST_CASE("TextsBesideArraysComeBack") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.npz";
  const std::string about = R"({"method": "sefa", "layers": [0, 1]})";
  save_npz(file, {{"w", torch::ones({2})}}, {{"about", about}, {"none", ""}});
  CHECK(load_npz_text(file, "about") == about);
  CHECK(load_npz_text(file, "none").empty());
  CHECK(load_npz(file, "w").equal(torch::ones({2})));
  CHECK(npz_names(file) == std::vector<std::string>{"w", "about", "none"});
}

TEST_CASE("WhatIsNoTextIsRefusedByNameAndArray") {
  const TemporaryFolder folder;
  const fs::path file = folder / "a.npz";
  const auto error = [&] {
    try {
      load_npz_text(file, "about");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
      return std::string(e.what());
    }
    return std::string();
  };
  const auto header = [](const std::string& type, const std::string& shape) {
    return "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  };
  const std::string a("a\0\0\0", 4), umlaut("\xe4\0\0\0", 4);
  const std::vector<std::pair<std::string, std::string>> table = {
      {npy(header("<f4", ""), a), "a text is needed"},
      {npy(header("<U1", "1,"), a), "a text is needed"},
      {npy(header(">U1", ""), a), "a text is needed"},
      {npy(header("<U2", ""), a + "abc"), "a text is needed"},
      {npy(header("<U1", ""), umlaut), "ASCII"},
      {"no array", "not a .npy"}};
  for (const auto& [content, expected] : table) {
    write_zip(file, "about.npy", content);
    CAPTURE(expected);
    CHECK(error().find("a.npz (about)") != std::string::npos);
    CHECK(error().find(expected) != std::string::npos);
  }
  write_zip(file, "about.npy", npy(header("<U1", ""), a));
  CHECK(load_npz_text(file, "about") == "a");
  save_npz(file, {{"w", torch::ones({2})}});
  CHECK(error().find("no array \"about\" in it; it has w") != std::string::npos);
}

TEST_CASE("AZipBombIsRefusedBeforeItIsUnpacked") {
  const TemporaryFolder folder;
  write_zip(folder / "bomb.npz", "w.npy", std::string(size_t{257} << 20, '\0'));
  CHECK(fs::file_size(folder / "bomb.npz") < 1 << 20);
  CHECK(npz_error(folder / "bomb.npz").find("at most 268435456") != std::string::npos);
}

}  // namespace gantrain
