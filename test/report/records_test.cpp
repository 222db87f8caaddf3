// SPDX-License-Identifier: Apache-2.0
#include "report/records.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"

namespace gantrain {
namespace {

// A message of protobuf's wire format: values by field number; numbers as their raw bytes.
using Message = std::multimap<int, std::string>;

uint64_t varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.at(at++));
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

Message parse(const std::string& bytes) {
  Message message;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = varint(bytes, at);
    uint64_t size = 0;
    std::string value;
    switch (key & 7) {
      case 0:
        value = std::to_string(varint(bytes, at));
        break;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint(bytes, at);
        break;
      case 5:
        size = 4;
        break;
      default:
        FAIL("wire type " << (key & 7));
    }
    REQUIRE(at + size <= bytes.size());
    if (value.empty()) value = bytes.substr(at, size);
    message.emplace(static_cast<int>(key >> 3), value);
    at += size;
  }
  return message;
}

std::string field(const Message& message, int number) {
  const auto found = message.find(number);
  REQUIRE(found != message.end());
  return found->second;
}

template <class Number>
Number raw(const std::string& bytes) {
  Number value{};
  REQUIRE(bytes.size() == sizeof(value));
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

uint32_t masked(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// Events of a file, each checked by both of its CRCs.
std::vector<Message> events_of(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<Message> events;
  for (size_t at = 0; at < bytes.size();) {
    const std::string header = bytes.substr(at, 8);
    const auto length = raw<uint64_t>(header);
    CHECK(raw<uint32_t>(bytes.substr(at + 8, 4)) == masked(header));
    const std::string event = bytes.substr(at + 12, length);
    CHECK(raw<uint32_t>(bytes.substr(at + 12 + length, 4)) == masked(event));
    events.push_back(parse(event));
    at += length + 16;
  }
  return events;
}

// The one Summary.Value of an event.
Message value_of(const Message& event) { return parse(field(parse(field(event, 5)), 1)); }

TEST_CASE("EventFileOpensWithItsVersion") {
  const TemporaryFolder folder;
  const EventWriter writer(folder.path());
  CHECK(writer.path().filename().string().find("events.out.tfevents.") == 0);
  const std::vector<Message> events = events_of(writer.path());
  REQUIRE(events.size() == 1);
  CHECK(field(events[0], 3) == "brain.Event:2");
  CHECK(raw<double>(field(events[0], 1)) > 1.7e9);
}

TEST_CASE("WholeRecordsOfAnEventFileAreCounted") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  for (int step = 0; step < 3; ++step) writer.scalar("a", step, 1);
  writer.flush();
  const std::string bytes = read_file(writer.path());
  CHECK(count_event_records(bytes).count == 4);
  CHECK(count_event_records(bytes).bytes == bytes.size());
  const EventRecords cut = count_event_records(std::string_view(bytes).substr(0, bytes.size() - 1));
  CHECK(cut.count == 3);
  CHECK(cut.bytes < bytes.size() - 16);
  std::string flipped = bytes;
  flipped[cut.bytes - 6] = static_cast<char>(flipped[cut.bytes - 6] ^ 1);
  CHECK(count_event_records(flipped).count == 2);
  CHECK(count_event_records("").count == 0);
  CHECK(count_event_records(std::string(64, '\xff')).count == 0);
}

TEST_CASE("EventFileHoldsWhatWasWritten") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.resume_at(3);
  writer.scalar("Loss/G/loss", 200, 1.25);
  writer.scalar("Loss/G/loss", 300, std::numeric_limits<double>::quiet_NaN());
  writer.image_png(
      "Samples/fakes", 1LL << 40, "not really a PNG", {.width = 300, .height = 2, .channels = 3});
  writer.text("config", 0, "# settings");
  writer.flush();
  const std::vector<Message> events = events_of(writer.path());
  REQUIRE(events.size() == 6);

  CHECK(field(events[1], 2) == "3");
  CHECK(field(parse(field(events[1], 7)), 1) == "1");  // SessionLog.START

  CHECK(field(events[2], 2) == "200");
  CHECK(field(value_of(events[2]), 1) == "Loss/G/loss");
  CHECK(raw<float>(field(value_of(events[2]), 2)) == 1.25f);
  CHECK(std::isnan(raw<float>(field(value_of(events[3]), 2))));

  CHECK(field(events[4], 2) == std::to_string(1LL << 40));
  const Message image = parse(field(value_of(events[4]), 4));
  CHECK(field(image, 1) == "2");
  CHECK(field(image, 2) == "300");
  CHECK(field(image, 3) == "3");
  CHECK(field(image, 4) == "not really a PNG");

  const Message text = value_of(events[5]);
  CHECK(field(parse(field(parse(field(text, 9)), 1)), 1) == "text");
  CHECK(field(parse(field(text, 8)), 8) == "# settings");
}

