// SPDX-License-Identifier: Apache-2.0
#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "image/codec.h"
#include "image/image.h"
#include "util/error.h"

namespace gantrain {

namespace {

struct CloseHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, CloseHandle>;

Handle open_handle(tjhandle handle) {
  if (handle == nullptr) throw std::bad_alloc();
  return Handle(handle);
}

[[noreturn]] void fail_broken(const Handle& handle, const std::string& name) {
  fail(Exit::kInput, "{}: broken JPEG: {}", name, tjGetErrorStr2(handle.get()));
}

struct Header {
  int width = 0;
  int height = 0;
  int color = 0;  // TJCS
  bool grey() const { return color == TJCS_GRAY; }
  bool cmyk() const { return color == TJCS_CMYK || color == TJCS_YCCK; }
};

Header read_header(const Handle& handle, std::string_view bytes, const std::string& name) {
  Header header;
  int subsampling = 0;
  const int result = tjDecompressHeader3(handle.get(),
                                         data_of(bytes),
                                         bytes.size(),
                                         &header.width,
                                         &header.height,
                                         &subsampling,
                                         &header.color);
  if (result != 0 && (tjGetErrorCode(handle.get()) == TJERR_FATAL || header.width < 1)) {
    fail_broken(handle, name);
  }
  const int channels = header.grey() ? 1 : header.cmyk() ? 4 : 3;
  const ImageInfo info = {.width = header.width, .height = header.height, .channels = channels};
  check_size(info, name, "JPEG");
  check_packing(info, {bytes.size(), 8 * 64}, name, "JPEG");  // a bit for each block of 8x8 pixels
  return header;
}

// Decodes at `scale`. Huffman codes carry no checksum: a truncated or damaged file shows only in
// warnings, so these count as errors.
void decode_scaled(const Handle& handle,
                   const Header& header,
                   std::string_view bytes,
                   const std::string& name,
                   tjscalingfactor scale,
                   Image& image) {
  const int format = header.grey() ? TJPF_GRAY : header.cmyk() ? TJPF_CMYK : TJPF_RGB;
  set_size(image,
           {.width = TJSCALED(header.width, scale),
            .height = TJSCALED(header.height, scale),
            .channels = tjPixelSize[format]});
  if (tjDecompress2(handle.get(),
                    data_of(bytes),
                    bytes.size(),
                    image.pixels.data(),
                    static_cast<int>(image.width),
                    0,
                    static_cast<int>(image.height),
                    format,
                    TJFLAG_STOPONWARNING | TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0) {
    fail_broken(handle, name);
  }
}

// Whether the part that is taken of the shrunk picture shows what that of the whole one would.
bool part_stays(const Size& whole, const Size& shrunk, const Size& crop) {
  if (crop == Size{}) return true;
  const int64_t divisor = whole.width / shrunk.width;
  const Part part = central_part(shrunk, crop);
  return central_part(whole, crop) == Part{part.left * divisor,
                                           part.top * divisor,
                                           {part.size.width * divisor, part.size.height * divisor}};
}

// By how much a picture may be shrunk. A pixel in which its edges, or those of the part that is
// taken of it, fell would also stand for what lies beyond: at 32 pixels this changed edges by up to
// 19 of 255, while elsewhere nothing changes by more than 5.
int divisor_for(const Size& seen, const NeededSize& needed) {
  for (const int divisor : {8, 4, 2}) {
    if (seen.width % divisor != 0 || seen.height % divisor != 0) continue;
    const Size shrunk{seen.width / divisor, seen.height / divisor};
    const bool wide = shrunk.width >= needed.least.width;
    const bool high = shrunk.height >= needed.least.height;
    const bool enough = needed.both ? wide && high : wide || high;
    if (enough && part_stays(seen, shrunk, needed.crop)) return divisor;
  }
  return 1;
}

// The picture as it is seen.
ImageInfo seen_info(const Header& header, int orientation) {
  return turned({.width = header.width, .height = header.height, .channels = header.grey() ? 1 : 3},
                orientation);
}

// Adobe's convention, which all CMYK files in the wild follow: 255 is no ink.
void cmyk_to_rgb(Image& image) {
  const auto count = static_cast<size_t>(image.width * image.height);
  std::vector<uint8_t> rgb(count * 3);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* in = &image.pixels[4 * i];
    for (size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] = static_cast<uint8_t>((in[c] * in[3] + 127) / 255);
  }
  image.pixels = std::move(rgb);
  image.channels = 3;
}

}  // namespace

ImageInfo info_of_jpeg(std::string_view bytes, const std::string& name) {
  const Handle handle = open_handle(tjInitDecompress());
  return seen_info(read_header(handle, bytes, name), jpeg_orientation(bytes));
}

void decode_jpeg(std::string_view bytes,
                 const std::string& name,
                 const NeededSize& needed,
                 Image& image) {
  // A handle keeps the tables of the file before, and a broken file without tables would be decoded
  // with these. So every file has its own handle; to make one takes 0.2 microseconds.
  const Handle handle = open_handle(tjInitDecompress());
  const Header header = read_header(handle, bytes, name);
  const int orientation = jpeg_orientation(bytes);
  const ImageInfo info = seen_info(header, orientation);
  const int divisor = divisor_for({info.width, info.height}, needed);
  decode_scaled(handle, header, bytes, name, {1, divisor}, image);
  if (header.cmyk()) cmyk_to_rgb(image);
  image = oriented(std::move(image), orientation);
}

// Decoding at an eighth of the size reads every code of the file and saves the rest of the work.
void verify_jpeg(std::string_view bytes, const std::string& name) {
  const Handle handle = open_handle(tjInitDecompress());
  Image image;
  decode_scaled(handle, read_header(handle, bytes, name), bytes, name, {1, 8}, image);
}

std::string encode_jpeg(const Image& image, int quality) {
  check_image(image);
  if (image.depth == 16) return encode_jpeg(in_depth(image, 8), quality);
  if (image.channels % 2 == 0)
    return encode_jpeg(with_channels(image, image.channels - 1), quality);
  const Handle handle = open_handle(tjInitCompress());
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const bool grey = image.channels == 1;
  const int result = tjCompress2(handle.get(),
                                 image.pixels.data(),
                                 static_cast<int>(image.width),
                                 0,
                                 static_cast<int>(image.height),
                                 grey ? TJPF_GRAY : TJPF_RGB,
                                 &out,
                                 &size,
                                 grey ? TJSAMP_GRAY : TJSAMP_444,
                                 quality,
                                 TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(out, tjFree);
  if (result != 0) {
    throw std::runtime_error(fmt::format("encode_jpeg: {}", tjGetErrorStr2(handle.get())));
  }
  return std::string(reinterpret_cast<const char*>(out), size);
}

}  // namespace gantrain
