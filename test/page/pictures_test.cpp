// SPDX-License-Identifier: Apache-2.0
#include "page/pictures.h"

#include <limits>

#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

std::vector<SampleFile> numbered(int count) {
  std::vector<SampleFile> files;
  for (int i = 0; i < count; ++i) files.push_back({static_cast<double>(i), ""});
  return files;
}

}  // namespace

TEST_CASE("SmallPngsAreEmbeddedAsTheyAre") {
  const TemporaryFolder folder;
  write_file(folder / "a.png", "\x89PNG is not enough");
  write_file(folder / "b.png", encode_png(grey_picture(8)));
  EmbeddedPictures store;
  CHECK(!store.url_of(folder / "a.png", {}));
  CHECK(!store.url_of(folder / "missing.png", {}));
  write_file(folder / "c.png", encode_jpeg(grey_picture(8)));  // a run writes no such file
  CHECK(!store.url_of(folder / "c.png", {}));
  const auto url = store.url_of(folder / "b.png", {});
  REQUIRE(url);
  CHECK(starts_with(*url, "data:image/png;base64,iVBORw0KGgo"));
}

TEST_CASE("LargePicturesAreShrunkBelowTheirLimits") {
  const TemporaryFolder folder;
  write_file(folder / "large.png", encode_png(noise_picture(2000, 500, 3), 1));
  EmbeddedPictures store;
  const PictureLimits limits = GENERATE(PictureLimits{512, 79'000}, PictureLimits{1600, 20'000});
  const auto url = store.url_of(folder / "large.png", limits);
  REQUIRE(url);
  CHECK(starts_with(*url, "data:image/webp;base64,"));
  CHECK(url->size() * 3 / 4 <= limits.bytes + 50);
}

TEST_CASE("APictureThatChangedIsEncodedAnew") {
  const TemporaryFolder folder;
  write_file(folder / "a.png", encode_png(grey_picture(8)));
  EmbeddedPictures store;
  const auto before = store.url_of(folder / "a.png", {});
  write_file(folder / "a.png", encode_png(noise_picture(9, 9, 1)));
  CHECK(store.url_of(folder / "a.png", {}) != before);
}

TEST_CASE("SampleFilesAreInTheOrderOfTraining") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "samples");
  for (const char* name :
       {"fakes000200.png", "fakes000100.500.png", "fakes_init.png", "latest.png", "fakes.png.tmp1"})
    write_file(folder / "samples" / name, "");
  const std::vector<SampleFile> files = sample_files(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(files[0].kimg == 0);
  CHECK(files[1].kimg == 100.5);
  CHECK(files[2].kimg == 200);
}

TEST_CASE("ChosenFramesAreEvenAndHaveBothEnds") {
  const int count = GENERATE(0, 1, 2, 23, 24, 25, 47, 200, 1001);
  const std::vector<SampleFile> chosen = evenly_chosen(numbered(count), 24);
  CHECK(chosen.size() <= 24);
  CHECK(chosen.size() >= static_cast<size_t>(std::min(count, 12)));
  if (count == 0) return;
  CHECK(chosen.front().kimg == 0);
  CHECK(chosen.back().kimg == count - 1);
  for (size_t i = 2; i + 1 < chosen.size(); ++i)
    CHECK(chosen[i].kimg - chosen[i - 1].kimg == chosen[1].kimg - chosen[0].kimg);
}

TEST_CASE("RowsOfAGridHoldTheirClasses") {
  CHECK(row_names({4, 2}, {"a", "b"}) == std::vector<std::string>{"a", "a", "b", "b"});
  CHECK(row_names({2, 2}, {"a", "b", "c", "d"}) ==
        std::vector<std::string>{"a \u2013 b", "c \u2013 d"});
  CHECK(row_names({2, 2}, {}).empty());
  CHECK(row_names({0, 0}, {"a"}).empty());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();  // of a stranger's configuration
  CHECK(row_names({kMost, 1}, {"a"}).empty());
  CHECK(row_names({1, kMost}, {"a"}).empty());
}

}  // namespace gantrain
