// SPDX-License-Identifier: Apache-2.0
#include "core/npy.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>

#include "core/torch.h"
#include "core/zip_archive.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {
constexpr size_t kPrologue = 10;      // magic, version, length of the header
constexpr size_t kMostHeader = 1024;  // numpy's own are below 300; a regex is slow on long ones
}  // namespace

void save_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  write_file(path, npy_bytes(tensor));
}

std::string npy_bytes(const at::Tensor& tensor) {
  const at::Tensor t = tensor.to(at::kFloat).cpu().contiguous();
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                   fmt::join(t.sizes(), ", "),
                                   t.dim() == 1 ? "," : "");
  header.resize((kPrologue + header.size() + 1 + 63) / 64 * 64 - kPrologue - 1, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string out("\x93NUMPY\x01\x00", 8);
  out.append(reinterpret_cast<const char*>(&length), 2);
  out += header;
  out.append(static_cast<const char*>(t.data_ptr()), t.nbytes());
  return out;
}

at::Tensor load_npy(const std::filesystem::path& path, std::optional<at::ScalarType> type) {
  return parse_npy(read_file(path), path.string(), type);
}

at::Tensor parse_npy(std::string_view content,
                     const std::string& name,
                     std::optional<at::ScalarType> type) {
  if (content.size() < kPrologue || content.compare(0, 6, "\x93NUMPY") != 0) {
    fail(Exit::kInput, "{}: not a .npy file", name);
  }
  uint16_t length = 0;
  std::memcpy(&length, content.data() + 8, 2);
  if (length > kMostHeader)
    fail(Exit::kInput, "{}: a header of {} bytes is too long", name, length);
  const std::string header(content.substr(kPrologue, length));
  static const std::regex pattern(
      "'descr': *'([^']*)'.*'fortran_order': *(True|False).*'shape': *\\(([^)]*)\\)");
  std::smatch match;
  if (content[6] != 1 || !std::regex_search(header, match, pattern) || match[2] == "True") {
    fail(Exit::kInput, "{}: only .npy version 1 in C order can be read", name);
  }
  const bool wide = match[1] == "<f8";
  if (!wide && match[1] != "<f4")
    fail(Exit::kInput, "{}: dtype {}; float32 is needed", name, match[1].str());
  std::vector<int64_t> shape;
  for (const std::string& part : split(match[3].str(), ',')) {
    if (trim(part).empty()) continue;
    const auto extent = parse_int(trim(part));
    if (!extent || *extent < 0)
      fail(Exit::kInput, "{}: shape ({}) is not understood", name, match[3].str());
    shape.push_back(*extent);
  }
  // Compared before any memory is taken: a broken shape may be of any size.
  const size_t there = content.size() - kPrologue - header.size();
  double needed = wide ? 8 : 4;
  for (const int64_t extent : shape) needed *= static_cast<double>(extent);
  if (needed == 0) fail(Exit::kInput, "{}: shape ({}) holds no values", name, match[3].str());
  if (static_cast<double>(there) != needed) {
    fail(Exit::kInput,
         "{}: {} bytes of data, shape ({}) needs {:.0f} (truncated?)",
         name,
         there,
         match[3].str(),
         needed);
  }
  at::Tensor tensor = torch::empty(shape, wide ? at::kDouble : at::kFloat);
  std::memcpy(tensor.data_ptr(), content.data() + kPrologue + header.size(), tensor.nbytes());
  return type ? tensor.to(*type) : tensor;
}

namespace {

constexpr zip_uint64_t kMostBytes = zip_uint64_t{256} << 20;  // of one array
constexpr zip_int64_t kMostNamed = 8;                         // arrays that a message names

ZipArchive open_archive(const std::string& path) {
  OpenedZip opened = open_zip_archive(path);
  if (opened.archive) return std::move(opened.archive);
  fail(Exit::kInput, "{}: no readable .npz (zip archive of .npy files): {}", path, opened.reason);
}

// The arrays in the archive, for a message.
std::string names_in(zip_t* archive) {
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < std::min(count, kMostNamed); ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    std::string text = name == nullptr ? "" : name;
    if (ends_with(text, ".npy")) text.resize(text.size() - 4);
    names.push_back(text);
  }
  if (count > kMostNamed) names.emplace_back("...");
  return names.empty() ? "nothing" : join(names, ", ");
}

