// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "train/save/run_folder.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("ARunNeedsTheStatesThatItKeepsAndAModelForEachSave") {
  SaveOptions save;
  save.every.images = 1000;
  save.keep_last = 3;
  // Ten saves and the last one, of which three are kept, while one is being written; the first
  // model is there before training.
  const DiskNeed fresh = disk_need({100, 10}, save, 10'500, 0);
  CHECK(fresh.states == 4);
  CHECK(fresh.models == 12);
  CHECK(fresh.bytes() == 4 * 100 + 12 * 10);
  const DiskNeed resumed = disk_need({100, 10}, save, 10'500, 9'000);
  CHECK(resumed.states == 3);
  CHECK(resumed.models == 2);
  save.keep_every.images = 5000;
  CHECK(disk_need({100, 10}, save, 10'500, 0).states == 6);
}

TEST_CASE("ModelsThatArePrunedNeedLess") {
  SaveOptions save;
  save.every.images = 1000;
  save.keep_last = 3;
  const DiskNeed two = disk_need({100, 10}, save, 10'500, 0, 2);
  CHECK(two.models_left == 2);
  CHECK(two.models == 3);  // while one is being written
  CHECK(two.states_left == 3);
  CHECK(two.bytes_left() == 3 * 100 + 2 * 10);
  CHECK(disk_need({100, 10}, save, 0, 0, 5).models == 2);  // the first one, and the last
  save.keep_best = "swd";
  CHECK(disk_need({100, 10}, save, 10'500, 0, 1).models_left == 2);
  CHECK(disk_need({100, 10}, save, 10'500, 0, 1).states_left == 4);  // one leads back to the best
  save.keep_every.images = 5000;
  CHECK(disk_need({100, 10}, save, 10'500, 0, 1).models_left == 4);
}

TEST_CASE("SnapshotsOfAveragesAllStay") {
  SaveOptions save;
  save.every.images = 10'000;
  const SaveBytes each{.state = 100, .model = 10, .snapshot = 7, .first_snapshot = 12};
  const DiskNeed need = disk_need(each, save, 10'000, 0, {}, 500);
  CHECK(need.snapshots == 20);
  CHECK(need.bytes_left() == disk_need({100, 10}, save, 10'000, 0).bytes_left() + 19 * 7 + 12);
  CHECK(disk_need(each, save, 10'100, 5'000, {}, 500).snapshots == 11);  // the last one at the end
  CHECK(disk_need({100, 10}, save, 10'000, 0, {}, 500).snapshots == 0);
  CHECK_THAT(to_text(need), Catch::Contains("20 snapshots of 1 MB of averages"));
}

TEST_CASE("TheNeedIsSaidInOneLine") {
  const DiskNeed need = {.each = {1'000'000'000, 30'000'000},
                         .states = 4,
                         .models = 2,
                         .states_left = 3,
                         .models_left = 1};
  CHECK(to_text(need) ==
        "3,030 MB on disk at the end (3 states of 1,000 MB, 1 model of 30 MB), at most 4,060 MB "
        "until then");
}

TEST_CASE("ADiskThatDoesNotHoldOneSaveIsRefused") {
  const TemporaryFolder folder;
  constexpr int64_t kMuch = std::numeric_limits<int64_t>::max() / 8;
  CHECK_THROWS_WITH(check_disk(folder.path(), {{kMuch, 1}, 2, 2}),
                    Catch::Contains(folder.path().string()) && Catch::Contains("MB free"));
  CHECK_NOTHROW(check_disk(folder.path(), {{1, 1}, 2, 2}));
  CHECK_NOTHROW(check_disk(folder.path(), {{1, 1}, kMuch, 2}));  // a warning
}
