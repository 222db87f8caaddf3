// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/torch.h"
#include "core/zip_archive.h"
#include "util/error.h"
#include "util/file_kind.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::pair<const char*, at::ScalarType>> kTypes = {
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
};

const char* type_name(at::ScalarType type) {
  for (const auto& [name, scalar] : kTypes) {
    if (scalar == type) return name;
  }
  throw std::logic_error(std::string("no safetensors type for ") + c10::toString(type));
}

constexpr int kDeepestHeader = 16;                   // levels of JSON
constexpr int64_t kMostTensors = 1 << 13;            // names of one object
constexpr int64_t kMostNames = 1 << 16;              // of all objects
constexpr uint64_t kMostValues = uint64_t{1} << 44;  // of a tensor

struct Entry {
  std::string name;
  uint64_t begin, end;
};

// One tensor of the header, checked against the buffer.
at::Tensor read_tensor(const std::string& file,
                       const std::string& name,
                       const Json& info,
                       std::string_view buffer,
                       std::vector<Entry>& entries) {
  const auto bad = [&](const std::string& what) {
    fail(Exit::kInput, "{}: tensor {}: {}", file, name, what);
  };
  if (!info.is_object() || !info.contains("dtype") || !info.contains("shape") ||
      !info.contains("data_offsets") || !info["shape"].is_array() ||
      !info["data_offsets"].is_array() || info["data_offsets"].size() != 2) {
    bad("header entry is not {dtype, shape, data_offsets}");
  }
  at::ScalarType type = at::ScalarType::Undefined;
  for (const auto& [known, scalar] : kTypes) {
    if (info["dtype"] == known) type = scalar;
  }
  if (type == at::ScalarType::Undefined) bad("dtype " + info["dtype"].dump() + " is not known");
  std::vector<int64_t> shape;
  uint64_t bytes = c10::elementSize(type);
  uint64_t extents = 1;  // their product, where 0 counts as 1
  for (const Json& extent : info["shape"]) {
    if (!extent.is_number_unsigned())
      bad("shape " + info["shape"].dump() + " is not a list of sizes");
    const auto size = extent.get<uint64_t>();
    if (extents > kMostValues / std::max<uint64_t>(size, 1))
      bad("shape " + info["shape"].dump() + " is too large");
    extents *= std::max<uint64_t>(size, 1);
    bytes *= size;
    shape.push_back(static_cast<int64_t>(size));
  }
  const Json& offsets = info["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    bad("data_offsets are not sizes");
  const auto begin = offsets[0].get<uint64_t>();
  const auto end = offsets[1].get<uint64_t>();
  if (begin > end || end > buffer.size()) {
    bad(fmt::format(
        "bytes {}..{} lie outside the file's {} (truncated?)", begin, end, buffer.size()));
  }
  if (end - begin != bytes) {
    bad(fmt::format(
        "{} bytes for shape {}, which needs {}", end - begin, info["shape"].dump(), bytes));
  }
  entries.push_back({name, begin, end});
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
  if (bytes > 0) std::memcpy(tensor.data_ptr(), buffer.data() + begin, bytes);
  return tensor;
}

Json read_header(const std::string& file, std::string_view content, uint64_t& length) {
  if (content.size() < 8)
    fail(Exit::kInput, "{}: not a safetensors file ({} bytes)", file, content.size());
  std::memcpy(&length, content.data(), 8);
  if (content.compare(0, 4, "PK\3\4") == 0) {
    fail(Exit::kInput,
         "{}: a zip, perhaps a training state; give model-*.safetensors or the run folder",
         file);
  }
  constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit
  const bool fits = length <= content.size() - 8;
  const std::string kind = fits ? "" : file_kind(content);
  if (length > kLongestHeader || !kind.empty()) {
    fail(Exit::kInput,
         "{}: not a safetensors file{}{}; give model-*.safetensors or a run folder",
         file,
         kind.empty() ? "" : ", but " + kind,
         kind == "a pickle of Python"
             ? fmt::format(": {} import makes a model of a network pickle", program())
             : "");
  }
  if (!fits) {
    fail(Exit::kInput,
         "{}: truncated, or not a safetensors file: its header has {} bytes, and {} are there",
         file,
         length,
         content.size() - 8);
  }
  bool deep = false;  // a value that is nested deeper than any here would overflow the stack later
  // Json looks through all names of an object for each one that it adds.
  int64_t all = 0;
  std::array<int64_t, kDeepestHeader + 2> names{};  // of the object open at each depth
  const auto watch = [&](int depth, Json::parse_event_t event, const Json&) {
    deep = deep || depth > kDeepestHeader;
    if (deep) return false;
    if (event == Json::parse_event_t::object_start) names[depth + 1] = 0;
    if (event == Json::parse_event_t::key)
      deep = ++names[depth] > kMostTensors || ++all > kMostNames;
    return !deep;
  };
  Json header = Json::parse(content.substr(8, length), watch, /*allow_exceptions=*/false);
  if (header.is_object() && !deep) return header;
  fail(Exit::kInput,
       "{}: not a safetensors file: the header is not a JSON object, or has too many names",
       file);
}

constexpr size_t kPrologue = 10;      // magic, version, length of the header
constexpr size_t kMostHeader = 1024;  // numpy's own are below 300; a regex is slow on long ones

constexpr zip_uint64_t kMostBytes = zip_uint64_t{256} << 20;  // of one array
constexpr zip_int64_t kMostNamed = 8;                         // arrays that a message names

ZipArchive open_archive(const std::string& path) {
  OpenedZip opened = open_zip_archive(path);
  if (opened.archive) return std::move(opened.archive);
  fail(Exit::kInput, "{}: no readable .npz (zip archive of .npy files): {}", path, opened.reason);
}

// The first `most` arrays in the archive.
std::vector<std::string> arrays_in(zip_t* archive, zip_int64_t most) {
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < std::min(zip_get_num_entries(archive, 0), most); ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    std::string text = name == nullptr ? "" : name;
    if (ends_with(text, ".npy")) text.resize(text.size() - 4);
    names.push_back(text);
  }
  return names;
}

