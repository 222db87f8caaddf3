// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "curation/inspection_text.h"

namespace gantrain {
namespace {

Inspection pictures(std::map<std::pair<int64_t, int64_t>, int64_t> sizes) {
  Inspection inspection;
  inspection.path = "my photos";
  inspection.sizes = std::move(sizes);
  for (const auto& [size, count] : inspection.sizes) inspection.pictures += count;
  return inspection;
}

TEST_CASE("TheResolutionEnlargesFewPictures") {
  CHECK(advise(pictures({{{700, 700}, 10}, {{500, 510}, 90}}), true).resolution == square_of(256));
  CHECK(advise(pictures({{{64, 64}, 5}, {{512, 512}, 95}}), true).resolution == square_of(512));
  CHECK(advise(pictures({{{64, 64}, 50}, {{512, 512}, 50}}), true).resolution == square_of(64));
  CHECK(advise(pictures({{{9000, 9000}, 1}}), true).resolution == square_of(1024));
  CHECK(advise(pictures({{{8, 8}, 1}}), true).resolution == square_of(32));
}

TEST_CASE("PicturesOfOneOblongShapeGetARectangularNetwork") {
  CHECK(advise(pictures({{{512, 256}, 100}}), true).resolution == Size{512, 256});
  CHECK(advise(pictures({{{300, 600}, 100}}), true).resolution == Size{256, 512});
  CHECK(advise(pictures({{{512, 256}, 50}, {{256, 512}, 50}}), true).resolution == square_of(256));
}

TEST_CASE("GammaFollowsTheResolutionAndTheBatchOfOneGpu") {
  const Advice advice = advise(pictures({{{256, 256}, 20000}}), true);
  CHECK(advice.preset == "stylegan2");
  CHECK(advice.batch == 16);
  CHECK(advice.gamma == Approx(0.0002 * 65536 / 16));
  CHECK(advise(pictures({{{128, 128}, 500}}), true).batch == 32);
}

TEST_CASE("FewPicturesAreAugmentedAndACpuGetsASmallNetwork") {
  const Inspection few = pictures({{{512, 256}, 500}});
  CHECK(advise(few, true).preset == "stylegan2-ada");
  const Advice here = advise(few, false);
  CHECK(here.preset == "stylegan2-ada");
  CHECK(train_command(few, here) ==
        "gantrain --preset stylegan2-tiny --data 'my photos' --resolution 64x32");
}

TEST_CASE("ClassesAreUsed") {
  Inspection inspection = pictures({{{64, 64}, 500}});
  inspection.classes = {{"cat", 250}, {"dog", 250}};
  CHECK(train_command(inspection, advise(inspection, true)) ==
        "gantrain --preset stylegan2-ada --data 'my photos' --resolution 64 --cond on");
}

}  // namespace
}  // namespace gantrain
