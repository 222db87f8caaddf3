// SPDX-License-Identifier: Apache-2.0
// How gradients travel, seen from outside: what it costs, what may be asked for, what a death in
// the middle of it does.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "config/value.h"
#include "support/catch.h"
#include "support/reserved_port.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Json last_stats(const fs::path& run) {
  const std::vector<std::string> lines = split(trim(read_file(run / "stats.jsonl")), '\n');
  return Json::parse(lines.back());
}

// Of the generator.
int64_t parameters_of(const fs::path& run) {
  int64_t all = 0;
  for (const auto& [name, tensor] : read_safetensors(last_model(run))) {
    const bool buffer =
        ends_with(name, "num_batches_tracked") || name.find("running_") != std::string::npos;
    const bool raw =
        starts_with(name, "G.") || starts_with(name, "D.");  // the average has no prefix
    if (!buffer && !raw) all += static_cast<int64_t>(tensor.values().size());
  }
  return all;
}

TEST_CASE("APhaseCostsTheBytesOfItsOwnNetworkAlone") {
  const TemporaryFolder folder;
  const fs::path net = trained(folder, "net", "--nproc 2 --kimg 0.064");
  const fs::path whole = train(folder, "whole", "--nproc 2 --kimg 0.064 --ddp-scope whole");
  const fs::path half = train(folder, "half", "--nproc 2 --kimg 0.064 --set dist.compress=fp16");
  const Json own = last_stats(net), all = last_stats(whole), small = last_stats(half);
  CHECK(mean_of(own, "Comm/G/bytes") == 4.0 * static_cast<double>(parameters_of(net)));
  CHECK(mean_of(own, "Comm/G/collectives") == 1);
  CHECK(mean_of(own, "Comm/G/buckets") == 1);
  const double both = mean_of(own, "Comm/G/bytes") + mean_of(own, "Comm/D/bytes");
  for (const std::string phase : {"G", "D"}) {
    CAPTURE(phase);
    CHECK(mean_of(own, "Comm/" + phase + "/collectives") == 1);
    CHECK(mean_of(all, "Comm/" + phase + "/bytes") > both);  // and a bitmap
    CHECK(mean_of(all, "Comm/" + phase + "/bytes") < both + 1000);
    CHECK(mean_of(small, "Comm/" + phase + "/bytes") ==
          mean_of(own, "Comm/" + phase + "/bytes") / 2);
  }
}

TEST_CASE("MicroBatchesAreReducedOnceAStep") {
  const TemporaryFolder folder;
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    const Json once = last_stats(train(folder, mode, "--nproc 2 --kimg 0.064 --ddp-mode " + mode));
    const Json parts = last_stats(
        train(folder,
              mode + "-parts",
              "--nproc 2 --kimg 0.064 --accumulate 2 --set G.accumulate=4 --ddp-mode " + mode));
    for (const std::string phase : {"G", "D"}) {
      CHECK(mean_of(parts, "Comm/" + phase + "/collectives") == 1);
      CHECK(mean_of(parts, "Comm/" + phase + "/bytes") ==
            mean_of(once, "Comm/" + phase + "/bytes"));
    }
  }
}

TEST_CASE("TheLogSaysWhatFindUnusedChose") {
  const TemporaryFolder folder;
  trained(folder, "run", "--nproc 2 --kimg 0.032");
  CHECK(read_file(folder / "run/log.txt").find("dynamic: G find-unused off, 1 bucket; D ") !=
        std::string::npos);
}

TEST_CASE("WhatMovesGradientsAnotherWayTrainsTheSameBits") {
  const TemporaryFolder folder;
  const std::string same =
      "--nproc 2 --kimg 0.16 --set dcgan.norm=none --set dcgan.channels=32 --set "
      "dcgan.d_channels=8 ";
  const std::string plain = model_sha(train(folder, "plain", same));
  const std::vector<std::string> ways = {"--set dist.static_graph=on",
                                         "--find-unused on",
                                         "--ddp-scope whole",
                                         "--set dist.gradient_as_bucket_view=off",
                                         "--set dist.first_bucket_mb=0.001"};
  for (size_t i = 0; i < ways.size(); ++i) {
    CAPTURE(ways[i]);
    CHECK(model_sha(train(folder, std::to_string(i), same + ways[i])) == plain);
  }
}

TEST_CASE("DistOptionsThatCannotBeAreRefusedBeforeTraining") {
  for (const auto& [flags, part] : std::vector<std::pair<std::string, std::string>>{
           {"--ddp-scope whole --ddp-mode flat", "--ddp-scope whole goes with"},
           {"--set dist.static_graph=on --ddp-mode flat", "dist.static_graph = on"},
           {"--set dist.compress=zip", "none|fp16|bf16"}}) {
    CAPTURE(flags);
    const Outcome outcome = gantrain(tiny("--nproc 2 --dry-run " + flags));
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(part) != std::string::npos);
  }
}

