// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "command/batch_script.h"
#include "command/flags.h"
#include "command/options.h"
#include "launch/options.h"
#include "main/verbs.h"
#include "train/train_request.h"
#include "train/training_words.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kSlurmAbout =
    "Writes a batch script for Slurm whose job saves before its time is up, puts itself back into "
    "the queue and goes on.";

struct SlurmFlags {
  BatchJob job = {.name = ""};  // the preset's, if none is given
  std::string task_per = "node";
  JobRequest request;
};

template <class Field>
void fields(SlurmFlags& o, Field&& field) {
  BatchJob& job = o.job;
  field("name",
        job.name,
        said("--job-name,-J"),
        "the job's name; without --run-dir also the folder's");
  field("partition",
        job.partition,
        said("--partition,-p"),
        "partition, or several with commas between");
  field("account", job.account, said("--account,-A"), "account that pays");
  field("qos", job.qos, "quality of service");
  field("nodes", job.nodes, said("--nodes,-N"), between(1, 100000), "nodes (1)");
  rank_fields(o.request, field, "node");
  field("gpus_per_node",
        job.gpus_per_node,
        "GPUs of a node: 8 or TYPE:8 (one per rank; 0 with --device cpu)");
  field("cpus_per_rank", job.cpus_per_rank, between(1, 10000), "CPU cores of a rank (5)");
  field("mem", job.memory, "memory of a node: 64G");
  field("time", job.time, said("--time,-t"), "time limit: minutes, H:MM:SS, D-HH:MM:SS, 36h");
  field(
      "requeues", job.requeues, between(0, 1000000), "how often the job may be started again (20)");
  field("task_per",
        o.task_per,
        Said{.one_of = "node,rank"},
        "what srun starts: one task per node or rank (node)");
  field("sbatch",
        job.sbatch,
        Said{.one_each = true},
        "one more flag for sbatch; may be given several times: --sbatch=-C=a100");
  field("srun",
        job.srun,
        Said{.one_each = true},
        "one more flag for srun; may be given several times: --srun=--mpi=none");
  output_fields(o.request, field, "script");
}

constexpr const char* kFooter =
    "All other flags, and those after --, are those of gantrain train:\n"
    "  gantrain slurm --partition gpu --nodes 2 --gpus-per-node 8 --time 24h -o job.sh -- \\\n"
    "    --preset stylegan2 --data /data/photos --run-dir /scratch/photos";

// What the batch script decides cannot be said by a flag of the training.
void refuse_flags_of_the_script(const Config& config) {
  refuse_given(config,
               {"launch.nnodes", "launch.node_rank", "launch.master_addr"},
               "Slurm decides that; leave it out, --nodes says how many nodes");
  if (text_of(config.get("run.resume")) == "none") {
    fail(Exit::kUsage,
         "--resume none: a job that is requeued would begin again from nothing; give a new "
         "--run-dir instead");
  }
}

// Ranks and GPUs of a node, from the flags of the script or those of the training.
void decide_ranks(SlurmFlags& flags, const Config& config) {
  BatchJob& job = flags.job;
  const auto launch = config.read<LaunchOptions>();
  const std::optional<int64_t> asked = asked_ranks(flags.request, launch);
  if (job.gpus_per_node.empty() && launch.device != DeviceKind::kCpu)
    job.gpus_per_node = std::to_string(asked.value_or(1));
  job.ranks_per_node = ranks_of_node(
      asked, gpu_count(job.gpus_per_node), "--gpus-per-node " + job.gpus_per_node, launch);
}

void decide_training(SlurmFlags& flags,
                     const Config& config,
                     const std::vector<std::string>& words) {
  BatchJob& job = flags.job;
  job.training = without_flag(words, {"--resume"});  // the script decides that
  job.training.insert(job.training.begin(), "train");
  job.resume = text_of(config.get("run.resume"));
  job.run_dir = text_of(config.get("run.run_dir"));
  if (job.run_dir.empty()) {
    job.run_dir = (fs::path(text_of(config.get("run.out"))) / job.name).string();
    job.training.insert(job.training.end(), {"--run-dir", job.run_dir});
  }
  if (!job.task_per_rank) add_ranks(config, job.ranks_per_node, job.training);
}

int run_slurm(const std::vector<std::string>& arguments) {
  SlurmFlags flags;
  Options options(kSlurmAbout, "gantrain slurm");
  options.add(flags);
  options.app().footer(kFooter);
  const auto given = training_words(options, arguments);
  if (!given) return 0;
  const std::vector<std::string>& words = *given;
  const std::optional<Config> config = planned_config(words, "a batch script");
  if (!config) return 0;
  refuse_flags_of_the_script(*config);
  for (const char* key : {"preset", "recipe"}) {
    if (flags.job.name.empty()) flags.job.name = text_of(config->get(key));
  }
  flags.job.task_per_rank = flags.task_per == "rank";
  flags.job.program = (executable_folder() / "gantrain").string();
  decide_ranks(flags, *config);
  decide_training(flags, *config, words);
  check_training(*config,
                 {.nodes = flags.job.nodes,
                  .ranks_per_node = flags.job.ranks_per_node,
                  .on_gpu = gpu_count(flags.job.gpus_per_node) > 0});
  deliver(flags.request,
          {.what = "script",
           .text = batch_script(flags.job),
           .run_dir = flags.job.run_dir,
           .taker = "sbatch",
           .piped = "sbatch",
           .executable = true});
  return 0;
}

}  // namespace

Verb slurm_verb() {
  const auto describe = [] { return description_of<SlurmFlags>("slurm", kSlurmAbout); };
  return {"slurm", "a batch script that trains, saves, requeues and resumes", describe, run_slurm};
}

}  // namespace gantrain