std::string content_of(zip_t* archive, const zip_stat_t& stat, const std::string& name) {
  if ((stat.valid & ZIP_STAT_SIZE) == 0 || stat.size > kMostBytes) {
    fail(Exit::kInput,
         "{}: {} bytes of data; at most {} are read",
         name,
         stat.size,
         static_cast<uint64_t>(kMostBytes));
  }
  const ZipFile entry(zip_fopen_index(archive, stat.index, 0));
  if (!entry) fail(Exit::kInput, "{}: broken archive: {}", name, zip_strerror(archive));
  std::string content;
  std::string piece(size_t{1} << 16, '\0');  // memory grows with what is there, not what is stated
  while (content.size() <= stat.size) {
    const zip_int64_t count = zip_fread(entry.get(), piece.data(), piece.size());
    if (count < 0) {
      fail(Exit::kInput, "{}: broken archive: {}", name, zip_file_strerror(entry.get()));
    }
    if (count == 0) break;
    content.append(piece, 0, static_cast<size_t>(count));
  }
  if (content.size() != stat.size)
    fail(Exit::kInput, "{}: broken archive: the array is cut off or too long", name);
  return content;
}

struct CloseSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};

[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* reason) {
  fail(Exit::kDisk, "{}: cannot be written: {}", path.string(), reason);
}

}  // namespace

void save_npz(const std::filesystem::path& path, const NamedTensors& arrays) {
  zip_error_t error;
  zip_error_init(&error);
  // The archive grows in memory, so that the file is there whole or not at all.
  std::unique_ptr<zip_source_t, CloseSource> memory(
      zip_source_buffer_create(nullptr, 0, 0, &error));
  ZipArchive archive(memory ? zip_open_from_source(memory.get(), ZIP_TRUNCATE, &error) : nullptr);
  if (!archive) fail_to_write(path, zip_error_strerror(&error));
  zip_source_keep(memory.get());  // zip_open_from_source() took the first reference
  std::vector<std::string> contents;
  contents.reserve(arrays.size());
  for (const auto& [name, tensor] : arrays) {
    const std::string& content = contents.emplace_back(npy_bytes(tensor));
    zip_source_t* source = zip_source_buffer(archive.get(), content.data(), content.size(), 0);
    const std::string entry = name + ".npy";
    const zip_int64_t index =
        source == nullptr ? -1
                          : zip_file_add(archive.get(), entry.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      fail_to_write(path, zip_strerror(archive.get()));
    }
    // As numpy writes it: stored, and with one fixed time, so that equal arrays are equal files.
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive.get(), at, ZIP_CM_STORE, 0);
    constexpr zip_uint16_t kFirstDay = (1 << 5) | 1;  // 1 January 1980
    zip_file_set_dostime(archive.get(), at, 0, kFirstDay, 0);
  }
  if (zip_close(archive.get()) != 0) fail_to_write(path, zip_strerror(archive.get()));
  (void)archive.release();
  zip_stat_t stat;
  if (zip_source_stat(memory.get(), &stat) != 0 || zip_source_open(memory.get()) != 0)
    fail_to_write(path, "no memory");
  std::string bytes(stat.size, '\0');
  const zip_int64_t count = zip_source_read(memory.get(), bytes.data(), bytes.size());
  zip_source_close(memory.get());
  if (count != static_cast<zip_int64_t>(bytes.size())) fail_to_write(path, "no memory");
  write_file(path, bytes);
}

at::Tensor load_npz(const std::filesystem::path& path, const std::string& key) {
  const ZipArchive archive = open_archive(path.string());
  const std::string entry = key + ".npy";
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(archive.get(), entry.c_str(), 0, &stat) != 0) {
    fail(Exit::kInput,
         "{}: no array \"{}\" in it; it has {}",
         path.string(),
         key,
         names_in(archive.get()));
  }
  const std::string name = fmt::format("{} ({})", path.string(), key);
  return parse_npy(content_of(archive.get(), stat, name), name);
}

bool is_npz(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(4, '\0');
  file.read(head.data(), 4);
  return file.gcount() == 4 && (head == std::string("PK\x03\x04", 4) || head == "PK\x05\x06");
}

}  // namespace gantrain
