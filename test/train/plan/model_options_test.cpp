// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "train/options.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("ModelsAreKeptAllOrSoManyOrTheBest") {
  SaveOptions save;
  CHECK(!models_kept({}, save));
  CHECK(models_kept({.keep = "5"}, save) == 5);
  save.keep_best = "fid";
  CHECK(models_kept({.keep = "best"}, save) == 1);
}

TEST_CASE("WhatIsNoNumberOfModelsIsRefused") {
  for (const char* odd : {"0", "-1", "2.5", "none", "", "All"}) {
    CAPTURE(odd);
    CHECK_THROWS_WITH(models_kept({.keep = odd}, {}),
                      Catch::Contains("save.keep_models") && Catch::Contains("at least 1"));
  }
  CHECK_THROWS_WITH(models_kept({.keep = "best"}, {}), Catch::Contains("--keep-best"));
}
