// SPDX-License-Identifier: Apache-2.0
#include "core/archive.h"

#include <catch2/catch.hpp>

#include "temporary_folder.h"
#include "tensor_checks.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

Archive example() {
  Archive archive;
  archive.meta = R"({"images_seen": 12})";
  archive.tensors["G/weight"] = torch::randn({3, 4});
  archive.tensors["steps"] = torch::tensor(7.0f);
  archive.tensors["counts"] = torch::arange(5);
  archive.tensors["half"] = torch::randn({4}).to(at::kHalf);
  archive.tensors["wide"] = torch::randn({2}, at::kDouble);
  return archive;
}

}  // namespace

TEST_CASE("AnArchiveComesBackWhole") {
  const TemporaryFolder folder;
  const Archive written = example();
  save_archive(folder / "state.pt", written);
  const Archive read = load_archive(folder / "state.pt");
  CHECK(read.meta == written.meta);
  REQUIRE(read.tensors.size() == written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) {
    CAPTURE(name);
    CHECK(read.tensors.at(name).scalar_type() == tensor.scalar_type());
    CHECK(torch::equal(read.tensors.at(name), tensor));
  }
}

TEST_CASE("EveryFlippedBitAndEveryTruncationIsSeen") {
  const TemporaryFolder folder;
  save_archive(folder / "state.pt", example());
  const std::string whole = read_file(folder / "state.pt");
  size_t accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ (1 << (at % 8)));
    write_file(folder / "broken.pt", broken);
    try {
      load_archive(folder / "broken.pt");
      ++accepted;
    } catch (const UserError& e) {
      if (e.code() != Exit::kInput) ++accepted;
    }
  }
  for (size_t length = 0; length < whole.size(); length += 13) {
    write_file(folder / "broken.pt", whole.substr(0, length));
    CHECK_THROWS_AS(load_archive(folder / "broken.pt"), UserError);
  }
  CHECK(accepted == 0);
}

TEST_CASE("AForeignFileIsRefusedByName") {
  const TemporaryFolder folder;
  write_file(folder / "notes.txt", "hello");
  CHECK_THROWS_WITH(load_archive(folder / "notes.txt"), Catch::Contains("notes.txt"));
  CHECK_THROWS_AS(load_archive(folder / "missing"), UserError);
}