// The same for a message.
std::string names_in(zip_t* archive) {
  std::vector<std::string> names = arrays_in(archive, kMostNamed);
  if (zip_get_num_entries(archive, 0) > kMostNamed) names.emplace_back("...");
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

// The .npy file of one array; `name` is set to what messages call it.
std::string entry_of(const std::filesystem::path& path, const std::string& key, std::string& name) {
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
  name = fmt::format("{} ({})", path.string(), key);
  return content_of(archive.get(), stat, name);
}

// What stands before an array's values.
struct NpyHeader {
  std::string type;   // "<f4"
  std::string shape;  // "2, 3"
  std::string_view data;
};

NpyHeader read_npy_header(std::string_view content, const std::string& name) {
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
  return {match[1].str(), match[3].str(), content.substr(kPrologue + header.size())};
}

// A .npy file of these bytes.
std::string npy_of(const std::string& type, const std::string& shape, std::string_view data) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize((kPrologue + header.size() + 1 + 63) / 64 * 64 - kPrologue - 1, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string out("\x93NUMPY\x01\x00", 8);
  out.append(reinterpret_cast<const char*>(&length), 2);
  out += header;
  out.append(data);
  return out;
}

constexpr size_t kLetter = 4;  // bytes: UTF-32, the lowest first

std::string npy_of_text(const std::string& text) {
  std::string data(std::max<size_t>(text.size(), 1) * kLetter, '\0');
  for (size_t i = 0; i < text.size(); ++i) data[i * kLetter] = text[i];
  return npy_of(fmt::format("<U{}", data.size() / kLetter), "", data);
}

struct CloseSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};

[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* reason) {
  fail(Exit::kDisk, "{}: cannot be written: {}", path.string(), reason);
}

}  // namespace

TensorFile load_safetensors(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const std::string file = path.string();
  uint64_t length = 0;
  const Json header = read_header(file, content, length);
  const std::string_view buffer = std::string_view(content).substr(8 + length);
  TensorFile out;
  std::vector<Entry> entries;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : info.items()) {
        out.metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
      }
    } else {
      out.tensors[name] = read_tensor(file, name, info, buffer, entries);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      fail(Exit::kInput,
           "{}: tensor {}: its bytes start at {}, {} were expected",
           file,
           entry.name,
           entry.begin,
           at);
    }
    at = entry.end;
  }
  if (at != buffer.size()) {
    fail(Exit::kInput, "{}: {} bytes after the last tensor", file, buffer.size() - at);
  }
  return out;
}

void save_safetensors(const std::filesystem::path& path,
                      const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    if (header.contains(name)) throw std::logic_error("tensor name twice: " + name);
    const uint64_t end = at + tensor.numel() * tensor.element_size();
    header[name] = {{"dtype", type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8,
              ' ');  // the buffer starts aligned, as Python's writer has it
  const uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, 8);
  file.write(text);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.detach().cpu().contiguous();
    file.write(flat.data_ptr(), flat.numel() * flat.element_size());
  }
  file.commit();
}

void save_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  write_file(path, npy_bytes(tensor));
}

