// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/options.h"

#include "recipes/completed_config.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("BatchesFollowTheRanksAndRatesTheResolutionAlone") {
  struct Row {
    int64_t ranks;
    const char* batch;
    const char* lr_factor;
    int64_t first;  // batch of the first stage
  };
  const Row table[] = {
      {1,
       "4:128,8:128,16:128,32:64,64:32,128:16,256:8,512:4,4",
       "128:1.5,256:2,512:3,1024:3,1",
       128},
      {2, "4:256,8:256,16:128,32:64,64:32,128:16,8", "128:1.5,256:2,512:3,1024:3,1", 256},
      {4, "4:512,8:256,16:128,32:64,64:32,16", "128:1.5,256:2,512:3,1024:3,1", 256},
      {8, "4:512,8:256,16:128,32:64,32", "128:1.5,256:2,512:3,1024:3,1", 256},
  };
  for (const Row& row : table) {
    CAPTURE(row.ranks);
    const Config config = completed(stylegan1::facts(), row.ranks);
    CHECK(config.get("schedule.batch") == row.batch);
    CHECK(config.get("schedule.lr_factor") == row.lr_factor);
    CHECK(config.get("train.batch") == row.first);
  }
}

TEST_CASE("LabelsAreUsedWhereTheConfigurationSaysSo") {
  Config config = completed(stylegan1::facts(), 1);
  CHECK(stylegan1::facts().conditional());
  CHECK_FALSE(stylegan1::facts().wants_labels(config));
  config.set("stylegan1.conditional", true, "test");
  CHECK(stylegan1::facts().wants_labels(config));
}
