// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/records.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {
namespace {

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