std::string npy_bytes(const at::Tensor& tensor) {
  const bool bytes = tensor.scalar_type() == at::kByte;
  const at::Tensor t = tensor.to(bytes ? at::kByte : at::kFloat).cpu().contiguous();
  const std::string shape =
      fmt::format("{}{}", fmt::join(t.sizes(), ", "), t.dim() == 1 ? "," : "");
  return npy_of(bytes ? "|u1" : "<f4", shape, {static_cast<const char*>(t.data_ptr()), t.nbytes()});
}

at::Tensor load_npy(const std::filesystem::path& path, std::optional<at::ScalarType> type) {
  return parse_npy(read_file(path), path.string(), type);
}

at::Tensor parse_npy(std::string_view content,
                     const std::string& name,
                     std::optional<at::ScalarType> type) {
  const auto [type_text, shape_text, data] = read_npy_header(content, name);
  const bool wide = type_text == "<f8";
  if (!wide && type_text != "<f4")
    fail(Exit::kInput, "{}: dtype {}; float32 is needed", name, type_text);
  std::vector<int64_t> shape;
  for (const std::string& part : split(shape_text, ',')) {
    if (trim(part).empty()) continue;
    const auto extent = parse_int(trim(part));
    if (!extent || *extent < 0)
      fail(Exit::kInput, "{}: shape ({}) is not understood", name, shape_text);
    shape.push_back(*extent);
  }
  // Compared before any memory is taken: a broken shape may be of any size.
  double needed = wide ? 8 : 4;
  for (const int64_t extent : shape) needed *= static_cast<double>(extent);
  if (needed == 0) fail(Exit::kInput, "{}: shape ({}) holds no values", name, shape_text);
  if (static_cast<double>(data.size()) != needed) {
    fail(Exit::kInput,
         "{}: {} bytes of data, shape ({}) needs {:.0f} (truncated?)",
         name,
         data.size(),
         shape_text,
         needed);
  }
  at::Tensor tensor = torch::empty(shape, wide ? at::kDouble : at::kFloat);
  std::memcpy(tensor.data_ptr(), data.data(), tensor.nbytes());
  return type ? tensor.to(*type) : tensor;
}

void save_npz(const std::filesystem::path& path, const NamedTensors& arrays) {
  save_npz(path, arrays, {});
}

void save_npz(const std::filesystem::path& path,
              const NamedTensors& arrays,
              const std::map<std::string, std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> contents;  // zip_close() reads them
  for (const auto& [name, tensor] : arrays) contents.emplace_back(name, npy_bytes(tensor));
  for (const auto& [name, text] : texts) contents.emplace_back(name, npy_of_text(text));
  zip_error_t error;
  zip_error_init(&error);
  // The archive grows in memory, so that the file is there whole or not at all.
  std::unique_ptr<zip_source_t, CloseSource> memory(
      zip_source_buffer_create(nullptr, 0, 0, &error));
  ZipArchive archive(memory ? zip_open_from_source(memory.get(), ZIP_TRUNCATE, &error) : nullptr);
  if (!archive) fail_to_write(path, zip_error_strerror(&error));
  zip_source_keep(memory.get());  // zip_open_from_source() took the first reference
  for (const auto& [name, content] : contents) {
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

std::vector<std::string> npz_names(const std::filesystem::path& path) {
  return arrays_in(open_archive(path.string()).get(), std::numeric_limits<zip_int64_t>::max());
}

at::Tensor load_npz(const std::filesystem::path& path, const std::string& key) {
  std::string name;
  const std::string content = entry_of(path, key, name);
  return parse_npy(content, name);
}

std::string load_npz_text(const std::filesystem::path& path, const std::string& key) {
  std::string name;
  const std::string content = entry_of(path, key, name);
  const auto [type, shape, data] = read_npy_header(content, name);
  if (!starts_with(type, "<U") || !trim(shape).empty() || data.size() % kLetter != 0)
    fail(Exit::kInput, "{}: dtype {}, shape ({}); a text is needed", name, type, shape);
  std::string text;
  for (size_t i = 0; i < data.size(); i += kLetter) {
    uint32_t letter = 0;
    std::memcpy(&letter, data.data() + i, kLetter);
    if (letter > 127) fail(Exit::kInput, "{}: other characters than ASCII", name);
    text.push_back(static_cast<char>(letter));
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

bool is_npz(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(4, '\0');
  file.read(head.data(), 4);
  return file.gcount() == 4 && (head == std::string("PK\x03\x04", 4) || head == "PK\x05\x06");
}

}  // namespace gantrain