TEST_CASE("SynchronisedBatchNormMakesTwoRanksOneUndividedBatch") {
  const TemporaryFolder folder;
  const std::string same =
      "--kimg 0.16 --set train.dtype=float64 --set dcgan.norm=batch --set dcgan.channels=32 "
      "--set dcgan.d_channels=8 ";
  const fs::path one = train(folder, "one", same);
  const fs::path two = train(folder, "two", "--nproc 2 --set dist.sync_bn=on " + same);
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one));
  const FileTensors b = read_safetensors(last_model(two));
  double moved = 0;
  double apart = 0;
  for (const auto& [name, tensor] : a) {
    if (ends_with(name, "num_batches_tracked")) continue;
    CAPTURE(name);
    REQUIRE(tensor.dtype == "F64");
    moved = std::max(moved, max_distance(tensor, start.at(name)));
    apart = std::max(apart, max_distance(tensor, b.at(name)));
  }
  CHECK(moved > 1e-4);
  CHECK(apart > 0);
  CHECK(apart <= 1e-10 * moved);
  // Without it, each rank normalises by half of the batch.
  const FileTensors halves =
      read_safetensors(last_model(train(folder, "halves", "--nproc 2 " + same)));
  double without = 0;
  for (const auto& [name, tensor] : a) {
    if (tensor.dtype == "F64") without = std::max(without, max_distance(tensor, halves.at(name)));
  }
  CHECK(without > 1e-3 * moved);
}

// A rank is killed again and again until it died in a backward, where the others wait for its
// gradients.
TEST_CASE("ADeathInsideABackwardEndsTheOthersAtOnce") {
  bool inside = false;
  for (int attempt = 0; attempt < 20 && !inside; ++attempt) {
    const TemporaryFolder folder;
    Command command(tiny("--run-dir run --nproc 2 --kimg 500 --batch 64 --resolution 32"),
                    {.folder = folder.path()});
    REQUIRE(command.wait_for("speed  "));
    const Json pids = pids_of(folder / "run");
    usleep(static_cast<useconds_t>(20000 + 37000 * attempt));
    REQUIRE(kill(pids.at("1").get<pid_t>(), SIGKILL) == 0);
    CHECK(eventually([&] { return !is_alive(pids.at("0").get<pid_t>()); }, 60));
    const Outcome outcome = command.wait();
    INFO(outcome.err);
    CHECK(outcome.code == 6);
    CHECK(outcome.left.empty());
    const size_t at = outcome.err.find("error   rank 1");
    REQUIRE(at != std::string::npos);
    CHECK(outcome.err.find("SIGKILL", at) != std::string::npos);
    inside = outcome.err.find("backward\"", at) != std::string::npos;
  }
  CHECK(inside);
}

TEST_CASE("DoctorSaysWhatThisMachineHas") {
  const Outcome outcome = gantrain({"doctor"});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  for (const std::string part : {"gantrain ", "cpu ", "threads ", "gpus ", "libtorch ", "python "})
    CHECK(outcome.out.find(part) != std::string::npos);
  const Outcome line = gantrain({"doctor", "--json"});
  CHECK(line.code == 0);
  const Json facts = Json::parse(line.out);
  CHECK(facts.at("threads").get<int>() >= 1);
  CHECK_THAT(facts.at("libtorch").get<std::string>(), Catch::StartsWith("2.11"));
}

TEST_CASE("DoctorMeasuresRanksAndLeavesNothingBehind") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(words_of("doctor --nproc 2 --device cpu"), {.folder = folder.path()});
  // Another process may slow one of the ranks down meanwhile, which is what it looks for.
  CHECK((outcome.code == 0 || outcome.code == 4));
  CHECK_THAT(outcome.err, Catch::Contains("preflight 2 ranks in "));
  CHECK((outcome.code == 0) == (outcome.err.find("% of the median") == std::string::npos));
  CHECK(std::filesystem::is_empty(folder.path()));
  const Outcome wrong = gantrain(words_of("doctor --nproc none"), {.folder = folder.path()});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("--nproc"));
  for (const std::string flags : {"--nproc 1 --json", "--device cpu", "--backend gloo"})
    CHECK(gantrain(words_of("doctor " + flags)).code == 2);
}

TEST_CASE("DoctorMeasuresTheNodesThatSlurmNames") {
  const TemporaryFolder folder;
  const ReservedPort port;
  const auto task = [&](const std::string& number) {
    return CommandOptions{.environment = {{"SLURM_JOB_ID", "1"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_PROCID", number},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "2"},
                                          {"SLURM_NODEID", number},
                                          {"SLURM_STEP_NUM_NODES", "2"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                          {"SLURM_STEP_NODELIST", "localhost,localhost"},
                                          {"MASTER_PORT", std::to_string(port.number())}},
                          .folder = folder.path()};
  };
  const auto words = words_of("doctor --nproc 2 --device cpu");
  Command other(words, task("1"));
  const Outcome outcome = gantrain(words, task("0"));
  CHECK((outcome.code == 0 || outcome.code == 4));
  CHECK_THAT(outcome.err, Catch::Contains("preflight 4 ranks in "));
  other.wait();
}

TEST_CASE("DoctorPrintsTheTableOfDdpModes") {
  const Outcome outcome = gantrain({"doctor", "--ddp-table", "--json"});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.left.empty());
  const Json cells = Json::parse(outcome.out).at("ddp_table");
  REQUIRE(cells.size() == 14);
  for (const Json& cell : cells) {
    CAPTURE(cell.dump());
    CHECK(cell.at("expected").get<bool>());
  }
  CHECK(cells[6].at("result") == "OK");
  CHECK(cells[6].at("G").at("bytes").get<double>() > 0);
}

}  // namespace
}  // namespace gantrain
