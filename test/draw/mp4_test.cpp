// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "draw/frames.h"
#include "image/convert.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// A program that is called as ffmpeg is: `body` has the file to be written in $out.
fs::path stand_in(const TemporaryFolder& folder, const std::string& body) {
  const fs::path path = folder / "ffmpeg";
  write_file(path, "#!/bin/sh\nfor out; do :; done\n" + body + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

std::string environment_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kEnvironment);
    return e.what();
  }
  return "";
}

// Whether the file holds a line within ten seconds.
bool has_line(const fs::path& path) {
  for (int i = 0; i < 500; ++i) {
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
  const std::string at_end = environment_error([&] {
    Mp4Encoder encoder(late, {64, 48, 30});
    send(encoder, 2);
    encoder.finish();
  });
  CHECK(at_end ==
        late.string() + " failed (exit code 3): no such codec; -o NAME.webp needs no ffmpeg");
  const fs::path early = stand_in(folder, "echo 'bad flag' >&2; exit 1");
  const std::string while_sending = environment_error([&] {
    Mp4Encoder encoder(early, {64, 48, 30});
    send(encoder, 1000);
  });
  CHECK(while_sending.find("exit code 1): bad flag") != std::string::npos);
  const std::string silent = environment_error([&] {
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
