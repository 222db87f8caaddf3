// SPDX-License-Identifier: Apache-2.0
#include "support/tensor_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

template <class Number>
Number number_at(const std::string& bytes, size_t at) {
  Number number;
  REQUIRE(at + sizeof number <= bytes.size());
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

template <class Number>
std::vector<double> numbers(const std::string& bytes) {
  std::vector<double> result;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    result.push_back(number_at<Number>(bytes, at));
  }
  return result;
}

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);

}  // namespace

std::vector<double> FileTensor::values() const {
  REQUIRE((dtype == "F32" || dtype == "F64"));
  return dtype == "F32" ? numbers<float>(bytes) : numbers<double>(bytes);
}

FileTensors read_safetensors(const fs::path& path) {
  const std::string file = read_file(path);
  const auto size = number_at<uint64_t>(file, 0);
  const Json header = Json::parse(file.substr(8, size));
  FileTensors result;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<size_t, size_t>>();
    REQUIRE(begin <= end);
    REQUIRE(8 + size + end <= file.size());
    result[name] = {
        entry.at("dtype"), entry.at("shape"), file.substr(8 + size + begin, end - begin)};
  }
  return result;
}

void write_safetensors(const fs::path& path,
                       const FileTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  write_file(path, std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data);
}

FileTensor read_npy(const fs::path& path) {
  const std::string file = read_file(path);
  REQUIRE(starts_with(file, kMagic));
  const size_t size = number_at<uint16_t>(file, 8);
  REQUIRE((10 + size) % 64 == 0);  // numpy's alignment
  const std::string header = file.substr(10, size);
  CAPTURE(header);
  REQUIRE(header.back() == '\n');
  CHECK(header.find("'descr': '<f4'") != std::string::npos);
  CHECK(header.find("'fortran_order': False") != std::string::npos);
  FileTensor result{"F32", {}, file.substr(10 + size)};
  const size_t open = header.find('(');
  REQUIRE(open != std::string::npos);
  for (const std::string& part : split(header.substr(open + 1, header.find(')') - open - 1), ',')) {
    if (const auto count = parse_int(trim(part))) result.shape.push_back(*count);
  }
  return result;
}

void write_npy(const fs::path& path, const FileTensor& tensor) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}",
                                   fmt::join(tensor.shape, ", "));
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  const auto size = static_cast<uint16_t>(header.size());
  write_file(path,
             std::string(kMagic) + std::string(reinterpret_cast<const char*>(&size), sizeof size) +
                 header + tensor.bytes);
}

double max_distance(const FileTensor& a, const FileTensor& b) {
  const std::vector<double> x = a.values();
  const std::vector<double> y = b.values();
  REQUIRE(x.size() == y.size());
  double result = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    REQUIRE(std::isfinite(x[i]));
    result = std::max(result, std::abs(x[i] - y[i]));
  }
  return result;
}

}  // namespace gantrain
