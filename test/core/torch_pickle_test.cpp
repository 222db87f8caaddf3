// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>

#include "core/archive.h"
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;
using namespace std::string_literals;

namespace {

// Pieces of pickles.
std::string text(const std::string& value) {
  return "X" + std::string(1, static_cast<char>(value.size())) + "\0\0\0"s + value;
}
std::string integer(int64_t value) { return fmt::format("L{}L\n", value); }
std::string integers(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += integer(value);
  return out + "t";
}
std::string raw(const at::Tensor& data) {
  return {static_cast<const char*>(data.data_ptr()), data.nbytes()};
}
std::string little_endian(int64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

constexpr const char* kMagic = "\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20j\xa8P\x19.";

struct PickleStream {
  std::string magic = kMagic;
  std::string protocol = "M\xe9\3.";
  std::string system = "}(" + text("little_endian") + "\x88u.";
  std::string storage = "ctorch\nFloatStorage\n";
  std::string key = "7";
  std::string listed = "7";
  std::string view = "N";
  int64_t announced = 0;
  int64_t counted = 0;
  std::string data;

  std::string bytes() const {
    return magic + protocol + system + "(" + text("storage") + storage + text(key) + text("cpu") +
           integer(announced) + view + "tQ." + "]" + text(listed) + "a." + little_endian(counted) +
           data;
  }
};

PickleStream stream_of(const at::Tensor& data, const std::string& name = "FloatStorage") {
  PickleStream stream;
  stream.storage = "ctorch\n" + name + "\n";
  stream.announced = stream.counted = data.numel();
  stream.data = raw(data);
  return stream;
}

// A pickled tensor on that storage.
std::string tensor_on(const std::string& stream,
                      int64_t first,
                      const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides) {
  const auto size = static_cast<uint32_t>(stream.size());
  return "ctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\nB" +
         std::string(reinterpret_cast<const char*>(&size), 4) + stream + "\x85R" + integer(first) +
         integers(sizes) + integers(strides) + "\x89}tR";
}

at::Tensor read(const std::string& content, int64_t most = 1 << 20) {
  PickleRules rules;
  rules.source = "net.pkl";
  rules.globals = torch_globals();
  const Pickle pickle = parse_pickle(content, rules);
  return TorchTensors("net.pkl", most).read(*pickle.root, "G.weight");
}

template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("StoragesOfEveryTypeAreRead") {
  const std::vector<std::pair<std::string, at::ScalarType>> types = {
      {"FloatStorage", at::kFloat},
      {"HalfStorage", at::kHalf},
      {"DoubleStorage", at::kDouble},
      {"LongStorage", at::kLong},
      {"IntStorage", at::kInt},
      {"ShortStorage", at::kShort},
      {"CharStorage", at::kChar},
      {"ByteStorage", at::kByte},
      {"BoolStorage", at::kBool},
      {"BFloat16Storage", at::kBFloat16}};
  for (const auto& [name, type] : types) {
    CAPTURE(name);
    const at::Tensor data = torch::arange(7).remainder(3).to(type);
    const at::Tensor back = read_legacy_storage(stream_of(data, name).bytes(), "a");
    CHECK(back.scalar_type() == type);
    CHECK(torch::equal(back, data));
  }
  PickleStream bytes = stream_of(torch::arange(5).to(at::kByte));
  bytes.storage = "ctorch.storage\nUntypedStorage\n";
  CHECK(torch::equal(read_legacy_storage(bytes.bytes(), "a"), torch::arange(5).to(at::kByte)));
  CHECK(read_legacy_storage(stream_of(torch::empty({0})).bytes(), "a").numel() == 0);
}

TEST_CASE("AViewOfAStorageIsItsPart") {
  PickleStream stream = stream_of(torch::arange(10.));
  stream.view = "(" + text("8") + integer(3) + integer(4) + "t";
  CHECK(torch::equal(read_legacy_storage(stream.bytes(), "a"), torch::arange(3., 7.)));
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 8}, {11, 0}, {-1, 2}, {0, -1}, {1, INT64_MAX}}) {
    stream.view = "(" + text("8") + integer(first) + integer(count) + "t";
    CHECK(message_of([&] { read_legacy_storage(stream.bytes(), "a"); }).find("a: ") == 0);
  }
}

