// SPDX-License-Identifier: Apache-2.0
// bench ops, launch, data and save.
#include "config/value.h"
#include "support/catch.h"
#include "support/stand_in_python.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

double number(const Json& spread) { return spread.at("median").get<double>(); }

TEST_CASE("EveryOperatorStandsBesideItsBytes") {
  const Json result = last_line(gantrain(
      words_of("bench ops --json --rounds 1 --threads 1 --batch 2 --channels 4 --pixels 8")));
  CHECK(number(result.at("copy_speed")) > 0);
  std::map<std::string, Json> ops;
  for (const Json& op : result.at("ops")) ops[op.at("name")] = op;
  const double tensor = 4 * 2 * 4 * 8 * 8;  // bytes
  CHECK(ops.at("bias_act forward").at("bytes") == 2 * tensor);
  CHECK(ops.at("bias_act forward + backward").at("bytes") == 5 * tensor);
  CHECK(ops.at("upfirdn2d down 2 forward").at("bytes") == 1.25 * tensor);
  CHECK(ops.at("upfirdn2d up 2 forward + backward").at("bytes") == 2.5 * tensor);
  CHECK(ops.at("filtered leaky ReLU forward").at("bytes") == 2 * tensor);
  CHECK(ops.at("Adam").at("bytes") == 7 * tensor);
  CHECK(ops.at("normal draws").at("bytes") == tensor);
  for (const auto& [name, op] : ops) {
    CAPTURE(name);
    const double rate = op.at("bytes").get<double>() / number(op.at("seconds"));
    CHECK(number(op.at("bytes_per_second")) == Approx(rate));
    CHECK(number(op.at("of_copy_speed")) == Approx(rate / number(result.at("copy_speed"))));
    const double faster = number(op.at("composed")) / number(op.at("seconds"));
    CHECK(op.at("times_faster").at("ratio").get<double>() == Approx(faster));
  }
}

TEST_CASE("AProgramsLauncherIsSmallLeavesNothingAndNamesTheFirstCause") {
  Words call =
      words_of("bench launch --programs --json --rounds 1 --ranks 3 --failures 4 --python");
  call.emplace_back("");
  const Json result = last_line(gantrain(call));
  const Json& world = result.at("worlds").at(0);
  REQUIRE(world.at("launchers").size() == 1);
  const Json& ours = world.at("launchers").at(0);
  CHECK(number(ours.at("seconds")) > 0);
  CHECK(ours.at("mib").get<double>() > 0);
  CHECK(ours.at("mib").get<double>() < 8);
  CHECK(ours.at("orphans") == 0);
  CHECK(ours.at("named") == 4);
}

TEST_CASE("TheFirstAllReduceIsPartOfTheRun") {
  const TemporaryFolder folder;
  const fs::path peer = stand_in_python(folder, {"2.11.0", R"({"seconds": 500})"});
  const Json result = last_line(
      gantrain(words_of("bench launch --json --rounds 1 --ranks 2 --python " + peer.string()),
               {.environment = {{"TMPDIR", folder.path().string()}}}));
  const Json& world = result.at("worlds").at(0);
  CHECK(world.at("ranks") == 2);
  const double first = number(world.at("first_all_reduce"));
  CHECK(first > 0);
  CHECK(first < number(world.at("whole_run")));
  CHECK(number(world.at("floor")) ==
        Approx(number(world.at("process_start")) + number(world.at("library_load"))));
  CHECK(number(world.at("peer")) == 500);
  CHECK(world.at("peer").at("ours").at("ratio").get<double>() == Approx(first / 500));
  CHECK_THAT(read_file(folder / "calls"), Catch::Contains("--nproc-per-node 2"));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK_FALSE(starts_with(entry.path().filename().string(), "gantrain-bench"));
}

TEST_CASE("TheLoaderStandsBesideItsDecoder") {
  const TemporaryFolder folder;
  const fs::path peer = stand_in_python(folder, {"", R"({"pictures": 4, "seconds": 2})"});
  const Json result = last_line(gantrain(
      words_of("bench data --json --rounds 1 --pictures 4 --size 32 --resolution 16 --python " +
               peer.string())));
  REQUIRE(result.at("formats").size() == 2);
  for (const Json& format : result.at("formats")) {
    CAPTURE(format.dump());
    for (const char* where : {"folder", "zip"}) {
      const double time = number(format.at("floor")) / number(format.at(where));
      CHECK(format.at(where).at("time_of_floor").at("ratio").get<double>() == Approx(time));
    }
    CHECK(number(format.at("peer")) == 2);
    CHECK(format.at("zip").at("times_the_peer").at("ratio").get<double>() ==
          Approx(number(format.at("zip")) / 2));
  }
  CHECK_THAT(read_file(folder / "calls"), Catch::Contains("jpg.zip --resolution 16"));
  const Json alone = last_line(gantrain(
      words_of("bench data --json --rounds 1 --pictures 4 --size 32 --python no-such-python")));
  CHECK_THAT(alone.at("peer_skipped").get<std::string>(), Catch::StartsWith("no-such-python"));
}

TEST_CASE("ASaveLeavesNothingBehind") {
  const TemporaryFolder folder;
  const Json result = last_line(
      gantrain(words_of("bench save --json --rounds 1 --threads 1 --preset dcgan-tiny --folder " +
                        folder.path().string())));
  const Json& files = result.at("files");
  REQUIRE(files.size() == 2);
  for (const Json& file : files) {
    CHECK(number(file.at("seconds")) > 0);
    CHECK(number(file.at("floor")) > 0);
  }
  // The state holds weights, both moments and the average; the model weights and average.
  const auto bytes = [&](size_t at) { return files.at(at).at("bytes").get<double>(); };
  CHECK(bytes(0) > 2 * bytes(1));
  // Training waits for a copy of the state's elements alone, which the model shares.
  const Json& training = result.at("training");
  CHECK(training.at("bytes").get<double>() < bytes(0));
  CHECK(training.at("bytes").get<double>() > 0.9 * bytes(0));
  for (const char* name : {"pause", "memcpy", "write", "step_alone", "step_beside"})
    CHECK(number(training.at(name)) > 0);
  CHECK(number(training.at("pause")) < number(training.at("write")));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("WhatTheBenchesCannotDoIsRefused") {
  for (const auto& [arguments, part] :
       std::vector<std::pair<std::string, std::string>>{{"ops --pixels 2", "pixels"},
                                                        {"launch --ranks 0", "--ranks 0"},
                                                        {"launch --ranks two", "--ranks two"},
                                                        {"data --size 1", "size"},
                                                        {"save --preset nothing", "nothing"},
                                                        {"save --rounds 0", "rounds"}}) {
    CAPTURE(arguments);
    const Outcome outcome = gantrain(words_of("bench " + arguments));
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace gantrain
