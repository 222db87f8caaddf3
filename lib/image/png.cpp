// SPDX-License-Identifier: Apache-2.0
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "image/codec.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Reason = char[128];  // why libpng failed

// All that libpng's callbacks need. Nothing with a destructor lives between setjmp and longjmp:
// the functions that call setjmp are plain C in style, and their callers own the memory.
struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const char* bytes = nullptr;
  size_t size = 0;
  size_t position = 0;
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int channels = 0;
  int depth = 8;      // of what is read
  int own_depth = 8;  // of the file
  bool keeps_16 = false;
  int passes = 1;
  Reason reason = "";
};

void on_error(png_structp png, png_const_charp message) {
  std::strncpy(static_cast<char*>(png_get_error_ptr(png)), message, sizeof(Reason) - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->size - reader->position) png_error(png, "the file ends too early");
  std::memcpy(out, reader->bytes + reader->position, count);
  reader->position += count;
}

// Reads the header and asks for 8 bits a channel without palette, or for 16 in the machine's order
// where they are kept. False: reader.reason says why.
bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, on_read);
  png_set_user_limits(reader.png, kMaxImageSide, kMaxImageSide);
  // Of the chunks beside the pixels only PLTE and tRNS matter. libpng would take as much memory for
  // the others as they announce.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  reader.own_depth = png_get_bit_depth(reader.png, reader.info);
  png_set_expand(reader.png);  // palette to RGB, 1, 2 and 4 bits to 8, tRNS to alpha
  if (!reader.keeps_16) {
    png_set_scale_16(reader.png);  // rounds to the nearest; strip_16 would cut
  } else if (reader.own_depth == 16 && std::endian::native == std::endian::little) {
    png_set_swap(reader.png);
  }
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  reader.channels = png_get_channels(reader.png, reader.info);
  reader.depth = png_get_bit_depth(reader.png, reader.info);
  if (reader.depth != (reader.keeps_16 && reader.own_depth == 16 ? 16 : 8))
    png_error(reader.png, "odd bit depth");
  return true;
}

size_t row_bytes(const Reader& reader) {
  return size_t{reader.width} * static_cast<size_t>(reader.channels * (reader.depth / 8));
}

// Writes row k behind k times `stride` bytes; 0 writes all over one another.
bool read_pixels(Reader& reader, uint8_t* pixels, size_t stride) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (png_uint_32 row = 0; row < reader.height; ++row) {
      png_read_row(reader.png, pixels + row * stride, nullptr);
    }
  }
  png_read_end(reader.png, nullptr);  // a file cut off behind its pixels is broken too
  return true;
}

// The values of a pixel in the file, by its color type (PNG specification, table 11.1).
int64_t values_of(int color_type) {
  switch (color_type) {
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    default:
      return 1;
  }
}

// IHDR comes first, so that a picture too large is called that and not "broken".
void check_png_size(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 26) fail(Exit::kInput, "{}: broken PNG: the file ends too early", name);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const ImageInfo info = {.width = png_get_uint_32(data + 16),
                          .height = png_get_uint_32(data + 20),
                          .channels = values_of(data[25]),
                          .depth = 8};
  check_size(info, name, "PNG");
  // Deflate packs at most 258 bytes into two bits.
  const int64_t bits = std::clamp<int64_t>(data[24], 1, 16) * info.channels;
  check_packing(info, {bytes.size(), 258 * 4 * 8 / bits}, name, "PNG");
}

// The content of the chunk at that place, with its checksum; "" where it is cut off or damaged.
std::string_view chunk_at(std::string_view bytes, size_t at) {
  constexpr size_t kAround = 12;  // length, name and checksum
  if (bytes.size() < kAround || at > bytes.size() - kAround) return "";
  const size_t length = png_get_uint_32(data_of(bytes) + at);
  if (length > bytes.size() - at - kAround) return "";
  const uint8_t* name = data_of(bytes) + at + 4;
  if (crc32_z(0, name, length + 4) != png_get_uint_32(name + 4 + length)) return "";
  return bytes.substr(at + 8, length);
}

// The content of the chunk eXIf (PNG specification, 11.3.4.5). Some programs write it behind the
// pixels.
std::string_view exif_of_png(std::string_view bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    if (bytes.substr(at + 4, 4) == "eXIf") return chunk_at(bytes, at);
    at += 12 + size_t{png_get_uint_32(data_of(bytes) + at)};
  }
  return "";
}

// The same from the last bytes of a file, which need not begin with a chunk.
std::string_view end_exif_of_png(std::string_view last) {
  const size_t name = last.rfind("eXIf");
  return name == std::string_view::npos || name < 4 ? "" : chunk_at(last, name - 4);
}

