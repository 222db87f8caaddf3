// SPDX-License-Identifier: Apache-2.0
#include "core/archive.h"

#include <caffe2/serialize/inline_container.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <map>
#include <sstream>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"

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

using Records = std::map<std::string, std::string>;

Records records_of(const std::filesystem::path& file) {
  std::istringstream content(read_file(file));
  caffe2::serialize::PyTorchStreamReader reader(&content);
  Records records;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [data, bytes] = reader.getRecord(name);
    records[name] = {static_cast<const char*>(data.get()), bytes};
  }
  return records;
}

// Writes a state of these records whose checksum is right.
void write_sealed(const std::filesystem::path& file, const Records& records) {
  std::string zip;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t bytes) {
      zip.append(static_cast<const char*>(data), bytes);
      return bytes;
    });
    for (const auto& [name, bytes] : records) {
      const bool own = name.find("data") == 0;  // the writer adds the others itself
      if (own) writer.writeRecord(name, bytes.data(), bytes.size());
    }
    writer.writeEndOfFile();
  }
  const std::string mark = "gantrain-xxh3-128:";
  const auto comment = static_cast<uint16_t>(mark.size() + 32);
  std::memcpy(zip.data() + zip.size() - 2, &comment, 2);
  Digest digest;
  digest.update(zip.data(), zip.size());
  write_file(file, zip + mark + digest.hex());
}

struct Sealed {
  TemporaryFolder folder;
  std::filesystem::path file = folder / "state.pt";
  Records records;

  Sealed() {
    save_archive(file, example());
    records = records_of(file);
  }

  void check_refused(const std::string& why) const {
    write_sealed(file, records);
    CHECK_THROWS_WITH(load_archive(file), Catch::Contains(file.string()) && Catch::Contains(why));
    try {
      load_archive(file);
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
    }
  }
};

// While this lives, files of this process can become so long and no longer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    struct rlimit now = before_;
    now.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct rlimit before_ {};
};

}  // namespace

// Wherever it happens: in the first record, in the middle, in the zip's own end.
TEST_CASE("AWriteThatFailsIsSaidAndLeavesNothing") {
  const TemporaryFolder folder;
  Archive archive = example();
  archive.tensors["large"] = torch::randn({5000});
  save_archive(folder / "whole.pt", archive);
  const uint64_t bytes = std::filesystem::file_size(folder / "whole.pt");
  for (const uint64_t room : {uint64_t{0}, uint64_t{100}, bytes / 2, bytes - 150, bytes - 1}) {
    CAPTURE(room);
    std::string said;
    {
      const FileSizeLimit limit(room);
      try {
        save_archive(folder / "state.pt", archive);
      } catch (const UserError& error) {
        said = error.code() == Exit::kDisk ? error.what() : "not the disk";
      }
    }
    CHECK_THAT(said, Catch::Contains("state.pt: cannot write"));
    CHECK_FALSE(std::filesystem::exists(folder / "state.pt"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("AStateThatWasSealedAnewIsReadAsBefore") {
  const Sealed state;
  write_sealed(state.file, state.records);
  CHECK(load_archive(state.file).tensors.size() == example().tensors.size());
}

TEST_CASE("ARecordOfAnotherLengthThanItsTensorIsRefused") {
  for (const char* record : {"data/0", "data/1", "data/2", "data/3", "data/4"}) {
    CAPTURE(record);
    Sealed state;
    std::string& bytes = state.records.at(record);
    bytes.resize(bytes.size() / 2);
    state.check_refused("its record has");
    bytes.resize(4 * bytes.size());
    state.check_refused("its record has");
  }
}

TEST_CASE("AStateWithoutARecordIsRefusedByTheRecordsName") {
  Sealed state;
  state.records.erase("data/1");
  state.check_refused("data/1 is missing");
  state.records.erase("data.pkl");
  state.check_refused("data.pkl is missing");
}

TEST_CASE("AHostilePickleOfAStateTakesNoMemory") {
  using namespace std::string_literals;
  const int64_t before = proc_bytes("/proc/self/status", "VmHWM");
  for (const std::string& program : {"\x80\x02}r\xf0\xff\xff\x7f."s,      // the memo's last entry
                                     "\x80\x02X\xf0\xff\xff\x7fshort."s,  // a text of 2 GB
                                     "\x80\x02\x8b\xf0\xff\xff\x7f\1."s,  // a number of 2 GB
                                     "\x80\x02cos\nsystem\n(X\x02\0\0\0lstR."s}) {
    CAPTURE(program);
    Sealed state;
    state.records["data.pkl"] = program;
    state.check_refused("");
  }
  CHECK(proc_bytes("/proc/self/status", "VmHWM") - before < 100'000'000);
}

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
