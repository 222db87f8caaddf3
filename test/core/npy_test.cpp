// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_files.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

// A file as numpy writes it, with that dictionary and so many bytes of data.
std::string npy(std::string header, size_t bytes) {
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(bytes, '\0');
}

std::string npy_error(const std::filesystem::path& path) {
  try {
    load_npy(path);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("NpyFilesComeBackUnchanged") {
  const TemporaryFolder folder;
  const std::vector<std::vector<int64_t>> shapes = {{5}, {2, 3}, {2, 3, 4}};
  for (const std::vector<int64_t>& shape : shapes) {
    const int64_t count = c10::multiply_integers(shape);
    const at::Tensor values = torch::arange(1, 1 + count, at::kFloat).view(shape);
    save_npy(folder / "a.npy", values);
    CHECK(load_npy(folder / "a.npy").equal(values));
  }
}

TEST_CASE("NpyFilesThatCannotBeAreRefusedByName") {
  const TemporaryFolder folder;
  const auto header = [](const std::string& type,
                         const std::string& order,
                         const std::string& shape) {
    return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }";
  };
  const std::string good = npy(header("<f4", "False", "2, 3"), 24);
  write_file(folder / "good.npy", good);
  CHECK(npy_error(folder / "good.npy").empty());
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "not a .npy"},
      {"no numbers at all", "not a .npy"},
      {good.substr(0, good.size() - 1), "truncated"},
      {good.substr(0, 40), "version 1"},
      {good + "x", "truncated"},
      {npy(header("<i8", "False", "2, 3"), 48), "<i8"},
      {npy(header("<f4", "True", "2, 3"), 24), "C order"},
      {npy(header("<f4", "False", "0, 3"), 0), "no values"},
      {npy(header("<f4", "False", "-2, 3"), 24), "-2, 3"},
      {npy(header("<f4", "False", "4611686018427387904, 4611686018427387904"), 24), "truncated"},
      {npy(header("<f4", "False", "9223372036854775807"), 24), "truncated"}};
  for (const auto& [content, expected] : table) {
    write_file(folder / "bad.npy", content);
    const std::string error = npy_error(folder / "bad.npy");
    CAPTURE(error, expected);
    CHECK(error.find("bad.npy") != std::string::npos);
    CHECK(error.find(expected) != std::string::npos);
  }
}

}  // namespace gantrain
