// SPDX-License-Identifier: Apache-2.0
// The way of every value from a file through training's numbers into a file again.
#include <cstring>

#include "core/torch.h"
#include "data/containers/source.h"
#include "data/load/loader.h"
#include "data/pictures/dataset.h"
#include "draw/draw.h"
#include "report/grid.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

namespace {

using at::Tensor;

// Every value of that depth once in each channel.
Image all_values(int64_t channels, int64_t depth) {
  const int64_t side = depth == 16 ? 256 : 16;
  Image image{side, side, channels, {}, depth, is_stack(channels)};
  std::vector<uint16_t> words;
  for (int64_t i = 0; i < side * side; ++i) {
    for (int64_t c = 0; c < channels; ++c) words.push_back(static_cast<uint16_t>(i + 9173 * c));
  }
  if (depth == 16) {
    image.pixels.resize(2 * words.size());
    std::memcpy(image.pixels.data(), words.data(), image.pixels.size());
  } else {
    for (const uint16_t word : words) image.pixels.push_back(static_cast<uint8_t>(word));
  }
  return image;
}

}  // namespace

TEST_CASE("EveryValueComesBackFromTrainingsNumbers") {
  const int64_t depth = GENERATE(8, 16);
  const int64_t channels = GENERATE(1, 3, 4, 5, 16);
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "in");
  Image image = all_values(channels, depth);
  const bool stack = channels > 3;
  if (stack) {
    write_file(folder / "in/a.npy", encode_npy(image));
  } else {
    write_file(folder / "in/a.png", encode_png(image));
  }
  DataOptions options;
  options.path = (folder / "in").string();
  options.resolution = square_of(image.width);
  options.depth = Depth::kAuto;
  const auto data = open_dataset(options);
  REQUIRE(data->depth() == depth);
  REQUIRE(data->channels() == channels);
  const Tensor planes = load_planes(*data, {{0}}, depth);
  const double half = depth == 16 ? 32767.5 : 127.5;
  const Tensor x = planes.to(at::kFloat).div_(half).sub_(1);
  CHECK(x.min().item<float>() >= -1);
  CHECK(x.max().item<float>() <= 1);
  CHECK(to_image(to_depth(x, depth)[0]).pixels == image.pixels);
  CHECK(to_image(planes[0]).pixels == image.pixels);

  PictureFolder(folder / "png", PictureFormat::kPng, depth).write("b", x[0]);
  PictureFolder(folder / "stack", PictureFormat::kStack, depth).write("b", x[0]);
  Image back;
  const auto read = [&](const std::filesystem::path& file) {
    decode_image(read_file(file), file.string(), {.depth = depth}, back);
    return back;
  };
  CHECK(read(folder / "stack/b.npy").pixels == image.pixels);
  if (channels <= 4) {
    CHECK(read(folder / "png/b.png").pixels == image.pixels);
    return;
  }
  options.path = (folder / "png").string();
  CHECK(open_dataset(options)->load(0).pixels == image.pixels);
}

TEST_CASE("NumbersBeyondTheRangeAreClampedAndNanIsBlack") {
  const Tensor x = torch::tensor({-2.0F, -1.0F, 0.0F, 1.0F, 3.0F, std::nanf("")});
  const Tensor words = to_depth(x, 16).to(at::kInt);
  CHECK(words.equal(torch::tensor({0, 0, 32768, 65535, 65535, 0}, at::kInt)));
  CHECK(to_depth(to_depth(x, 8), 16).to(at::kInt).equal(to_depth(x, 8).to(at::kInt) * 257));
  CHECK(to_bytes(to_depth(to_depth(x, 8), 16)).equal(to_depth(x, 8)));
}

TEST_CASE("GridsShowThreeOfManyChannels") {
  const Tensor pictures = torch::arange(2 * 6 * 4 * 4, at::kInt).view({2, 6, 4, 4}).to(at::kUInt16);
  const Image grid = tile(pictures, 2);
  CHECK(grid.channels == 3);
  CHECK(grid.depth == 16);
  CHECK(grid.width == 8);
  const Image grey = tile(shown_channels(pictures, {5}), 1);
  CHECK(grey.channels == 1);
  CHECK(grey.height == 8);
  CHECK(shown_channels(pictures, {1, 2}).sizes() == at::IntArrayRef({2, 3, 4, 4}));
  CHECK(read_channels("--channels", "auto", 6).empty());
  CHECK(read_channels("--channels", "5, 0", 6) == std::vector<int64_t>{5, 0});
  for (const char* wrong : {"6", "-1", "0,1,2,3", "x", "0,"})
    CHECK_THROWS(read_channels("k", wrong, 6));
}

}  // namespace gantrain
