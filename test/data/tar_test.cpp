// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include "data/containers/formats.h"
#include "data/picture_files.h"
#include "util/error.h"

namespace gantrain {

namespace {

FilePart part_at(const Scratch& scratch, const std::string& bytes) {
  scratch.write("a.tar", bytes);
  return whole_file(scratch.path("a.tar"));
}

}  // namespace

TEST_CASE("TarEntriesAreFoundAtTheirPlace") {
  const Scratch scratch;
  const std::string form = GENERATE("ustar", "gnutar", "pax");
  const std::string deep = std::string(90, 'd') + "/" + std::string(95, 'f') + ".png";
  const Files files = {{"a.png", one_color(1)},
                       {"./b/c.png", std::string(100'000, 'c')},
                       {"b/empty", ""},
                       {deep, one_color(2)},
                       {"z.png", one_color(3)}};
  const FilePart part = part_at(scratch, write_tar(files, {.form = form}));
  const auto entries = read_tar_directory(part);
  REQUIRE(entries.size() == files.size());
  CHECK(entries[1].name == "b/c.png");
  for (const TarEntry& entry : entries) {
    const auto same = [&](const auto& file) {
      return file.first == entry.name || file.first == "./" + entry.name;
    };
    const auto file = std::find_if(files.begin(), files.end(), same);
    REQUIRE(file != files.end());
    CHECK(part.bytes(entry.offset, static_cast<size_t>(entry.size)) == file->second);
  }
}

TEST_CASE("LaterFileOfOneNameCountsAndHiddenOnesDoNot") {
  const Scratch scratch;
  const FilePart part =
      part_at(scratch, write_tar({{"a", "old"}, {"._a", "x"}, {".git/b", "x"}, {"a", "newer"}}));
  const auto entries = read_tar_directory(part);
  REQUIRE(entries.size() == 1);
  CHECK(part.bytes(entries[0].offset, 5) == "newer");
}

TEST_CASE("ATarIsKnownByItsChecksum") {
  std::string tar = write_tar({{"a", "content"}});
  CHECK(is_tar(tar));
  CHECK_FALSE(is_tar(tar.substr(0, 511)));
  CHECK_FALSE(is_tar(std::string(512, '\0')));
  tar[3] = 'x';
  CHECK_FALSE(is_tar(tar));
}

TEST_CASE("CompressedTarsAreReadAsPlainOnes") {
  const Scratch scratch;
  const std::string filter = GENERATE("gzip", "zstd", "xz", "bzip2");
  const std::string name = GENERATE("set.tar.gz", "set.tgz", "set.tar.zst", "set.data");
  scratch.write(
      name, write_tar({{"x/1.png", one_color(1)}, {"y/2.png", one_color(2)}}, {.filter = filter}));
  const auto data = open_dataset(at(scratch.path(name)));
  CHECK(values(*data) == std::vector<int>{1, 2});
  CHECK(data->classes() == 2);
}

TEST_CASE("ShardsAreOneDataSet") {
  const Scratch scratch;
  for (int i = 8; i < 12; ++i) {
    const auto value = static_cast<uint8_t>(i);
    scratch.write(fmt::format("s/shard-{:03}.tar", i),
                  write_tar({{fmt::format("{:06}.png", i), one_color(value)},
                             {fmt::format("{:06}.cls", i), fmt::format("{}\n", i - 8)}}));
  }
  for (const char* pattern : {"s", "s/shard-{008..011}.tar", "s/*.tar", "s/shard-0??.tar"}) {
    CAPTURE(pattern);
    const auto data = open_dataset(at(scratch.path(pattern)));
    CHECK(values(*data) == std::vector<int>{8, 9, 10, 11});
    REQUIRE(data->classes() == 4);
    CHECK(data->label(3) == 3);
    CHECK(contains(data->description(), "4 tar archives"));
  }
  const auto two = open_dataset(at(scratch.path("s/shard-{009,011}.tar")));
  CHECK(values(*two) == std::vector<int>{9, 11});
  CHECK(contains(open_error(at(scratch.path("s/shard-{008..012}.tar"))), "shard-012.tar: no such"));
  CHECK(contains(open_error(at(scratch.path("s/shard-{9..8}.tar"))), "is no range"));
  CHECK(contains(open_error(at(scratch.path("s/none*.tar"))), "none*.tar: no such file"));
}

TEST_CASE("ShardsMayHoldFilesOfOneName") {
  const Scratch scratch;
  const auto shard = [](uint8_t value, const std::string& label) {
    return write_tar({{"0.png", one_color(value)}, {"0.cls", label}});
  };
  scratch.write("s/a.tar", shard(1, "cat"));
  scratch.write("s/b.tar", shard(2, "ant"));
  const auto data = open_dataset(at(scratch.path("s")));
  CHECK(values(*data) == std::vector<int>{1, 2});
  CHECK(data->class_name(data->label(0)) == "cat");
  CHECK(data->class_name(data->label(1)) == "ant");

  const Scratch unlabelled;  // the archives are no classes
  unlabelled.write("s/a.tar", write_tar({{"0.png", one_color(1)}}));
  unlabelled.write("s/b.tar", write_tar({{"0.png", one_color(2)}}));
  CHECK(open_dataset(at(unlabelled.path("s")))->classes() == 0);

  const Scratch folders;
  const Files both = {{"cat/0.png", one_color(1)}, {"dog/0.png", one_color(2)}};
  folders.write("s/a.tar", write_tar(both));
  folders.write("s/b.tar", write_tar(both));
  const auto classes = open_dataset(at(folders.path("s")));
  CHECK(classes->classes() == 2);
  CHECK(classes->class_name(classes->label(3)) == "dog");
}

TEST_CASE("ManyShardsNeedFewOpenFiles") {
  const Scratch scratch;
  for (int i = 0; i < 400; ++i) {
    scratch.write(
        fmt::format("s/{:03}.tar", i),
        write_tar({{fmt::format("{:03}.png", i), one_color(static_cast<uint8_t>(i % 200))}},
                  {.form = "ustar"}));
  }
  const auto data = open_dataset(at(scratch.path("s")));
  CHECK(data->size() == 400);
  CHECK(int{data->load(399).pixels[0]} == 199);
  size_t open = 0;
  for (const auto& ignored : std::filesystem::directory_iterator("/proc/self/fd")) {
    open += ignored.path().empty() ? 0 : 1;
  }
  CHECK(open < 300);
}

TEST_CASE("TarCutOffOrDamagedAnywhereNeverCrashes") {
  const Scratch scratch;
  const std::string filter = GENERATE("none", "gzip", "zstd");
  const std::string tar =
      write_tar({{"a.png", one_color(1)}, {"b/c.png", one_color(2)}}, {.filter = filter});
  const std::string path = scratch.path(filter == "none" ? "set.tar" : "set.tar.gz");
  const auto open = [&](std::string_view bytes) {
    write_file(path, bytes);
    const auto dataset = open_dataset(at(path));
    for (int64_t i = 0; i < dataset->size(); ++i) dataset->load(i);
    if (dataset->size() < 2) fail(Exit::kInput, "less than there is");
  };
  const size_t content = filter == "none" ? tar.size() - 1024 : tar.size();  // then zeros
  CHECK(accepted_beginnings(tar.substr(0, std::min<size_t>(content, 2000)), open) == 0);
  accepted_damage(tar, 200, open);
}

TEST_CASE("ATarWhoseSizesAreAbsurdIsRefused") {
  const Scratch scratch;
  std::string tar = write_tar({{"a.png", "content"}}, {.form = "ustar"});
  tar.replace(124, 11, "77777777777");  // 8 GiB
  unsigned sum = 0;
  tar.replace(148, 8, 8, ' ');
  for (int i = 0; i < 512; ++i) sum += static_cast<uint8_t>(tar[static_cast<size_t>(i)]);
  tar.replace(148, 7, fmt::format("{:06o}\0", sum));
  scratch.write("a.tar", tar);
  CHECK(contains(open_error(at(scratch.path("a.tar"))), "broken tar archive"));
}

TEST_CASE("WhatUnpacksToMuchMoreThanItWasIsRefused") {
  const Scratch scratch;
  const std::string zeros(size_t{300} << 20, '\0');
  const std::string path = scratch.path("bomb.tar.gz");
  gzFile file = gzopen(path.c_str(), "wb9");
  REQUIRE(gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size())) > 0);
  gzclose(file);
  CHECK(contains(open_error(at(path)), "more than 200 times its size"));
}

TEST_CASE("GzipOfSeveralMembersIsReadToItsEnd") {
  const Scratch scratch;
  const auto member = [](const std::string& text) {
    return write_tar({{"a", text}}, {.filter = "gzip"});
  };
  const std::string tail(4096, '\0');  // as tape archives are filled up
  scratch.write("both.gz", member("one") + member("two") + tail);
  const FilePart part = unpacked(whole_file(scratch.path("both.gz")));
  const auto size = static_cast<int64_t>(2 * write_tar({{"a", "one"}}).size());
  CHECK(part.size == size);
  std::string damaged = member(std::string(5000, 'x'));
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // the checksum
  scratch.write("damaged.gz", damaged);
  CHECK(contains(input_error([&] { unpacked(whole_file(scratch.path("damaged.gz"))); }),
                 "cannot be unpacked"));
}

TEST_CASE("UnpackingEndsAtAStop") {
  const Scratch scratch;
  scratch.write("a.tar.gz", write_tar({{"a", "b"}}, {.filter = "gzip"}));
  CHECK_FALSE(user_error(Exit::kStopped, [&] {
                open_dataset(at(scratch.path("a.tar.gz")), [] { return true; });
              }).empty());
}

TEST_CASE("ShardsOfOneFileNameKeepTheirLabels") {
  const Scratch scratch;
  const auto shard = [](uint8_t value, const std::string& label) {
    return write_tar({{"0.png", one_color(value)}, {"0.cls", label}});
  };
  scratch.write("train/00.tar", shard(1, "cat"));
  scratch.write("val/00.tar", shard(2, "ant"));
  const auto data = open_dataset(at(scratch.path("{train,val}/00.tar")));
  CHECK(values(*data) == std::vector<int>{1, 2});
  REQUIRE(data->classes() == 2);
  CHECK(data->class_name(data->label(0)) == "cat");
  CHECK(data->class_name(data->label(1)) == "ant");
  CHECK(values(*open_dataset(at(scratch.path("{train,train}/00.tar")))) == std::vector<int>{1, 1});
}

TEST_CASE("APatternStandsForArchives") {
  const Scratch scratch;
  scratch.write("p/1.png", one_color(1));
  scratch.write("p/2.png", one_color(2));
  const std::string error = open_error(at(scratch.path("p/*.png")));
  CHECK(contains(error, "1.png is no tar archive; a pattern stands for tar archives"));
  CHECK(contains(error, "--data " + scratch.path("p")));
  scratch.write("s/a.data", write_tar({{"1.png", one_color(1)}}));
  scratch.write("s/b.data", write_tar({{"2.png", one_color(2)}}, {.filter = "gzip"}));
  CHECK(values(*open_dataset(at(scratch.path("s/?.data")))) == std::vector<int>{1, 2});
}

}  // namespace gantrain
