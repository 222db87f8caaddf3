// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/npy.h"
#include "core/torch.h"
#include "draw/draw.h"
#include "report/grid.h"
#include "support/temporary_folder.h"
#include "util/file.h"

using namespace gantrain;

TEST_CASE("APictureIsAFileOfTheFormatAskedFor") {
  const TemporaryFolder folder;
  const at::Tensor picture = torch::linspace(-1, 1, 48).view({3, 4, 4});
  PictureFolder(folder / "made", PictureFormat::kPng).write("a", picture);
  PictureFolder(folder / "made", PictureFormat::kNpy).write("a", picture);
  const Image png = decode_image(read_file(folder / "made/a.png"), "a.png");
  CHECK(png.pixels == to_image(picture).pixels);
  CHECK(load_npy(folder / "made/a.npy").equal(picture));
}
