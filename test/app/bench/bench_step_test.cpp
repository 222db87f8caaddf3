// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "config/value.h"
#include "support/catch.h"
#include "support/stand_in_python.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Json bench_step(const std::string& more) {
  return last_line(gantrain(words_of("bench step --json --threads 1 --steps 1 " + more)));
}

const std::string kDcgan =
    "--nets dcgan --batch 8 --set dcgan.channels=32 --set dcgan.d_channels=8 ";
const std::string kStyle =
    "--preset stylegan2-tiny --resolution 16 --batch 4 --set stylegan2.channel_max=8 ";

TEST_CASE("AnIterationIsItsPhasesDividedByTheirIntervals") {
  const Json net =
      bench_step(kStyle + "--pairs 1 --no-floor --python no-such-python").at("nets").at(0);
  const Json intervals = {{"Dmain", 1.0}, {"Dreg", 16.0}, {"Gmain", 1.0}, {"Greg", 4.0}};
  CHECK(net.at("intervals") == intervals);
  const Json& ours = net.at("rows").at(0);
  CHECK(ours.at("name") == "gantrain");
  CHECK(ours.at("peak_bytes").get<double>() > 1e7);
  double sum = 0;
  for (const auto& [phase, seconds] : ours.at("phases").items())
    sum += seconds.at("median").get<double>() / intervals.value(phase, 1.0);
  CHECK(ours.at("phases").size() == 5);  // and what is outside phases
  CHECK(ours.at("median").get<double>() == Approx(sum));
}

// Of a network with five convolutions: D sees real and fake pictures with its own gradients, then
// fake ones again with the gradients of their pixels alone; G is passed once, and back once. First
// layers have no gradient of their input, except D's in G's phase.
TEST_CASE("TheFloorHasEveryConvolutionOfTheStep") {
  const Json net = bench_step(kDcgan + "--pairs 1 --python no-such-python").at("nets").at(0);
  const Json& floor = net.at("floor");
  std::map<std::string, double> calls;
  double seconds = 0;
  for (const Json& call : floor.at("calls")) {
    const auto text = call.at("call").get<std::string>();
    calls[text.substr(0, text.find(" of "))] += call.at("calls").get<double>();
    seconds += call.at("calls").get<double>() * call.at("seconds").get<double>();
    CHECK(call.at("how") != "");
  }
  // A transposed convolution is the input's gradient of a convolution, and its own is a
  // convolution.
  const double forward = 2 * 5 + 5, input = 2 * 4 + 5, weight = 2 * 5;
  CHECK(calls["convolution"] == forward + 4);
  CHECK(calls["input gradient"] == input + 5);
  CHECK(calls["weight gradient"] == weight + 5);
  CHECK(floor.at("seconds").get<double>() == Approx(seconds));
}

// The same network, and nothing is computed.
TEST_CASE("TheCountHasEveryConvolutionOfTheStep") {
  const auto counted = [](const std::string& more) {
    return bench_step(kDcgan + "--count " + more).at("nets").at(0).at("count");
  };
  const Json count = counted("");
  std::map<std::string, Json> operators;
  double bytes = 0;
  for (const Json& one : count.at("operators")) {
    operators[one.at("name")] = one;
    bytes += one.at("read").get<double>() + one.at("written").get<double>();
  }
  const double forward = 2 * 5 + 5, input = 2 * 4 + 5, weight = 2 * 5;
  CHECK(operators.at("convolution").at("kernels") == forward + 4);
  CHECK(operators.at("convolution's gradient by its input").at("kernels") == input + 5);
  CHECK(operators.at("convolution's gradient by its weight").at("kernels") == weight + 5);
  const Json& all = count.at("iteration");
  CHECK(all.at("read").get<double>() + all.at("written").get<double>() == Approx(bytes));
  CHECK(all.at("floor").get<double>() < bytes);
  CHECK(all.at("replays") == 4);  // passes and step of each phase
  CHECK(all.at("eager").get<double>() < all.at("kernels").get<double>());
  const Json without = counted("--graphs off").at("iteration");
  CHECK(without.at("replays") == 0);
  CHECK(without.at("eager") == without.at("kernels"));
  CHECK(without.at("floor") == all.at("floor"));
}

