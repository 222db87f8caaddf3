// SPDX-License-Identifier: Apache-2.0
#include "util/file_kind.h"

#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

TEST_CASE("AFileIsNamedByItsFirstBytes") {
  CHECK(file_kind("\x89PNG\r\n\x1a\n") == "a PNG picture");
  CHECK(file_kind(std::string("RIFF\x10\0\0\0WEBPVP8X", 16)) == "a WebP picture");
  CHECK(file_kind(std::string("\0\0\0\x20"
                              "ftypisom",
                              12)) == "a video (MP4)");
  CHECK(file_kind("<!DOCTYPE html><title>Not found</title>") == "a web page (HTML)");
  CHECK(file_kind("\x80\x04\x95") == "a pickle of Python");
  CHECK(file_kind("train:\n  batch: 4\n").empty());
  CHECK(file_kind("").empty());
}

TEST_CASE("AnAddressIsToBeDownloaded") {
  CHECK_NOTHROW(refuse_address("https"));
  CHECK_NOTHROW(refuse_address("models/ffhq.pkl"));
  CHECK_THROWS_WITH(
      refuse_address("https://host/a/ffhq.pkl?x=1"),
      "https://host/a/ffhq.pkl?x=1: files are read from disks alone; download it first: "
      "curl -fL -o ffhq.pkl 'https://host/a/ffhq.pkl?x=1'");
  CHECK_THROWS_WITH(
      refuse_address("hf://org/faces@v2/net.pkl"),
      "hf://org/faces@v2/net.pkl: files are read from disks alone; download it first: "
      "hf download org/faces net.pkl --revision v2 --local-dir faces");
}

}  // namespace gantrain
