// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/tensor_files.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

std::string message_of(const std::filesystem::path& path) {
  try {
    load_safetensors(path);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

std::string with_header(const std::string& header, size_t bytes) {
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out + header + std::string(bytes, '\1');
}

}  // namespace

TEST_CASE("TensorsOfEveryTypeComeBack") {
  const TemporaryFolder folder;
  NamedTensors all;
  for (const at::ScalarType type : {at::kDouble,
                                    at::kFloat,
                                    at::kHalf,
                                    at::kBFloat16,
                                    at::kLong,
                                    at::kInt,
                                    at::kByte,
                                    at::kBool}) {
    all.emplace_back(c10::toString(type), torch::randn({3, 4}).mul(9).to(type));
  }
  all.emplace_back("scalar", torch::tensor(2.5));
  all.emplace_back("empty", torch::zeros({0, 3}));
  all.emplace_back("transposed", torch::randn({2, 5}).t());
  save_safetensors(folder / "a", all, {{"format", "pt"}});
  const TensorFile file = load_safetensors(folder / "a");
  CHECK(file.metadata.at("format") == "pt");
  REQUIRE(file.tensors.size() == all.size());
  for (const auto& [name, tensor] : all) {
    CAPTURE(name);
    CHECK(file.tensors.at(name).scalar_type() == tensor.scalar_type());
    CHECK(torch::equal(file.tensors.at(name), tensor));
  }
}

TEST_CASE("FilesOfTheReferenceAreRead") {
  const TensorFile file = fixture("dcgan_params");
  CHECK(file.tensors.at("G/main.0.weight").sizes() == at::IntArrayRef({100, 64, 4, 4}));
}

TEST_CASE("EveryTruncationIsRefusedWithTheFilesName") {
  const TemporaryFolder folder;
  save_safetensors(folder / "whole", {{"a", torch::ones({3})}, {"b", torch::ones({2, 2})}}, {});
  const std::string whole = read_file(folder / "whole");
  for (size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "cut", whole.substr(0, length));
    CAPTURE(length);
    CHECK(message_of(folder / "cut").find("cut") != std::string::npos);
  }
}

TEST_CASE("HeadersThatLieAreRefusedWithTheTensorsName") {
  const TemporaryFolder folder;
  const std::vector<std::string> headers = {
      R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})",   // wrong size
      R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",  // a hole
      R"({"t":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})",   // no such type
      R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",  // negative
      R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,80]}})",  // outside
      R"({"t":{"dtype":"F32","shape":[4611686018427387904,16],"data_offsets":[0,8]}})",
      R"({"t":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})",
      R"({"t":{"dtype":"F32","shape":[0,4611686018427387904,16],"data_offsets":[0,0]}})",
      R"({"t":7})",
  };
  for (const std::string& header : headers) {
    CAPTURE(header);
    write_file(folder / "bad", with_header(header, 8));
    CHECK(message_of(folder / "bad").find("tensor t") != std::string::npos);
  }
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& header :
       {std::string(R"({"t":{"dtype":1e999}})"), R"({"t":{"dtype":)" + deep + "}}"}) {
    write_file(folder / "bad", with_header(header, 8));
    CHECK(message_of(folder / "bad").find("not a JSON object") != std::string::npos);
  }
  std::string wide = "{";
  for (int i = 0; i < 20'000; ++i) wide += "\"" + std::to_string(i) + "\":1,";
  write_file(folder / "bad", with_header(wide + "\"a\":1}", 0));
  CHECK(message_of(folder / "bad").find("too many names") != std::string::npos);
  write_file(folder / "bad", with_header("[1]", 0));
  CHECK_FALSE(message_of(folder / "bad").empty());
  write_file(folder / "bad",
             with_header(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8));
  CHECK_FALSE(message_of(folder / "bad").empty());
}
