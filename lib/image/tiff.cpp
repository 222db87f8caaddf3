// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "image/codec.h"
#include "image/image.h"
#include "util/error.h"
#include "util/text.h"

// TIFF 6.0 (Adobe 1992), its Technical Notes 2 and 3 (Deflate, floating point), as far as pictures
// of measurements are written with it. No library is needed.

namespace gantrain {

namespace {

enum Tag : uint64_t {
  kSubfile = 254,
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kPhotometric = 262,
  kStripOffsets = 273,
  kOrientation = 274,
  kSamples = 277,
  kRowsPerStrip = 278,
  kStripBytes = 279,
  kPlanar = 284,
  kPredictor = 317,
  kTileWidth = 322,
  kTileHeight = 323,
  kTileOffsets = 324,
  kTileBytes = 325,
  kExtraSamples = 338,
  kSampleFormat = 339
};
enum Coding : int64_t {
  kStored = 1,
  kLzw = 5,
  kDeflate = 8,
  kOldDeflate = 32946,
  kPackBits = 32773
};

constexpr size_t kMostPages = 1024;               // looked at, thumbnails among them
constexpr size_t kMostNumbers = size_t{1} << 20;  // of one tag

class TiffFile {
 public:
  TiffFile(std::string_view bytes, const std::string& name)
      : bytes_(bytes), name_(name), big_(starts_with(bytes, "MM")) {}

  template <class... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Exit::kInput,
         "{}: broken TIFF: {}",
         name_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void unknown(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Exit::kInput,
         "{}: a TIFF that is not read: {}",
         name_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // A whole number of so many bytes in the file's order.
  uint64_t number(uint64_t at, uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) broken("the file ends too early");
    uint64_t value = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t place = at + (big_ ? i : count - 1 - i);
      value = value << 8 | static_cast<uint8_t>(bytes_[place]);
    }
    return value;
  }
  std::string_view part(uint64_t at, uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) broken("the file ends too early");
    return bytes_.substr(at, count);
  }
  bool swapped() const { return big_ == (std::endian::native == std::endian::little); }
  const std::string& name() const { return name_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& name_;
  bool big_;
};

// A directory: the numbers of each of its tags.
class Page {
 public:
  Page(const TiffFile& file, uint64_t at) : file_(file), at_(at), entries_(file.number(at, 2)) {}

  uint64_t next() const { return file_.number(at_ + 2 + 12 * entries_, 4); }

  // All numbers of a tag; empty where it is not there.
  std::vector<int64_t> all(uint64_t tag) const {
    std::vector<int64_t> numbers;
    for (uint64_t i = 0; i < entries_; ++i) {
      const uint64_t entry = at_ + 2 + 12 * i;
      if (file_.number(entry, 2) != tag) continue;
      const uint64_t type = file_.number(entry + 2, 2), count = file_.number(entry + 4, 4);
      const uint64_t bytes = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
      if (bytes == 0 || count == 0 || count > kMostNumbers) file_.broken("tag {}", tag);
      const uint64_t from = count * bytes <= 4 ? entry + 8 : file_.number(entry + 8, 4);
      file_.part(from, count * bytes);  // before memory is taken
      for (uint64_t k = 0; k < count; ++k)
        numbers.push_back(static_cast<int64_t>(file_.number(from + k * bytes, bytes)));
      break;
    }
    return numbers;
  }
  int64_t one(uint64_t tag, int64_t absent) const {
    const std::vector<int64_t> numbers = all(tag);
    return numbers.empty() ? absent : numbers.front();
  }
  const TiffFile& file() const { return file_; }

 private:
  const TiffFile& file_;
  uint64_t at_;
  uint64_t entries_;
};

// What a page's pixels are and how they lie.
struct PageForm {
  int64_t width = 0, height = 0, samples = 0;
  int64_t value_bytes = 1;
  bool fractions = false;  // floating point
  bool inverted = false;   // 0 is white
  bool colors = false;     // grey or RGB, with or without alpha
  int64_t orientation = 1;
  int64_t coding = kStored;
  bool differences = false;
  bool apart = false;  // each sample in a plane of its own
  int64_t chunk_width = 0, chunk_height = 0;