TEST_CASE("EventsAreOnDiskAfterFlushAndAtTheEnd") {
  const TemporaryFolder folder;
  std::filesystem::path path;
  {
    EventWriter writer(folder.path());
    path = writer.path();
    writer.scalar("a", 1, 1);
    CHECK(events_of(path).size() == 1);
    writer.flush();
    CHECK(events_of(path).size() == 2);
    writer.scalar("a", 2, 1);
  }
  CHECK(events_of(path).size() == 3);
}

TEST_CASE("TwoEventFilesOfOneSecondDiffer") {
  const TemporaryFolder folder;
  const EventWriter first(folder.path());
  const EventWriter second(folder.path());
  CHECK(first.path() != second.path());
}

TEST_CASE("AnEventFileThatCannotBeMadeIsAnErrorOfTheDisk") {
  CHECK_THROWS_AS(EventWriter("/proc/no/such/folder"), UserError);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("StatsLineHoldsNumMeanAndStd") {
  Stats stats;
  stats.add("Progress/kimg", 200);
  for (const double loss : {1.0, 2.0, 3.0, 4.0}) stats.add("Loss/G/loss", loss);
  CHECK(stats.to_json_line(1.5) ==
        R"({"Loss/G/loss":{"num":4,"mean":2.5,"std":1.118033988749895},)"
        R"("Progress/kimg":{"num":1,"mean":200.0,"std":0.0},"timestamp":1.5})");
}

TEST_CASE("StatsWithoutFiniteValueAreNullWithACount") {
  Stats stats;
  stats.add("a", kNan);
  stats.add("a", -kInf);
  stats.add("b", kNan);
  stats.add("b", 2);
  stats.add("c", 8, kInf, 1);  // a sum over eight
  CHECK(stats.to_json_line(0) == R"({"a":{"num":0,"mean":null,"std":null,"bad":2},)"
                                 R"("b":{"num":1,"mean":2.0,"std":0.0,"bad":1},)"
                                 R"("c":{"num":0,"mean":null,"std":null,"bad":8},)"
                                 R"("timestamp":0.0})");
  CHECK(!stats.mean("a"));
  CHECK(stats.mean("b") == 2);
  CHECK(!stats.mean("never seen"));
}

TEST_CASE("StatsOfRanksAddUpToThoseOfOne") {
  Stats first, second, one;
  for (const double value : {1.0, 5.0}) {
    first.add("x", value);
    one.add("x", value);
  }
  for (const double value : {-2.0, kNan}) {
    second.add("x", value);
    one.add("x", value);
  }
  second.add("only there", 3);
  one.add("only there", 3);
  const std::vector<std::string> names = {"only there", "unseen", "x"};
  std::vector<double> sum = first.pack(names);
  const std::vector<double> other = second.pack(names);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];  // the all-reduce
  Stats together;
  together.unpack(names, sum);
  CHECK(together.to_json_line(7) == one.to_json_line(7));
}

TEST_CASE("StatsNamesAreSorted") {
  Stats stats;
  for (const char* name : {"b", "a", "Z"}) stats.add(name, 1);
  CHECK(stats.names() == std::vector<std::string>{"Z", "a", "b"});
  stats.clear();
  CHECK(stats.names().empty());
}

TEST_CASE("StatsStdOfEqualValuesIsNeverNotANumber") {
  Stats stats;
  for (int i = 0; i < 1000; ++i) stats.add("x", 0.1);
  CHECK(stats.all().at("x").std() < 1e-7);
}

TEST_CASE("StatsAreAppendedLineByLine") {
  const TemporaryFolder folder;
  Stats stats;
  stats.add("x", 1);
  append_stats(folder.path(), stats);
  append_stats(folder.path(), stats);
  const std::string content = read_file(folder.path() / "stats.jsonl");
  CHECK(std::count(content.begin(), content.end(), '\n') == 2);
  const auto line = nlohmann::json::parse(content.substr(0, content.find('\n')));
  CHECK(line["x"]["mean"] == 1.0);
  CHECK(line["timestamp"] > 1.7e9);
}

}  // namespace
}  // namespace gantrain
