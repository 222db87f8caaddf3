// SPDX-License-Identifier: Apache-2.0
#include "draw/frames.h"

#include <signal.h>
#include <webp/demux.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

TEST_CASE("AnOpenWalkGoesFromTheFirstKeyToTheLast") {
  const Walk walk{.keys = 3, .frames = 4, .loop = false};
  REQUIRE(frame_count(walk) == 9);
  for (int64_t i = 0; i < 8; ++i) {
    const Step step = step_of(walk, i);
    CHECK(step.from == i / 4);
    CHECK(step.to == i / 4 + 1);
    CHECK(step.t == static_cast<double>(i % 4) / 4);
  }
  const Step last = step_of(walk, 8);
  CHECK(last.to == 2);
  CHECK(last.t == 1);
}

TEST_CASE("AClosedWalkComesBackWithoutShowingAKeyTwice") {
  const Walk walk{.keys = 3, .frames = 4, .loop = true};
  REQUIRE(frame_count(walk) == 12);
  for (int64_t i = 0; i < 12; ++i) {
    const Step step = step_of(walk, i);
    CHECK(step.from == i / 4);
    CHECK(step.to == (i / 4 + 1) % 3);
    CHECK(step.t == static_cast<double>(i % 4) / 4);
  }
}

TEST_CASE("AWalkOfOneFrameAKeyShowsTheKeys") {
  CHECK(frame_count({.keys = 5, .frames = 1, .loop = false}) == 5);
  CHECK(frame_count({.keys = 5, .frames = 1, .loop = true}) == 5);
  const Step last = step_of({.keys = 5, .frames = 1, .loop = false}, 4);
  CHECK(last.to == 4);
  CHECK(last.t == 1);
}

TEST_CASE("FramesSortByName") {
  CHECK(frame_name(7, 100) == "frame0007");
  CHECK(frame_name(9999, 10000) == "frame9999");
  CHECK(frame_name(7, 10001) == "frame00007");
  CHECK(frame_name(10000, 10001) == "frame10000");
}

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
  CHECK(user_error(Exit::kUsage, [&] {
          sink->add(test_picture(kMaxWebpSide + 1, 1, 3));
        }).find("16383") != std::string::npos);
  CHECK(fs::is_empty(folder.path()));
  const Size wide = {kMaxWebpSide + 1, 1};
  CHECK_NOTHROW(check_frame_size("--clip", "a.mp4", wide, "fewer pictures"));
  CHECK_NOTHROW(check_frame_size("--clip", "a.webp", {kMaxWebpSide, 1}, "fewer pictures"));
  CHECK_THAT(user_error(Exit::kUsage,
                        [&] { check_frame_size("--clip", "a.webp", wide, "fewer pictures"); }),
             Catch::StartsWith("--clip a.webp: ") && Catch::EndsWith("fewer pictures"));
}

namespace {

// A program that is called as ffmpeg is: `body` has the file to be written in $out.
fs::path stand_in(const TemporaryFolder& folder, const std::string& body) {
  const fs::path path = folder / "ffmpeg";
  write_file(path, "#!/bin/sh\nfor out; do :; done\n" + body + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

// Whether the file holds a line within a minute.
bool has_line(const fs::path& path) {
  for (int i = 0; i < 3000; ++i) {
    if (fs::exists(path) && fs::file_size(path) > 1) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

void send(Mp4Encoder& encoder, int count) {
  for (int i = 0; i < count; ++i) encoder.add(test_picture(64, 48, 3));
}

}  // namespace

TEST_CASE("FfmpegGetsRawFramesAndItsFileComesBack") {
  const TemporaryFolder folder;
  const fs::path words = folder / "words";
  const fs::path ffmpeg = stand_in(folder, "echo \"$@\" > " + words.string() + "\ncat > $out");
  Mp4Encoder encoder(ffmpeg, {64, 48, 12.5});
  std::string expected;
  for (const int64_t channels : {1, 3, 4}) {
    const Image frame = test_picture(64, 48, channels);
    encoder.add(frame);
    const Image rgb = with_channels(frame, 3);
    expected.append(rgb.pixels.begin(), rgb.pixels.end());
  }
  CHECK(encoder.finish() == expected);
  const std::string said = read_file(words);
  CHECK(said.find(" -s 64x48 -r 12.5 -i pipe:0 ") != std::string::npos);
  CHECK(said.find(" rgb24 ") != std::string::npos);
}

TEST_CASE("AFailingFfmpegIsReportedWithItsLastLine") {
  const TemporaryFolder folder;
  const fs::path late =
      stand_in(folder, "cat > /dev/null; echo first >&2; echo 'no such codec' >&2; exit 3");
  const std::string at_end = user_error(Exit::kEnvironment, [&] {
    Mp4Encoder encoder(late, {64, 48, 30});
    send(encoder, 2);
    encoder.finish();
  });
  CHECK(at_end ==
        late.string() + " failed (exit code 3): no such codec; -o NAME.webp needs no ffmpeg");
  const fs::path early = stand_in(folder, "echo 'bad flag' >&2; exit 1");
  const std::string while_sending = user_error(Exit::kEnvironment, [&] {
    Mp4Encoder encoder(early, {64, 48, 30});
    send(encoder, 1000);
  });
  CHECK(while_sending.find("exit code 1): bad flag") != std::string::npos);
  const std::string silent = user_error(Exit::kEnvironment, [&] {
    Mp4Encoder encoder(stand_in(folder, "cat > /dev/null"), {64, 48, 30});
    send(encoder, 1);
    encoder.finish();
  });
  CHECK(silent.find("failed") != std::string::npos);
}

TEST_CASE("AnFfmpegThatIsNotWaitedForIsEnded") {
  const TemporaryFolder folder;
  const fs::path pid = folder / "pid";
  std::optional<Mp4Encoder> encoder;
  encoder.emplace(stand_in(folder, "echo $$ > " + pid.string() + "\nexec sleep 60"),
                  Mp4Encoder::Format{64, 48, 30});
  REQUIRE(has_line(pid));
  const auto number = parse_int(trim(read_file(pid)));
  REQUIRE(number);
  REQUIRE(kill(static_cast<pid_t>(*number), 0) == 0);
  encoder.reset();
  CHECK(kill(static_cast<pid_t>(*number), 0) != 0);  // ended, and waited for
}

TEST_CASE("ARealFfmpegMakesAnMp4") {
  const fs::path ffmpeg = find_program("ffmpeg");
  if (ffmpeg.empty()) {
    WARN("skipped: no ffmpeg on PATH");
    return;
  }
  Mp4Encoder encoder(ffmpeg, {63, 48, 30});  // an odd side is padded
  for (int i = 0; i < 20; ++i) encoder.add(test_picture(63, 48, 3));
  const std::string video = encoder.finish();
  CHECK(video.substr(4, 4) == "ftyp");
  CHECK(video.find("moov") < video.find("mdat"));
}

}  // namespace gantrain