  int64_t chunk_samples() const { return apart ? 1 : samples; }
  bool fits(const PageForm& other) const {
    return width == other.width && height == other.height && value_bytes == other.value_bytes &&
           fractions == other.fractions;
  }
  int64_t depth() const { return value_bytes == 1 ? 8 : 16; }
};

// Samples that are all alike.
int64_t common_of(const Page& page, uint64_t tag, int64_t absent, const char* what) {
  const std::vector<int64_t> numbers = page.all(tag);
  if (numbers.empty()) return absent;
  if (std::ranges::count(numbers, numbers.front()) != std::ssize(numbers))
    page.file().unknown("samples of different {}", what);
  return numbers.front();
}

void read_types(const Page& page, PageForm& form) {
  const int64_t bits = common_of(page, kBits, 1, "bits");
  const int64_t kind = common_of(page, kSampleFormat, 1, "formats");
  form.fractions = kind == 3;
  const bool known =
      form.fractions ? bits == 32 || bits == 64 : kind == 1 && (bits == 8 || bits == 16);
  if (!known) {
    page.file().unknown(
        "{} bits of {}; 8 and 16 bits of whole numbers from 0 on and 32 and 64 of "
        "floating point are",
        bits,
        kind == 1   ? "whole numbers"
        : kind == 2 ? "signed numbers"
        : kind == 3 ? "floating point"
                    : "another type");
  }
  form.value_bytes = bits / 8;
}

PageForm form_of_page(const Page& page) {
  PageForm form{.width = page.one(kWidth, 0),
                .height = page.one(kHeight, 0),
                .samples = page.one(kSamples, 1)};
  const TiffFile& file = page.file();
  read_types(page, form);
  const int64_t photometric = page.one(kPhotometric, 1);
  if (photometric > 2) file.unknown("colours of type {}; grey and RGB are", photometric);
  form.inverted = photometric == 0;
  const int64_t own = photometric == 2 ? 3 : 1, extra = page.one(kExtraSamples, 0);
  form.colors = form.samples == own || (form.samples == own + 1 && (extra == 1 || extra == 2));
  form.orientation = page.one(kOrientation, 1);
  form.coding = page.one(kCompression, kStored);
  const int64_t predictor = page.one(kPredictor, 1);
  if (predictor > 2 || (predictor == 2 && form.fractions))
    file.unknown("predictor {} of {}", predictor, form.fractions ? "floating point" : "its values");
  form.differences = predictor == 2;
  form.apart = form.samples > 1 && page.one(kPlanar, 1) == 2;
  form.chunk_width = page.one(kTileWidth, form.width);
  form.chunk_height =
      page.one(kTileHeight,
               std::min(page.one(kRowsPerStrip, form.height), std::max<int64_t>(form.height, 1)));
  if (form.samples < 1 || form.samples > kMaxChannels)
    file.unknown("{} channels; 1 to {} are taken", form.samples, kMaxChannels);
  check_size({form.width, form.height, form.samples, 8 * form.value_bytes}, file.name(), "TIFF");
  constexpr int64_t kMostPacked = 4096;  // bytes that a code of LZW stands for, more than Deflate's
  check_packing({form.width, form.height}, {file.size(), kMostPacked}, file.name(), "TIFF");
  if (form.chunk_width < 1 || form.chunk_height < 1 || form.chunk_width > 2 * kMaxImageSide ||
      form.chunk_height > 2 * kMaxImageSide)
    file.broken("strips or tiles of no size");
  check_size({form.chunk_width, form.chunk_height, form.chunk_samples(), 8 * form.value_bytes},
             file.name(),
             "TIFF");
  return form;
}

// Appendix of TIFF 6.0, sec. 9: a count of literal bytes, or of one byte's repetitions.
void unpack_bits(std::string_view in, std::string& out, size_t most) {
  for (size_t at = 0; at < in.size() && out.size() < most;) {
    const auto count = static_cast<int8_t>(in[at++]);
    if (count >= 0) {
      const size_t literal = std::min(static_cast<size_t>(count) + 1, in.size() - at);
      out.append(in.substr(at, literal));
      at += literal;
    } else if (count != -128 && at < in.size()) {
      out.append(static_cast<size_t>(1 - count), in[at++]);
    }
  }
}

// TIFF 6.0, sec. 13: codes from 9 to 12 bits, the highest bit first; 256 clears, 257 ends. Each
// entry of the table is a place in what was already written, and a length.
void unpack_lzw(const TiffFile& file, std::string_view in, std::string& out, size_t most) {
  struct Entry {
    size_t at = 0, size = 0;
  };
  constexpr size_t kFirst = 258, kMostEntries = 4096;
  std::vector<Entry> table;
  uint64_t held = 0;
  int bits = 0, width = 9;
  Entry before;
  for (size_t at = 0; out.size() < most;) {
    while (bits < width && at < in.size()) {
      held = held << 8 | static_cast<uint8_t>(in[at++]);
      bits += 8;
    }
    if (bits < width) return;
    const size_t code = held >> (bits - width) & ((size_t{1} << width) - 1);
    bits -= width;
    if (code == 257) return;
    if (code == 256) {
      table.clear();
      width = 9;
      before = {};
      continue;
    }
    const Entry now{out.size(),
                    code < 256                     ? 1
                    : code - kFirst < table.size() ? table[code - kFirst].size
                                                   : before.size + 1};
    if (code >= 256 && (before.size == 0 || code - kFirst > table.size()))
      file.broken("a code of LZW that there is not");
    if (before.size > 0 && table.size() + kFirst < kMostEntries)
      table.push_back({before.at, before.size + 1});  // its last byte is written now
    if (code < 256) {
      out += static_cast<char>(code);
    } else {
      const size_t from = table[code - kFirst].at;
      for (size_t i = 0; i < now.size; ++i) out += out[from + i];
    }
    before = now;
    const size_t next = table.size() + kFirst + 1;  // one early, as TIFF has it
    width = next >= 2048 ? 12 : next >= 1024 ? 11 : next >= 512 ? 10 : 9;
  }
}

void inflate_all(const TiffFile& file, std::string_view in, std::string& out, size_t most) {
  out.resize(most);
  uLongf size = most;
  const int result = ::uncompress(reinterpret_cast<Bytef*>(out.data()),
                                  &size,
                                  reinterpret_cast<const Bytef*>(in.data()),
                                  in.size());
  if (result != Z_OK && result != Z_BUF_ERROR) file.broken("damaged data (Deflate)");
  out.resize(size);
}

// The bytes of a strip or tile, `most` of them.
std::string unpacked_chunk(const TiffFile& file,
                           const PageForm& form,
                           std::string_view in,
                           size_t most) {
  std::string out;
  switch (form.coding) {
    case kStored:
      out = in.substr(0, most);
      break;
    case kLzw:
      unpack_lzw(file, in, out, most);
      break;
    case kDeflate:
    case kOldDeflate:
      inflate_all(file, in, out, most);
      break;
    case kPackBits:
      unpack_bits(in, out, most);
      break;
    default:
      file.unknown("compression {}; stored, PackBits, LZW and Deflate are", form.coding);
  }
  if (out.size() < most) file.broken("the file ends too early");
  out.resize(most);
  return out;
}

template <class Value>
void undo_differences(const PageForm& form, int64_t rows, std::string& bytes) {
  const int64_t width = form.chunk_width * form.chunk_samples();
  for (int64_t row = 0; row < rows; ++row) {
    char* values = bytes.data() + row * width * static_cast<int64_t>(sizeof(Value));
    for (int64_t i = form.chunk_samples(); i < width; ++i) {
      Value before, now;
      std::memcpy(&before, values + (i - form.chunk_samples()) * sizeof(Value), sizeof(Value));
      std::memcpy(&now, values + i * sizeof(Value), sizeof(Value));
      now = static_cast<Value>(now + before);
      std::memcpy(values + i * sizeof(Value), &now, sizeof(Value));
    }
  }
}

// In the machine's order, with the differences added up.
void mend_values(const TiffFile& file, const PageForm& form, int64_t rows, std::string& bytes) {
  const auto size = static_cast<size_t>(form.value_bytes);
  if (file.swapped() && size > 1) {
    for (size_t at = 0; at + size <= bytes.size(); at += size)
      std::reverse(bytes.data() + at, bytes.data() + at + size);
  }
  if (!form.differences) return;
  if (size == 1) undo_differences<uint8_t>(form, rows, bytes);
  if (size == 2) undo_differences<uint16_t>(form, rows, bytes);
}

// One value as the picture has it.
void put_value(
    const char* in, const PageForm& form, const TiffFile& file, int64_t to, Image& page) {
  if (form.value_bytes == 1) {
    const auto value = static_cast<uint8_t>(*in);
    page.pixels[static_cast<size_t>(to)] =
        form.inverted ? static_cast<uint8_t>(255 - value) : value;
    return;
  }
  uint16_t value = 0;
  if (!form.fractions) {
    std::memcpy(&value, in, 2);
  } else if (form.value_bytes == 4) {
    float fraction;
    std::memcpy(&fraction, in, 4);
    put_fraction(double{fraction}, to, file.name(), value);
  } else {
    double fraction;
    std::memcpy(&fraction, in, 8);
    put_fraction(fraction, to, file.name(), value);
  }
  words_of(page.pixels)[to] = form.inverted ? static_cast<uint16_t>(65535 - value) : value;
}

Image decode_page(const Page& page, const PageForm& form) {
  const TiffFile& file = page.file();
  const bool tiles = page.one(kTileWidth, 0) > 0;
  const std::vector<int64_t> offsets = page.all(tiles ? kTileOffsets : kStripOffsets);
  const std::vector<int64_t> sizes = page.all(tiles ? kTileBytes : kStripBytes);
  const int64_t across = (form.width + form.chunk_width - 1) / form.chunk_width;
  const int64_t down = (form.height + form.chunk_height - 1) / form.chunk_height;
  const int64_t planes = form.apart ? form.samples : 1, side_by_side = form.chunk_samples();
  if (std::ssize(offsets) < across * down * planes || offsets.size() != sizes.size())
    file.broken("strips or tiles are missing");
  Image image;
  set_size(image, {form.width, form.height, form.samples, form.depth(), true});
  for (int64_t chunk = 0; chunk < across * down * planes; ++chunk) {
    const int64_t plane = chunk / (across * down), place = chunk % (across * down);
    const int64_t left = place % across * form.chunk_width;
    const int64_t top = place / across * form.chunk_height;
    const int64_t rows = tiles ? form.chunk_height : std::min(form.chunk_height, form.height - top);
    const auto i = static_cast<size_t>(chunk);
    std::string bytes = unpacked_chunk(
        file,
        form,
        file.part(static_cast<uint64_t>(offsets[i]), static_cast<uint64_t>(sizes[i])),
        static_cast<size_t>(rows * form.chunk_width * side_by_side * form.value_bytes));
    mend_values(file, form, rows, bytes);
    for (int64_t y = 0; y < std::min(rows, form.height - top); ++y) {
      for (int64_t x = 0; x < std::min(form.chunk_width, form.width - left); ++x) {
        const char* in =
            bytes.data() + (y * form.chunk_width + x) * side_by_side * form.value_bytes;
        const int64_t to = ((top + y) * form.width + left + x) * form.samples + plane;
        for (int64_t s = 0; s < side_by_side; ++s)
          put_value(in + s * form.value_bytes, form, file, to + s, image);
      }
    }
  }
  return image;
}

// The pages with their forms, without thumbnails; all are of one size and type.
std::vector<std::pair<Page, PageForm>> pages_of(const TiffFile& file) {
  std::vector<std::pair<Page, PageForm>> pages;
  uint64_t at = file.number(4, 4);
  for (size_t seen = 0; at != 0; ++seen) {
    if (seen == kMostPages) file.broken("more than {} pages", kMostPages);
    const Page page(file, at);
    at = page.next();
    constexpr int64_t kSmaller = 1, kMask = 4;
    if ((page.one(kSubfile, 0) & (kSmaller | kMask)) != 0) continue;
    pages.emplace_back(page, form_of_page(page));
    if (!pages.back().second.fits(pages.front().second))
      file.unknown("pages of different sizes or types");
    if (pages.size() > size_t{kMaxChannels}) break;
  }
  if (pages.empty()) file.broken("no pages");
  return pages;
}

ImageInfo info_of_pages(const TiffFile& file, const std::vector<std::pair<Page, PageForm>>& pages) {
  const PageForm& first = pages.front().second;
  int64_t channels = 0;
  for (const auto& [page, form] : pages) channels += form.samples;
  if (channels > kMaxChannels)
    file.unknown("{} or more channels; 1 to {} are taken", channels, kMaxChannels);
  const bool stack = pages.size() > 1 ? is_stack(channels) : is_stack(channels) && !first.colors;
  ImageInfo info{first.width, first.height, channels, first.depth(), stack};
  if (pages.size() == 1) info = turned(info, static_cast<int>(first.orientation));
  check_size(info, file.name(), "TIFF");
  return info;
}

}  // namespace

ImageInfo info_of_tiff(std::string_view bytes, const std::string& name) {
  const TiffFile file(bytes, name);
  return info_of_pages(file, pages_of(file));
}

void decode_tiff(std::string_view bytes, const std::string& name, Image& image) {
  const TiffFile file(bytes, name);
  const auto pages = pages_of(file);
  const ImageInfo info = info_of_pages(file, pages);
  std::vector<Image> parts;
  for (const auto& [page, form] : pages) parts.push_back(decode_page(page, form));
  image = parts.size() == 1 ? std::move(parts.front()) : stacked(parts);
  image.stack = info.stack;
  if (parts.size() == 1) {
    const auto orientation = static_cast<int>(pages.front().second.orientation);
    image = oriented(std::move(image), orientation);
  }
}

}  // namespace gantrain
