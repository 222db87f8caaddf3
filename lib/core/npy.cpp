// SPDX-License-Identifier: Apache-2.0
#include "core/npy.h"

#include <cstring>
#include <regex>

#include "core/torch.h"
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

}  // namespace gantrain