// A file whose header was read, and whose size is checked. Owns libpng's structures.
class PngFile {
 public:
  PngFile(std::string_view bytes, const std::string& name, bool keeps_16) : PngFile(name) {
    check_png_size(bytes, name);
    reader_.keeps_16 = keeps_16;
    reader_.bytes = bytes.data();
    reader_.size = bytes.size();
    reader_.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, reader_.reason, on_error, on_warning);
    if (reader_.png == nullptr) throw std::bad_alloc();
    reader_.info = png_create_info_struct(reader_.png);
    if (reader_.info == nullptr || !read_header(reader_)) fail_broken();
    check_size(info(), name, "PNG");  // again: a palette has more channels when it is decoded
  }
  ~PngFile() { png_destroy_read_struct(&reader_.png, &reader_.info, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  // The depth is that of the pixels as they are read.
  ImageInfo info() const {
    return {.width = reader_.width,
            .height = reader_.height,
            .channels = reader_.channels,
            .depth = reader_.depth};
  }

  void read(uint8_t* pixels) {
    if (!read_pixels(reader_, pixels, row_bytes(reader_))) fail_broken();
  }

  void verify() {
    std::vector<uint8_t> row(row_bytes(reader_));
    if (!read_pixels(reader_, row.data(), 0)) fail_broken();
  }

 private:
  explicit PngFile(const std::string& name) : name_(name) {}  // the destructor runs from here on

  [[noreturn]] void fail_broken() const {
    fail(Exit::kInput, "{}: broken PNG: {}", name_, reader_.reason);
  }

  const std::string& name_;
  Reader reader_;
};

void on_write(png_structp png, png_bytep data, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), count);
}

void on_flush(png_structp) {}

bool write_png(png_structp png, png_infop info, const Image& image, int level) {
  constexpr int kColors[] = {
      PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_IHDR(png,
               info,
               static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height),
               static_cast<int>(image.depth),
               kColors[image.channels - 1],
               PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(png, level);
  // Stored bytes gain nothing from a filter, and decoders are faster without.
  if (level == 0) png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
  png_set_compression_buffer_size(png, size_t{1} << 20);  // few chunks
  png_write_info(png, info);
  if (image.depth == 16 && std::endian::native == std::endian::little) png_set_swap(png);
  const auto row_bytes = static_cast<size_t>(image.width * image.channels * (image.depth / 8));
  for (int64_t row = 0; row < image.height; ++row)
    png_write_row(png, image.pixels.data() + static_cast<size_t>(row) * row_bytes);
  png_write_end(png, info);
  return true;
}

}  // namespace

ImageInfo info_of_png(std::string_view bytes, const std::string& name, const ReadEnd& last) {
  const ImageInfo stored = PngFile(bytes, name, /*keeps_16=*/true).info();
  const std::string_view exif = exif_of_png(bytes);
  const std::string end = exif.empty() && last ? last() : "";
  return turned(stored, exif_orientation(end.empty() ? exif : end_exif_of_png(end)));
}

void decode_png(std::string_view bytes, const std::string& name, int64_t depth, Image& image) {
  PngFile file(bytes, name, depth == 16);
  set_size(image, file.info());
  file.read(image.pixels.data());
  image = oriented(std::move(image), exif_orientation(exif_of_png(bytes)));
}

void verify_png(std::string_view bytes, const std::string& name) {
  PngFile(bytes, name, /*keeps_16=*/false).verify();
}

namespace {

void check_for_png(const Image& image) {
  check_image(image);
  if (image.channels > kMostColors) throw std::invalid_argument("encode_png: 1 to 4 channels");
}

}  // namespace

std::string encode_png(const Image& image, int level) {
  check_for_png(image);
  std::string bytes;
  bytes.reserve(image.pixels.size() / (level == 0 ? 1 : 2) + 4096);
  Reason reason = "";
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, reason, on_error, on_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_write_struct(&png, nullptr);
    throw std::bad_alloc();
  }
  png_set_write_fn(png, &bytes, on_write, on_flush);
  const bool written = write_png(png, info, image, level);
  png_destroy_write_struct(&png, &info);
  if (!written) throw std::runtime_error(fmt::format("encode_png: {}", reason));
  return bytes;
}

std::string encode_png(const Image& image) {
  check_for_png(image);
  // The other way takes 16 bits for linear light, and multiplies colours by alpha.
  if (image.depth == 16) return encode_png(image, Z_DEFAULT_COMPRESSION);
  constexpr png_uint_32 kFormats[] = {
      PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = kFormats[image.channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr)) {
    throw std::runtime_error(fmt::format("encode_png: {}", png.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace gantrain
