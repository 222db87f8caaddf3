// SPDX-License-Identifier: Apache-2.0
// What presets mean on GPUs, as `--dry-run --device cuda` plans it where there are none.
#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

// No GPU is visible here, whatever the machine has.
const CommandOptions kNoGpu = {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}};

Json plan(const std::string& flags, CommandOptions options = kNoGpu) {
  options.environment = kNoGpu.environment;
  const Outcome outcome = gantrain(words_of(flags + " --dry-run --json"), options);
  INFO(flags << "\n" << outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out);
}

Json value_in(const Json& plan, const std::string& key) {
  return plan.at("values").at(key).at("value");
}

std::string origin_in(const Json& plan, const std::string& key) {
  return plan.at("values").at(key).at("origin");
}

// A configuration of the reference code: Karras et al. 2020b, and its `auto`.
struct Official {
  std::string flags;
  int64_t ranks;
  double batch, mbstd_group, channel_base, lr, gamma, ema, rampup, map_depth, kimg;
};

const std::vector<Official>& official() {
  static const std::vector<Official> table = {
      {"--preset stylegan2", 1, 16, 4, 16384, .0025, .8192, 5, .05, 2, 25000},
      {"--preset stylegan2", 8, 64, 4, 16384, .0025, .2048, 20, .05, 2, 25000},
      {"--preset stylegan2 --resolution 64", 1, 32, 4, 16384, .0025, .0256, 10, .05, 2, 25000},
      {"--preset stylegan2 --resolution 1024", 1, 4, 4, 32768, .002, 52.4288, 1.25, .05, 2, 25000},
      {"--preset stylegan2 --resolution 1024", 8, 32, 4, 32768, .002, 6.5536, 10, .05, 2, 25000},
      {"--preset stylegan2-ada", 8, 64, 4, 16384, .0025, .2048, 20, .05, 2, 25000},
      {"--preset stylegan2-paper256", 1, 64, 8, 16384, .0025, 1, 20, 0, 8, 25000},
      {"--preset stylegan2-paper256", 8, 64, 8, 16384, .0025, 1, 20, 0, 8, 25000},
      {"--preset stylegan2-paper512", 1, 64, 8, 32768, .0025, .5, 20, 0, 8, 25000},
      {"--preset stylegan2-paper512", 8, 64, 8, 32768, .0025, .5, 20, 0, 8, 25000},
      {"--preset stylegan2-paper1024", 1, 32, 4, 32768, .002, 2, 10, 0, 8, 25000},
      {"--preset stylegan2-paper1024", 8, 32, 4, 32768, .002, 2, 10, 0, 8, 25000},
      {"--preset stylegan2-cifar", 1, 64, 32, 32768, .0025, .01, 500, .05, 2, 100000},
      {"--preset stylegan2-cifar", 2, 64, 32, 32768, .0025, .01, 500, .05, 2, 100000},
  };
  return table;
}

void check_official(const Json& plan, const Official& row) {
  CHECK(value_in(plan, "train.batch") == row.batch);
  CHECK(value_in(plan, "stylegan2.mbstd_group") == row.mbstd_group);
  CHECK(value_in(plan, "stylegan2.channel_base") == row.channel_base);
  CHECK(value_in(plan, "G.adam.lr") == row.lr);
  CHECK(value_in(plan, "D.adam.lr") == row.lr);
  CHECK(value_in(plan, "stylegan2.gamma").get<double>() == Approx(row.gamma));
  CHECK(value_in(plan, "ema.half_life").get<double>() == Approx(row.ema));
  CHECK(value_in(plan, "ema.rampup") == row.rampup);
  CHECK(value_in(plan, "stylegan2.map_depth") == row.map_depth);
  CHECK(value_in(plan, "train.kimg") == row.kimg);
  CHECK(value_in(plan, "stylegan2.num_fp16_res") == 4);
  CHECK(value_in(plan, "stylegan2.conv_clamp") == 256);
  CHECK(value_in(plan, "precision.tf32") == false);
}

std::string on(const std::string& device, const Official& row) {
  return row.flags + " --device " + device + " --nproc " + std::to_string(row.ranks);
}

TEST_CASE("OnGpusStyleGan2PresetsAreTheOfficialConfigurations") {
  for (const Official& row : official()) {
    CAPTURE(row.flags, row.ranks);
    const Json gpu = plan(on("cuda", row));
    check_official(gpu, row);
    CHECK(value_in(gpu, "precision.amp") == "fp16");
    CHECK(value_in(gpu, "precision.mode") == "blocks");
    CHECK(value_in(gpu, "data.workers") == 3);
    for (const char* key : {"precision.amp", "precision.mode", "data.workers"})
      CHECK(origin_in(gpu, key) == "auto (GPU)");
    const Json& schedule = gpu.at("schedule");
    CHECK(schedule.at("device") == "cuda");
    CHECK(schedule.at("micro_batch") == row.batch / static_cast<double>(row.ranks));
    CHECK(schedule.at("accumulate") == 1);
  }
}