// What each kernel moves grows with the pictures, or not at all.
TEST_CASE("TheCountIsTheSameAtAnyBatch") {
  const auto iteration = [](int batch) {
    const std::string more = " --count --batch " + std::to_string(batch);
    return bench_step("--preset stylegan2-tiny" + more)
        .at("nets")
        .at(0)
        .at("count")
        .at("iteration");
  };
  const Json some = iteration(8), twice = iteration(16), more = iteration(24);
  CHECK(some.at("kernels") == more.at("kernels"));
  for (const char* part : {"read", "written", "floor"}) {
    const double step = twice.at(part).get<double>() - some.at(part).get<double>();
    CHECK(step > 0);
    CHECK(more.at(part).get<double>() == Approx(some.at(part).get<double>() + 2 * step));
  }
}

TEST_CASE("OursIsDividedByEachPeersTime") {
  const TemporaryFolder folder;
  const fs::path peer = stand_in_python(
      folder,
      {"2.11.0", R"({"phases": {"D": [1000, 3000], "G": [1000, 1000]}, "peak_bytes": 5000000})"});
  const Json result = bench_step(kDcgan + "--pairs 2 --no-floor --ref --python " + peer.string());
  CHECK_FALSE(result.contains("peer_skipped"));
  const Json& rows = result.at("nets").at(0).at("rows");
  REQUIRE(rows.size() == 4);
  CHECK(rows.at(1).at("name") == "gantrain, kernels=ref");
  for (const size_t at : {2U, 3U}) {
    const Json& row = rows.at(at);
    CHECK(row.at("median") == 3000);
    CHECK(row.at("phases").at("D").at("median") == 2000);
    CHECK(row.at("peak_bytes") == 5e6);
    const auto ratio = row.at("ours").at("ratio").get<double>();
    CHECK(ratio > 0);
    CHECK(ratio < 0.1);
  }
  const std::string calls = read_file(folder / "calls");
  for (const char* part : {"dcgan.py",
                           "--layout contiguous",
                           "--layout channels-last",
                           "--batch 8",
                           "--channels 32",
                           "--d-channels 8",
                           "--threads 1"})
    CHECK_THAT(calls, Catch::Contains(part));
}

TEST_CASE("TheProfileSharesOutAllOfTheTime") {
  const Json profile = bench_step(kStyle + "--profile").at("nets").at(0).at("profile");
  double sum = 0;
  std::map<std::string, Json> rows;
  for (const Json& row : profile.at("operators")) {
    const auto seconds = row.at("seconds").get<double>();
    CAPTURE(row.dump());
    CHECK(seconds >= 0);
    sum += seconds;
    double phases = 0;
    for (const auto& [phase, part] : row.at("phases").items()) phases += part.get<double>();
    CHECK(phases == Approx(seconds).margin(1e-9));
    rows[row.at("name")] = row;
  }
  CHECK(sum == Approx(profile.at("seconds").get<double>()));
  REQUIRE(rows.count("outside operators") == 1);
  const Json& products = rows.at("aten::mm");
  CHECK(products.at("calls").get<double>() > 0);
  CHECK(products.at("backward").get<double>() > 0);
  CHECK(products.at("shapes").at(0).at("name").get<std::string>().find('x') != std::string::npos);
}

TEST_CASE("TheProfileOfComposedOperatorsHasNoneOfOurs") {
  const auto names = [](const std::string& more) {
    std::set<std::string> found;
    const Json profile = bench_step(kStyle + "--profile " + more).at("nets").at(0).at("profile");
    for (const Json& row : profile.at("operators")) found.insert(row.at("name"));
    return found;
  };
  CHECK(names("").count("ActFunction") == 1);
  CHECK(names("--kernels ref").count("ActFunction") == 0);
}

TEST_CASE("WhatNoStepCanBeIsRefused") {
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"--nets biggan", "there are stylegan2, stylegan3, r3gan, dcgan"},
           {"--official no-such-folder", "no-such-folder"},
           {"--preset dcgan --nets dcgan", "--nets"},
           {"--nets dcgan --set dcgan.channels=many", "dcgan.channels"},
           {"--pairs 0", "pairs"},
           {"--count --profile", "--count"},
           {"--count --nets dcgan --amp --set precision.mode=autocast", "autocast"},
           {"--nproc 2", "--nproc"}}) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of("bench step " + arguments));
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace gantrain
