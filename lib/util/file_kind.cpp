// SPDX-License-Identifier: Apache-2.0
#include "util/file_kind.h"

#include <array>
#include <utility>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

using namespace std::string_view_literals;

// How files begin.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kKinds = {{
    {"\x89PNG"sv, "a PNG picture"},
    {"\xff\xd8\xff"sv, "a JPEG picture"},
    {"GIF8"sv, "a GIF picture"},
    {"II*\0"sv, "a TIFF picture"},
    {"MM\0*"sv, "a TIFF picture"},
    {"PK\3\4"sv, "a zip archive"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive"},
    {"\xfd\x37zXZ"sv, "an xz archive"},
    {"\x93NUMPY"sv, "an array of numpy (.npy)"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"%PDF"sv, "a PDF document"},
    {"\x7f\x45LF"sv, "a program or library"},
    {"<!doctype html"sv, "a web page (HTML)"},
    {"<html"sv, "a web page (HTML)"},
    {"version https://git-lfs"sv,
     "a pointer of Git LFS, which stands for the file until git lfs pull"},
}};

bool is_address(const std::string& text) {
  for (const char* begin : {"http://", "https://", "ftp://", "s3://", "gs://", "hf://"}) {
    if (starts_with(text, begin)) return true;
  }
  return false;
}

}  // namespace

std::string file_kind(std::string_view bytes) {
  if (starts_with(bytes, "RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "a WebP picture";
  if (bytes.substr(0, 8).ends_with("ftyp")) return "a video (MP4)";
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return "a pickle of Python";
  const std::string small = lower(bytes.substr(0, 32));
  for (const auto& [begin, kind] : kKinds) {
    if (starts_with(bytes, begin) || starts_with(small, begin)) return std::string(kind);
  }
  return "";
}

void refuse_address(const std::string& given) {
  if (!is_address(given)) return;
  const std::string path = given.substr(0, given.find_first_of("?#"));
  const std::string name = path.substr(path.rfind('/') + 1);
  fail(Exit::kUsage,
       "{}: files are read from disks alone; download it first: curl -fL -o {} {}",
       given,
       name.empty() ? "FILE" : shell_quote(name),
       shell_quote(given));
}

}  // namespace gantrain