TEST_CASE("OnACpuStyleGan2PresetsStayInFloat32") {
  for (const Official& row : official()) {
    CAPTURE(row.flags, row.ranks);
    const Json cpu = plan(on("cpu", row));
    check_official(cpu, row);
    CHECK(value_in(cpu, "precision.amp") == "off");
    CHECK(value_in(cpu, "precision.mode") == "autocast");
    CHECK(value_in(cpu, "data.workers") == "auto");
    for (const char* key : {"precision.amp", "precision.mode", "data.workers"})
      CHECK(origin_in(cpu, key) == "default");
    const double of_rank = row.batch / static_cast<double>(row.ranks);
    const Json limit = value_in(cpu, "stylegan2.max_micro_batch");
    const double most = limit == "auto" ? of_rank : std::min(of_rank, limit.get<double>());
    CHECK(cpu.at("schedule").at("micro_batch") == most);
  }
}

TEST_CASE("OtherRecipesMeanTheSameOnEveryDevice") {
  for (const char* preset : {"dcgan",
                             "lsgan",
                             "wgan-gp",
                             "pggan",
                             "stylegan1",
                             "dcgan-tiny",
                             "pggan-tiny",
                             "stylegan1-tiny",
                             "stylegan2-tiny",
                             "stylegan3-tiny",
                             "r3gan-tiny",
                             "projected",
                             "projected-tiny"}) {
    CAPTURE(preset);
    const std::string flags = std::string("--preset ") + preset + " --nproc 2 --device ";
    const Json cpu = plan(flags + "cpu");
    Json gpu = plan(flags + "cuda");
    CHECK(value_in(gpu, "precision.amp") == "off");
    for (const char* key : {"launch.device", "data.workers"})
      gpu["values"][key] = cpu["values"][key];
    CHECK(gpu["values"] == cpu["values"]);
  }
}

TEST_CASE("AGpuRunIsPlannedWhereNoGpuIs") {
  const Json paper = plan("--preset stylegan2-paper256 --device cuda --nproc 8");
  CHECK(paper.at("schedule").at("ranks") == 8);
  CHECK(paper.at("schedule").at("backend") == "nccl");
  const Outcome text =
      gantrain(words_of("--preset stylegan2-paper256 --device cuda --nproc 8 --dry-run"), kNoGpu);
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  CHECK_THAT(text.out,
             Catch::Contains("planned for another machine: ") &&
                 Catch::Contains("batch 64 = 8 ranks x 8") &&
                 Catch::Contains("device cuda, backend nccl") &&
                 Catch::Contains("auto    on a GPU: precision.mode blocks, precision.amp fp16"));
  // What is computed here needs the device.
  for (const char* flags : {"--dry-run=full", "--kimg 0"}) {
    const Outcome refused =
        gantrain(words_of(std::string("--preset stylegan2-tiny --device cuda ") + flags), kNoGpu);
    CAPTURE(flags, refused.err);
    CHECK(refused.code == 4);
    CHECK(is_one_error_line(refused.err));
  }
}

TEST_CASE("CudaGraphsOnACpuAreExit2") {
  const Outcome refused =
      gantrain(words_of("--preset dcgan-tiny --device cpu --graphs on --dry-run"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains("need GPUs") && Catch::Contains("--graphs auto"));
  for (const char* possible : {"auto", "off"}) {
    const std::string flags = std::string("--preset dcgan-tiny --graphs ") + possible;
    CHECK(value_in(plan(flags + " --device cpu"), "train.graphs") == possible);
  }
  CHECK(value_in(plan("--preset dcgan-tiny --device cuda --graphs on"), "train.graphs") == "on");
}

// The content of a run folder that says how the run began.
void begin(const std::filesystem::path& run, const Json& plan) {
  std::filesystem::create_directory(run);
  write_file(run / "config.json", plan.dump());
}

TEST_CASE("ARunKeepsThePrecisionThatItBeganWithOnTheOtherDevice") {
  const TemporaryFolder folder;
  const CommandOptions there = {.folder = folder.path()};
  const std::string paper = "--preset stylegan2-paper256 --run-dir ";
  begin(folder / "gpu", plan(paper + "gpu --device cuda --nproc 2", there));
  const Json on_cpu = plan(paper + "gpu --device cpu --nproc 2", there);
  CHECK(value_in(on_cpu, "precision.amp") == "fp16");
  CHECK(value_in(on_cpu, "precision.mode") == "blocks");
  CHECK(origin_in(on_cpu, "precision.amp") == "auto (GPU)");
  CHECK(value_in(on_cpu, "data.workers") == "auto");
  CHECK(value_in(on_cpu, "train.micro_batch") == 8);

  begin(folder / "cpu", plan(paper + "cpu --device cpu --nproc 2", there));
  const Json on_gpu = plan(paper + "cpu --device cuda --nproc 2", there);
  CHECK(value_in(on_gpu, "precision.amp") == "off");
  CHECK(value_in(on_gpu, "precision.mode") == "autocast");
  CHECK(origin_in(on_gpu, "precision.amp") == "auto (as the run began)");
  CHECK(value_in(on_gpu, "data.workers") == 3);
  CHECK(value_in(on_gpu, "train.micro_batch") == "auto");
  // What is given now counts, and is compared with the state's when that is loaded.
  const Json given = plan(paper + "cpu --device cuda --amp --nproc 2", there);
  CHECK(value_in(given, "precision.amp") == "auto");
}

}  // namespace
}  // namespace gantrain
