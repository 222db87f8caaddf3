// SPDX-License-Identifier: Apache-2.0
#include "core/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/torch.h"
#include "util/error.h"
#include "util/file.h"

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
  if (length > 100'000'000 || length > content.size() - 8) {
    const bool pickle = content[0] == '\x80';
    fail(Exit::kInput,
         "{}: not a safetensors file, or truncated (header of {} bytes){}",
         file,
         length,
         pickle ? "; of a network pickle gantrain import makes one" : "");
  }
  bool deep = false;  // a value that is nested deeper than any here would overflow the stack later
  const auto watch = [&deep](int depth, Json::parse_event_t, const Json&) {
    deep = deep || depth > kDeepestHeader;
    return !deep;
  };
  Json header = Json::parse(content.substr(8, length), watch, /*allow_exceptions=*/false);
  if (header.is_object() && !deep) return header;
  fail(Exit::kInput, "{}: not a safetensors file: the header is not a JSON object", file);
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

}  // namespace gantrain