TEST_CASE("StridesAndOffsetsAreFollowed") {
  const at::Tensor data = torch::arange(12.);
  const std::string stream = stream_of(data).bytes();
  CHECK(torch::equal(read(tensor_on(stream, 0, {3, 4}, {4, 1}) + "."), data.reshape({3, 4})));
  CHECK(torch::equal(read(tensor_on(stream, 0, {4, 3}, {1, 4}) + "."), data.reshape({3, 4}).t()));
  CHECK(torch::equal(read(tensor_on(stream, 5, {2, 2}, {4, 2}) + "."),
                     at::as_strided(data, {2, 2}, {4, 2}, 5)));
  CHECK(torch::equal(read(tensor_on(stream, 11, {}, {}) + "."), torch::tensor(11.F)));
  CHECK(read(tensor_on(stream, 12, {0, 3}, {3, 1}) + ".").sizes() == at::IntArrayRef({0, 3}));
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + tensor_on(stream, 0, {12}, {1}) + "\x88}tR.";
  CHECK(torch::equal(read(parameter), data));
}

TEST_CASE("WhatLeavesTheStorageIsRefusedByName") {
  const std::string stream = stream_of(torch::arange(12.)).bytes();
  const int64_t large = int64_t{1} << 62;
  const std::vector<std::tuple<int64_t, std::vector<int64_t>, std::vector<int64_t>>> table = {
      {0, {13}, {1}},
      {1, {12}, {1}},
      {12, {}, {}},
      {-1, {2}, {1}},
      {13, {0}, {1}},
      {0, {2, 2}, {1}},
      {0, {-2}, {1}},
      {0, {2}, {-1}},
      {0, {3}, {large}},
      {large, {3}, {large}},
      {0, {large, large}, {0, 0}},
      {0, {large}, {0}},    // fits the storage, but not the memory
      {0, {1 << 20}, {0}},  // more than the budget
      {0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
  };
  for (const auto& [first, sizes, strides] : table) {
    CAPTURE(first, sizes, strides);
    const std::string content = tensor_on(stream, first, sizes, strides) + ".";
    CHECK(message_of([&] { read(content); }).find("net.pkl: G.weight: ") == 0);
  }
}

TEST_CASE("OtherThingsAreNoTensors") {
  for (const std::string& content : {"N."s,
                                     "ctorch\nSize\n)R."s,
                                     "ctorch._utils\n_rebuild_tensor_v2\n)R."s,
                                     "ctorch._utils\n_rebuild_tensor_v2\n(NK\0))tR."s,
                                     "ctorch._utils\n_rebuild_parameter\n)R."s,
                                     "ctorch._utils\n_rebuild_parameter\nN\x85R."s}) {
    CAPTURE(content);
    CHECK(message_of([&] { read(content); }).find("G.weight") != std::string::npos);
  }
}

TEST_CASE("StreamsThatLieAreRefused") {
  const at::Tensor data = torch::arange(4.);
  std::vector<PickleStream> lies(10, stream_of(data));
  lies[0].magic = "\x8a\1\1.";
  lies[1].protocol = "M\xe8\3.";
  lies[2].system = "}(" + text("little_endian") + "\x89u.";
  lies[3].system = "}.";
  lies[4].storage = "ccollections\nOrderedDict\n";
  lies[5].listed = "8";
  lies[6].announced = 5;
  lies[7].counted = 5;
  lies[8].announced = lies[8].counted = 5;
  lies[9].announced = lies[9].counted = INT64_MAX;
  for (size_t i = 0; i < lies.size(); ++i) {
    CAPTURE(i);
    CHECK(message_of([&] { read_legacy_storage(lies[i].bytes(), "a"); }).find("a: ") == 0);
  }
  PickleStream evil = stream_of(data);
  evil.storage = "cos\nsystem\n";
  CHECK(message_of([&] { read_legacy_storage(evil.bytes(), "a"); }).find("os.system") !=
        std::string::npos);
}

TEST_CASE("EveryTruncationOfAStreamIsRefused") {
  const std::string whole = stream_of(torch::arange(4.)).bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(message_of([&] { read_legacy_storage(whole.substr(0, length), "a"); }).empty());
  }
}

