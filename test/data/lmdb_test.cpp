// SPDX-License-Identifier: Apache-2.0
#include <lmdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "data/containers/formats.h"
#include "data/picture_files.h"
#include "util/error.h"

namespace gantrain {

namespace {

// Writes the entries with LMDB's own library into the folder, as data.mdb and lock.mdb, in
// transactions of at most `batch` entries.
void write_lmdb(const std::string& folder,
                const std::vector<std::pair<std::string, std::string>>& entries,
                size_t batch = 1000) {
  const auto check = [](int code) {
    if (code != MDB_SUCCESS) throw std::runtime_error(mdb_strerror(code));
  };
  std::filesystem::create_directories(folder);
  MDB_env* environment = nullptr;
  check(mdb_env_create(&environment));
  check(mdb_env_set_mapsize(environment, size_t{1} << 28));
  check(mdb_env_open(environment, folder.c_str(), MDB_NOSYNC, 0644));
  for (size_t first = 0; first < entries.size(); first += batch) {
    MDB_txn* transaction = nullptr;
    MDB_dbi database = 0;
    check(mdb_txn_begin(environment, nullptr, 0, &transaction));
    check(mdb_dbi_open(transaction, nullptr, 0, &database));
    for (size_t i = first; i < std::min(first + batch, entries.size()); ++i) {
      std::string key = entries[i].first;
      std::string content = entries[i].second;
      MDB_val key_value = {key.size(), key.data()};
      MDB_val value = {content.size(), content.data()};
      check(mdb_put(transaction, database, &key_value, &value, 0));
    }
    check(mdb_txn_commit(transaction));
  }
  mdb_env_close(environment);
}

Files sorted(Files files) {
  std::sort(files.begin(), files.end());
  return files;
}

// What our reader finds in a database that LMDB's library has written.
Files read_back(const std::string& folder) {
  const FilePart part = whole_file(folder + "/data.mdb");
  Files files;
  for (const LmdbEntry& entry : read_lmdb(part)) {
    files.emplace_back(entry.key, part.bytes(entry.offset, static_cast<size_t>(entry.size)));
  }
  return files;
}

}  // namespace

TEST_CASE("EveryValueOfAnLmdbIsFound") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 3000; ++i) {
    const auto length = static_cast<size_t>(i % 7 == 0 ? 3 * i : i % 100);
    files.emplace_back(fmt::format("key {:05}", (i * 7919) % 100'003),
                       std::string(length, static_cast<char>('a' + i % 26)));
  }
  write_lmdb(scratch.path("db"), files, GENERATE(50, 100'000));
  CHECK(read_back(scratch.path("db")) == sorted(files));
}

TEST_CASE("ValuesThatWereReplacedAreTheNewOnes") {
  const Scratch scratch;
  write_lmdb(scratch.path("db"), {{"a", std::string(9000, 'o')}, {"b", "1"}});
  write_lmdb(scratch.path("db"), {{"a", "new"}, {"c", std::string(5000, 'c')}});
  CHECK(read_back(scratch.path("db")) ==
        Files{{"a", "new"}, {"b", "1"}, {"c", std::string(5000, 'c')}});
  std::filesystem::create_directory(scratch.path("empty"));
  write_lmdb(scratch.path("empty"), {});
  write_lmdb(scratch.path("one"), {{"k", "v"}});
  CHECK(read_back(scratch.path("one")) == Files{{"k", "v"}});
}

TEST_CASE("LsunsLmdbIsADataSet") {
  const Scratch scratch;
  write_lmdb(scratch.path("bedroom_val_lmdb"),
             {{"0a3f", encode_webp(test_picture(20, 30, 3))}, {"ff00", png(16, 16, 1)}});
  for (const char* path : {"bedroom_val_lmdb", "bedroom_val_lmdb/data.mdb"}) {
    const auto data = open_dataset(at(scratch.path(path)));
    CHECK(data->size() == 2);
    CHECK(data->channels() == 3);
    CHECK(data->classes() == 0);
    CHECK(contains(data->description(), "LMDB, 2 pictures"));
  }
  DataOptions options = at(scratch.path("bedroom_val_lmdb"));
  write_lmdb(scratch.path("bedroom_val_lmdb"), {{"bad", "no picture at all"}});
  CHECK(contains(open_error(options), "data.mdb:bad: not a PNG, JPEG or WebP"));
}

TEST_CASE("OfSeveralSizesTheNextLargerIsTaken") {
  const Scratch scratch;
  Files files = {{"length", "2"}};
  for (const int size : {8, 16, 32}) {
    for (int i = 0; i < 2; ++i) {
      const Image image{
          size,
          size,
          1,
          std::vector<uint8_t>(static_cast<size_t>(size * size), static_cast<uint8_t>(size + i))};
      files.emplace_back(fmt::format("{}-{:05}", size, i), encode_png(image));
    }
  }
  write_lmdb(scratch.path("db"), files);
  const auto first_at = [&](int64_t resolution) {
    return values(*open_dataset(at(scratch.path("db"), resolution)));
  };
  CHECK(first_at(16) == std::vector<int>{16, 17});
  CHECK(first_at(20) == std::vector<int>{32, 33});
  CHECK(first_at(64) == std::vector<int>{32, 33});
  CHECK(contains(open_dataset(at(scratch.path("db"), 16))->description(), "size 16 of 8, 16, 32"));
  write_lmdb(scratch.path("db"), {{"length", "3"}});
  CHECK(contains(open_error(at(scratch.path("db"), 16)), "it was not finished"));
}

TEST_CASE("AnLmdbServesManyThreadsAndForkedProcesses") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 50; ++i)
    files.emplace_back(fmt::format("{:02}", i), one_color(static_cast<uint8_t>(i)));
  write_lmdb(scratch.path("db"), files);
  std::filesystem::permissions(scratch.path("db"), std::filesystem::perms(0555));
  DataOptions options = at(scratch.path("db"));
  options.cache_mb = 0;
  const auto data = open_dataset(options);
  const auto all_right = [&] {
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int64_t i = 0; i < 50; ++i) wrong += data->load(i).pixels[0] != i ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong == 0;
  };
  const pid_t child = fork();
  if (child == 0) _exit(all_right() ? 0 : 1);
  CHECK(all_right());
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  std::filesystem::permissions(scratch.path("db"), std::filesystem::perms(0755));
}

TEST_CASE("AnLmdbCutOffOrDamagedAnywhereNeverCrashes") {
  const Scratch scratch;
  Files files;
  for (int i = 0; i < 40; ++i)
    files.emplace_back(fmt::format("{:02}", i), std::string(static_cast<size_t>(90 * i), 'v'));
  write_lmdb(scratch.path("db"), files);
  const std::string path = scratch.path("db/data.mdb");
  const std::string whole = read_file(path);
  const size_t used = whole.find_last_not_of('\0');
  for (size_t cut = 0; cut < used; cut += 997) {
    write_file(path, whole.substr(0, cut));
    CHECK(contains(input_error([&] { read_back(scratch.path("db")); }), "data.mdb: "));
  }
  accepted_damage(whole, 500, [&](std::string_view bytes) {
    write_file(path, bytes);
    read_back(scratch.path("db"));
  });
}

}  // namespace gantrain
