// SPDX-License-Identifier: Apache-2.0
#include <webp/demux.h>

#include <catch2/catch.hpp>

#include "draw/frames.h"
#include "image/webp.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

TEST_CASE("AFolderGetsNumberedFrames") {
  const TemporaryFolder folder;
  const auto sink = folder_sink(folder / "out", 2);
  sink->add(test_picture(16, 12, 3));
  sink->add(test_picture(16, 12, 1));
  sink->finish();
  const Image first = decode_image(read_file(folder / "out/frame0000.png"), "frame0000.png");
  CHECK(first.pixels == test_picture(16, 12, 3).pixels);
  CHECK(fs::exists(folder / "out/frame0001.png"));
}

TEST_CASE("AFilmIsThereWholeOrNotAtAll") {
  const TemporaryFolder folder;
  const auto sink = film_sink(folder / "film.WEBP", {.fps = 20, .quality = 100});
  sink->add(test_picture(16, 12, 3));
  Image second = test_picture(16, 12, 3);
  second.pixels[0] ^= 0xff;
  sink->add(second);
  CHECK(fs::is_empty(folder.path()));
  sink->finish();
  const std::string file = read_file(folder / "film.WEBP");
  const WebPData data = {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  WebPDemuxer* demuxer = WebPDemux(&data);
  REQUIRE(demuxer != nullptr);
  CHECK(WebPDemuxGetI(demuxer, WEBP_FF_FRAME_COUNT) == 2);
  CHECK(WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH) == 16);
  WebPDemuxDelete(demuxer);
}

TEST_CASE("FramesTooLargeForWebpAreRefusedAsUsage") {
  const TemporaryFolder folder;
  const auto sink = film_sink(folder / "film.webp", {});
  try {
    sink->add(test_picture(kMaxWebpSide + 1, 1, 3));
    FAIL("accepted");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    CHECK(std::string(e.what()).find("16383") != std::string::npos);
  }
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace gantrain
