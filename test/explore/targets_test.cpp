// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "core/torch.h"
#include "explore/projection.h"
#include "report/grid.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

Image striped(int64_t width, int64_t height, int64_t channels) {
  Image image{width, height, channels, {}};
  for (int64_t i = 0; i < width * height * channels; ++i)
    image.pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
  return image;
}

int code_of(const std::vector<std::string>& files) {
  try {
    load_targets(files, {8, 8}, 3);
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find(files.back()) != std::string::npos);
    return static_cast<int>(e.code());
  }
  return 0;
}

}  // namespace

TEST_CASE("ATargetOfTheRightSizeKeepsItsPixels") {
  const TemporaryFolder folder;
  const Image image = striped(12, 8, 3);
  write_file(folder / "a.png", encode_png(image));
  const Targets targets = load_targets({(folder / "a.png").string()}, {12, 8}, 3);
  CHECK(targets.names == std::vector<std::string>{"a"});
  REQUIRE(targets.pictures.sizes() == at::IntArrayRef({1, 3, 8, 12}));
  CHECK(to_image(targets.pictures[0]).pixels == image.pixels);
}

TEST_CASE("TargetsOfAnyFormAndSizeAreFitted") {
  const TemporaryFolder folder;
  write_file(folder / "grey.png", encode_png(striped(40, 30, 1)));
  write_file(folder / "alpha.webp", encode_webp(striped(9, 50, 4)));
  write_file(folder / "photo.jpg", encode_jpeg(striped(100, 20, 3)));
  std::vector<std::string> files;
  for (const char* name : {"grey.png", "alpha.webp", "photo.jpg"})
    files.push_back((folder / name).string());
  CHECK(load_targets(files, {16, 8}, 3).pictures.sizes() == at::IntArrayRef({3, 3, 8, 16}));
  CHECK(load_targets(files, {8, 8}, 1).pictures.sizes() == at::IntArrayRef({3, 1, 8, 8}));
}

TEST_CASE("TargetsThatCannotBeAreRefusedByName") {
  const TemporaryFolder folder;
  write_file(folder / "text.png", "no picture");
  const std::string good = (folder / "a.png").string();
  write_file(good, encode_png(striped(8, 8, 3)));
  CHECK(code_of({good}) == 0);
  CHECK(code_of({good, (folder / "text.png").string()}) == 3);
  CHECK(code_of({good, (folder / "none.png").string()}) == 3);
  CHECK(code_of({good, folder.path().string()}) == 3);
  CHECK(code_of({good, good}) == 2);
}

TEST_CASE("BytesComeFromTheMiddleOfWhatIsRoundedToThem") {
  const at::Tensor bytes = torch::arange(256, at::kByte).view({1, 1, 16, 16});
  CHECK(to_bytes(from_bytes(bytes)).equal(bytes));
  CHECK(from_bytes(bytes).abs().max().item<double>() == Approx(1));
}

TEST_CASE("PsnrIsThatOfItsDefinition") {
  const at::Tensor a = torch::zeros({2, 1, 4, 4}, at::kByte);
  at::Tensor b = a.clone();
  b[1].fill_(51);  // a fifth of the peak: 20 log10(5)
  const at::Tensor db = psnr(a, b);
  CHECK(std::isinf(db[0].item<double>()));
  CHECK(db[1].item<double>() == Approx(20 * std::log10(5.0)));
}

}  // namespace gantrain