TEST_CASE("DamagedTensorsEndInATensorOrInAnError") {
  const std::string whole =
      tensor_on(stream_of(torch::arange(4.)).bytes(), 0, {2, 2}, {2, 1}) + ".";
  std::mt19937 random(11);  // NOLINT: the same damage every time
  int errors = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string content = whole;
    for (int i = 0; i <= round % 3; ++i) content[random() % content.size()] = char(random());
    errors += message_of([&] { read(content); }).empty() ? 0 : 1;
  }
  CHECK(errors > 1000);
  CHECK(errors < 4000);
}

namespace {

// A dict of two tensors as torch.save wrote it before zip files: a float32 one of 2 x 3 numbers,
// stored column by column, and a counter.
struct DictStream {
  std::string float_key = "7", long_key = "8";
  std::string listed = text("7") + "a" + text("8") + "a";
  int64_t floats = 6, longs = 1;
  std::string global = "ctorch\nFloatStorage\n";
  std::string behind;

  std::string bytes() const {
    const PickleStream head;
    const auto tensor = [&](const std::string& type,
                            const std::string& key,
                            int64_t count,
                            const std::vector<int64_t>& sizes,
                            const std::vector<int64_t>& strides) {
      return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + type + text(key) +
             text("cpu") + integer(count) + "NtQ" + integer(0) + integers(sizes) +
             integers(strides) + "\x89}tR";
    };
    const std::string dict = "ccollections\nOrderedDict\n)R(" + text("w") +
                             tensor(global, float_key, 6, {2, 3}, {1, 2}) + text("n") +
                             tensor("ctorch\nLongStorage\n", long_key, 1, {}, {}) + "u.";
    return head.magic + head.protocol + head.system + dict + "]" + listed + "." +
           little_endian(floats) + raw(torch::arange(6.)) + little_endian(longs) +
           raw(torch::tensor({int64_t{5}})) + behind;
  }
};

}  // namespace

TEST_CASE("ADictOfTensorsFromBeforeZipFilesIsRead") {
  const auto tensors = read_legacy_dict(DictStream().bytes(), "net.pth");
  REQUIRE(tensors.size() == 2);
  CHECK(torch::equal(tensors.at("w"), torch::arange(6.).reshape({3, 2}).t()));
  CHECK(tensors.at("n").item<int64_t>() == 5);
  CHECK(tensors.at("n").dim() == 0);
}

TEST_CASE("DictsThatLieAreRefusedByFile") {
  std::vector<DictStream> lies(8);
  lies[0].listed = text("7") + "a";
  lies[1].listed = text("7") + "a" + text("9") + "a";
  lies[2].listed = text("7") + "a" + text("7") + "a";
  lies[3].floats = 5;
  lies[4].floats = INT64_MAX;
  lies[5].longs = -1;
  lies[6].behind = "x";
  lies[7].long_key = "7";  // one storage of two types
  for (size_t i = 0; i < lies.size(); ++i) {
    CAPTURE(i);
    const std::string said = message_of([&] { read_legacy_dict(lies[i].bytes(), "net.pth"); });
    CHECK(said.find("net.pth: ") == 0);
  }
  DictStream evil;
  evil.global = "cos\nsystem\n";
  CHECK(message_of([&] { read_legacy_dict(evil.bytes(), "net.pth"); }).find("os.system") !=
        std::string::npos);
  CHECK(message_of([&] {
          read_legacy_dict(stream_of(torch::arange(4.)).bytes(), "net.pth");
        }).find("no dict of tensors") != std::string::npos);
}

TEST_CASE("EveryTruncationAndManyDamagesOfADictAreRefusedOrRead") {
  const std::string whole = DictStream().bytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(message_of([&] { read_legacy_dict(whole.substr(0, length), "a"); }).empty());
  }
  std::mt19937 random(12);  // NOLINT: the same damage every time
  int errors = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string content = whole;
    for (int i = 0; i <= round % 3; ++i) content[random() % content.size()] = char(random());
    errors += message_of([&] { read_legacy_dict(content, "a"); }).empty() ? 0 : 1;
  }
  CHECK(errors > 1000);
  CHECK(errors < 4000);
}
