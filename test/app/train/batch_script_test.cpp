// SPDX-License-Identifier: Apache-2.0
#include "command/jobs.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

BatchJob two_nodes() {
  BatchJob job;
  job.name = "faces";
  job.nodes = 2;
  job.ranks_per_node = 8;
  job.gpus_per_node = "a100:8";
  job.training = {"train", "--preset", "stylegan2", "--run-dir", "runs/faces"};
  job.run_dir = "runs/faces";
  return job;
}

bool has_line(const std::string& script, const std::string& line) {
  return script.find("\n" + line + "\n") != std::string::npos;
}

// The text of the refusal; "" if there is none.
std::string refusal(const BatchJob& job) {
  try {
    batch_script(job);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("AJobAsksForWhatItsRanksNeed") {
  BatchJob job = two_nodes();
  job.partition = "gpu,long";
  job.account = "vision";
  job.qos = "normal";
  job.memory = "64G";
  job.time = "1-12";
  job.sbatch = {"--constraint=a100&nvlink"};
  const std::string script = batch_script(job);
  for (const char* line : {"#SBATCH --job-name=faces",
                           "#SBATCH --partition=gpu,long",
                           "#SBATCH --account=vision",
                           "#SBATCH --qos=normal",
                           "#SBATCH --nodes=2",
                           "#SBATCH --ntasks-per-node=1",
                           "#SBATCH --cpus-per-task=40",
                           "#SBATCH --gpus-per-node=a100:8",
                           "#SBATCH --mem=64G",
                           "#SBATCH --time=1-12",
                           "#SBATCH --signal=USR1@300",
                           "#SBATCH --requeue",
                           "#SBATCH --open-mode=append",
                           "#SBATCH --constraint=a100&nvlink"}) {
    INFO(line);
    CHECK(has_line(script, line));
  }
  CHECK(script.find("srun --ntasks=2 --ntasks-per-node=1 --cpus-per-task=40") != std::string::npos);
}

TEST_CASE("ATaskPerRankNeedsTheCoresOfOneRank") {
  BatchJob job = two_nodes();
  job.task_per_rank = true;
  const std::string script = batch_script(job);
  CHECK(has_line(script, "#SBATCH --ntasks-per-node=8"));
  CHECK(has_line(script, "#SBATCH --cpus-per-task=5"));
  CHECK(script.find("srun --ntasks=16 --ntasks-per-node=8 --cpus-per-task=5") != std::string::npos);
}

TEST_CASE("WhatIsNotGivenIsLeftToTheCluster") {
  BatchJob job = two_nodes();
  job.gpus_per_node = "0";
  const std::string script = batch_script(job);
  for (const char* flag : {"--partition", "--account", "--qos", "--mem", "--time", "--gpus"}) {
    INFO(flag);
    CHECK(script.find(std::string("#SBATCH ") + flag) == std::string::npos);
  }
}

TEST_CASE("TimeLimitsAreReadAsSlurmReadsThem") {
  CHECK(time_limit("30") == 1800);
  CHECK(time_limit("2:30") == 150);
  CHECK(time_limit("2:30:00") == 9000);
  CHECK(time_limit("1-12") == 129600);
  CHECK(time_limit("1-12:30") == 131400);
  CHECK(time_limit("0-00:10:30") == 630);
  CHECK(time_limit("36h") == 129600);
  CHECK_FALSE(time_limit("UNLIMITED"));
  for (const char* text : {"", "soon", "0", "1-", "1:2:3:4", "-5", "1-2-3", "5x"}) {
    INFO(text);
    CHECK_THROWS_AS(time_limit(text), UserError);
  }
}

TEST_CASE("ADurationBecomesATimeLimit") {
  BatchJob job = two_nodes();
  job.time = "36h";
  CHECK(has_line(batch_script(job), "#SBATCH --time=1-12:00:00"));
}

TEST_CASE("AShortJobIsWarnedInItsLastQuarter") {
  BatchJob job = two_nodes();
  job.time = "4";
  CHECK(has_line(batch_script(job), "#SBATCH --signal=USR1@60"));
}

TEST_CASE("GpusAreANumberPerhapsWithATypeBefore") {
  CHECK(gpu_count("") == 0);
  CHECK(gpu_count("8") == 8);
  CHECK(gpu_count("a100:4") == 4);
  for (const char* text : {"many", "a100:", ":8", "-1", "8:a100", "8 8"}) {
    INFO(text);
    CHECK_THROWS_AS(gpu_count(text), UserError);
  }
}

TEST_CASE("ValuesThatSlurmCannotReadAreRefusedByTheirFlag") {
  BatchJob job = two_nodes();
  job.name = "two words";
  CHECK(refusal(job).find("--job-name 'two words'") != std::string::npos);
  job = two_nodes();
  job.partition = "gpu\n#SBATCH --nodes=99";
  CHECK(refusal(job).find("--partition") != std::string::npos);
  job = two_nodes();
  job.memory = "much";
  CHECK(refusal(job).find("--mem much") != std::string::npos);
  job = two_nodes();
  job.sbatch = {"--exclusive\nrm -rf x"};
  CHECK(refusal(job).find("--sbatch") != std::string::npos);
  job.sbatch = {"exclusive"};
  CHECK(refusal(job).find("--sbatch exclusive") != std::string::npos);
}

TEST_CASE("WordsOfTheTrainingAreQuoted") {
  BatchJob job = two_nodes();
  job.training = {"train", "--data", "/my photos/it's $HOME;`date`"};
  CHECK(batch_script(job).find(R"(--data '/my photos/it'\''s $HOME;`date`' --resume auto)") !=
        std::string::npos);
}

TEST_CASE("AJobKnowsPyTorchsLibrariesAsTheProgramDid") {
  BatchJob job = two_nodes();
  CHECK(batch_script(job).find("GANTRAIN_TORCH_LIB") == std::string::npos);
  job.torch = "/opt/my venv/torch/lib";
  CHECK(has_line(batch_script(job), "export GANTRAIN_TORCH_LIB='/opt/my venv/torch/lib'"));
}

TEST_CASE("AnotherRunIsResumedUntilThisOneHasAState") {
  BatchJob job = two_nodes();
  CHECK(batch_script(job).find("--resume \"$resume\"") == std::string::npos);
  job.resume = "runs/old";
  const std::string script = batch_script(job);
  CHECK(has_line(script, "resume=runs/old"));
  CHECK(script.find("--resume \"$resume\"") != std::string::npos);
}

}  // namespace gantrain
