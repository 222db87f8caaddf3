// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "command/flags.h"
#include "command/jobs.h"
#include "command/options.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "main/verbs.h"
#include "train/train_request.h"
#include "train/training_words.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

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
  field("account", job.account, said("--account,-A"), "account to charge");
  field("qos", job.qos, "quality of service");
  field("nodes", job.nodes, said("--nodes,-N"), between(1, 100000), "nodes (1)");
  rank_fields(o.request, field, "node");
  field("gpus_per_node",
        job.gpus_per_node,
        "GPUs of a node: 8 or TYPE:8 (one per rank; 0 with --device cpu)");
  field("cpus_per_rank", job.cpus_per_rank, between(1, 10000), "CPU cores of a rank (5)");
  field("mem", job.memory, "memory of a node: 64G");
  field("time", job.time, said("--time,-t"), "time limit: minutes, H:MM:SS, D-HH:MM:SS, 36h");
  field("requeues", job.requeues, between(0, 1000000), "restarts of the job at most (20)");
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
  const auto planned = planned_config(words, "a batch script");
  if (!planned) return 0;
  const Config& config = planned->config;
  refuse_flags_of_the_script(config);
  for (const char* key : {"preset", "recipe"}) {
    if (flags.job.name.empty()) flags.job.name = text_of(config.get(key));
  }
  flags.job.task_per_rank = flags.task_per == "rank";
  flags.job.program = (executable_folder() / "gantrain").string();
  const std::string torch = variable(current_environment(), "GANTRAIN_TORCH_LIB");
  if (!torch.empty()) flags.job.torch = fs::absolute(torch).string();
  flags.job.ranks_per_node = ranks_of_node(
      flags.request, config.read<LaunchOptions>(), "--gpus-per-node", flags.job.gpus_per_node);
  decide_training(flags, config, words);
  check_training(config,
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

namespace {

constexpr const char* kKubeAbout =
    "Writes a Job, JobSet or TrainJob for Kubernetes, whose pods, one a node, save when they are "
    "told to end, come again and go on.";

struct KubeFlags {
  PodJob job = {.name = ""};  // the preset's, if none is given
  std::optional<int64_t> gpus;
  JobRequest request;
};

template <class Field>
void fields(KubeFlags& o, Field&& field) {
  PodJob& job = o.job;
  field("kind",
        job.kind,
        Said{.one_of = "job,jobset,trainjob"},
        "job (batch/v1), jobset (JobSet's controller is needed), trainjob (Kubeflow Trainer 2's, "
        "and with it a TrainingRuntime) (job)");
  field("name", job.name, "the job's name; without --run-dir also the folder's (the preset's)");
  field("namespace", job.space, "namespace (that of kubectl)");
  field(
      "nnodes", job.nodes, said("--nnodes,--nodes,-N"), between(1, 100000), "pods, one a node (1)");
  rank_fields(o.request, field, "pod");
  field("gpus", o.gpus, between(0, 1024), "GPUs of a pod (one per rank; 0 with --device cpu)");
  field("cpus_per_rank", job.cpus_per_rank, between(1, 10000), "CPU cores asked for a rank (5)");
  field("mem", job.memory, "memory of a pod: 64Gi");
  field("image", job.image, "image with gantrain as its entry point: REGISTRY/gantrain:cuda");
  field("claim",
        job.claim,
        "PersistentVolumeClaim for the runs, with several pods one that all may write to");
  field("data_claim", job.data_claim, "PersistentVolumeClaim with the pictures, mounted at --data");
  field("shm", job.shm, "size of /dev/shm, which NCCL fills; 0: the container's own 64 MB (1Gi)");
  field("secret",
        job.secret,
        "Secret whose entry \"secret\" several pods know each other by (with --claim a file of the "
        "run folder)");
  field("backoff_limit",
        job.restarts,
        between(0, 1000000),
        "how often all may start again after a failure that another try may mend: exit codes "
        "other than 2 to 5 and 75 (20)");
  field("user", job.user, between(1, 2147483647), "user ID of the pods (1000)");
  output_fields(o.request, field, "manifest");
}

constexpr const char* kKubeFooter =
    "All other flags, and those after --, are those of gantrain train:\n"
    "  gantrain kube --nnodes 2 --gpus 8 --image REGISTRY/gantrain:cuda --claim runs \\\n"
    "    --data-claim photos -o job.yaml -- --preset stylegan2 --data /data";

// What the manifest decides cannot be said by a flag of the training.
void refuse_flags_of_the_pods(const Config& config) {
  refuse_given(config,
               {"launch.nnodes", "launch.node_rank", "launch.master_addr", "launch.master_port"},
               "the pods are told that; leave it out, --nnodes before -- says how many pods");
  const std::string resume = text_of(config.get("run.resume"));
  if (resume != "auto") {
    fail(Exit::kUsage,
         "--resume {}: a pod that comes again would begin there again; leave it out, --run-dir "
         "goes on with its own run{}",
         resume,
         resume == "none" ? "" : ", and --init-from begins with the weights of another one");
  }
}

// Ranks and GPUs of a pod, from the flags of the manifest or those of the training.
void decide_ranks(KubeFlags& flags, const Config& config) {
  PodJob& job = flags.job;
  const auto launch = config.read<LaunchOptions>();
  std::string gpus = flags.gpus ? std::to_string(*flags.gpus) : "";
  job.ranks = ranks_of_node(flags.request, launch, "--gpus", gpus);
  job.gpus = gpu_count(gpus);
  if (launch.device == DeviceKind::kCuda && job.gpus == 0)
    fail(Exit::kUsage, "--gpus 0 with --device cuda: leave one out");
  constexpr int64_t kToEnd = 30;  // seconds that a pod has once the run has saved
  job.grace = static_cast<int64_t>(std::ceil(launch.grace.seconds)) + kToEnd;
}

// The values that a file of --config or this shell's environment gave, which no pod has, as flags.
std::vector<std::string> values_of_elsewhere(const Config& config) {
  const std::vector<std::string> names = preset_names();
  std::vector<std::string> words;
  for (const Key& key : config.schema()) {
    const std::string& origin = config.origin(key.path);
    const std::string value = text_of(config.get(key.path));
    const bool built_in = starts_with(origin, "preset ") &&
                          (origin == "preset " || contains(names, origin.substr(7)));
    if (origin == "default" || built_in || starts_with(origin, "flag ")) continue;
    if (key.path == "preset" && value.empty()) continue;
    const bool is_preset = key.path == "preset";
    words.emplace_back(is_preset ? "--preset" : "--set");
    words.push_back(is_preset ? value : key.path + "=" + value);
  }
  const std::string preset = text_of(config.get("preset"));
  if (preset.empty() && !words.empty())
    words.insert(words.begin(), {"--set", "recipe=" + text_of(config.get("recipe"))});
  return words;
}

// Throws UserError(kUsage) where no volume can be mounted at that folder, which `flag` says.
void check_mount(const std::string& flag, const fs::path& folder, const std::string& better) {
  const std::string first = folder == folder.root_path() ? "" : std::next(folder.begin())->string();
  for (const char* system :
       {"", "bin", "dev", "etc", "lib", "lib64", "opt", "proc", "sbin", "sys", "usr"}) {
    if (first == system) {
      fail(Exit::kUsage,
           "{}: a volume there would hide what the image needs; name a folder such as {}",
           flag,
           better);
    }
  }
  if (folder.string().find(':') != std::string::npos)
    fail(Exit::kUsage, "{}: Kubernetes mounts no volume at a path with a colon", flag);
}

// The folder of the runs in a pod, and where the volume has to be for it.
std::string decide_run_folder(PodJob& job, const Config& config) {
  const auto said = [&](const char* key) { return fs::path(text_of(config.get(key))); };
  const bool own = !said("run.run_dir").empty();
  const bool out = config.given("run.out");
  const fs::path asked =
      own ? said("run.run_dir") : (out ? said("run.out") : fs::path()) / job.name;
  fs::path run = (fs::path(job.mount) / asked).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // "/runs/a/" is "/runs/a"
  const bool below = starts_with(run.string(), job.mount + "/");
  if (asked.is_absolute() || !below) {
    const fs::path folder = run.parent_path();
    job.mount = (folder == folder.root_path() ? run : folder).string();
  }
  check_mount("--run-dir " + asked.string(), job.mount, "/runs/" + job.name);
  return run.string();
}

// Whether the name is that of a file of pictures; a folder may have a dot in its name, too.
bool is_data_file(const fs::path& path) {
  const std::string ending = lower(path.extension().string());
  for (const char* known : {".zip",
                            ".tar",
                            ".tgz",
                            ".gz",
                            ".zst",
                            ".xz",
                            ".bz2",
                            ".npy",
                            ".mdb",
                            ".idx",
                            ".bin",
                            ".h5",
                            ".tfrecord",
                            ".tfrecords"}) {
    if (ending == known) return true;
  }
  return false;
}

// The folder of the pictures in a pod, where a volume has them.
void decide_data_folder(PodJob& job, const Config& config) {
  const std::string data = text_of(config.get("data.path"));
  const bool built_in = starts_with(data, "synth:");
  const fs::path full = (fs::path(job.mount) / data).lexically_normal();
  const bool with_runs = starts_with(full.string() + "/", job.mount + "/");
  if (job.data_claim.empty()) {
    if (!built_in && !with_runs)
      warn(
          "--data {}: the image has to hold it, or --data-claim PVC a volume that is mounted there",
          data);
    return;
  }
  if (built_in || with_runs || full == full.root_path()) {
    fail(Exit::kUsage,
         "--data-claim {}: it is mounted at --data, which is {}; give a folder of its own, such as "
         "--data /data",
         job.data_claim,
         built_in ? data : full.string());
  }
  const bool is_file = is_data_file(full) && full.parent_path() != full.root_path();
  job.data_mount = (is_file ? full.parent_path() : full).string();
  check_mount("--data " + data, job.data_mount, "/data");
  if (full.has_extension()) {
    info("data    --data-claim {} is mounted at {}, since {} is taken for a {}",
         job.data_claim,
         job.data_mount,
         full.string(),
         is_file ? "file" : "folder");
  }
}

// Returns the run folder.
std::string decide_training(PodJob& job,
                            const Config& config,
                            const std::vector<std::string>& words) {
  const std::string run_dir = decide_run_folder(job, config);
  decide_data_folder(job, config);
  job.training = values_of_elsewhere(config);
  job.training.insert(job.training.begin(), "train");
  const std::vector<std::string> here = {"--config", "--config-file", "--resume", "--run-dir"};
  const std::vector<std::string> kept = without_flag(words, here);
  job.training.insert(job.training.end(), kept.begin(), kept.end());
  job.training.insert(job.training.end(), {"--run-dir", run_dir});
  add_ranks(config, job.ranks, job.training);
  return run_dir;
}

// A name made of a preset's or of another word: what no name may have becomes -.
std::string as_name(const std::string& word, size_t longest) {
  std::string name = lower(word).substr(0, longest);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  const size_t begin = name.find_first_not_of("-0123456789");
  const size_t end = name.find_last_not_of('-');
  return begin == std::string::npos ? "gantrain" : name.substr(begin, end + 1 - begin);
}

void decide_names(KubeFlags& flags, const Config& config, bool named) {
  PodJob& job = flags.job;
  for (const char* key : {"preset", "recipe"}) {
    const std::string word = text_of(config.get(key));
    if (!named && job.name.empty() && !word.empty())
      job.name = as_name(word, longest_job_name(job));
  }
  if (job.image.empty())
    job.image = job.gpus > 0 ? "gantrain:cuda" : fmt::format("gantrain:{}", kVersion);
}

// What the manifest does not say, and its pods will miss.
void warn_of_gaps(const PodJob& job, const Config& config, bool has_image) {
  if (!has_image)
    warn("no --image: {}, which the cluster has to know; {} help containers", job.image, program());
  if (job.claim.empty())
    warn("no --claim: the run is lost with its pod, and a pod that comes again begins anew");
  if (text_of(config.get("run.track")).empty()) return;
  std::vector<std::string> variables;
  for (const auto& [name, value] : current_environment()) {
    if (starts_with(name, "MLFLOW_") || starts_with(name, "TRACKIO_") || name == "HF_TOKEN")
      variables.push_back(name);
  }
  if (variables.empty()) return;
  warn(
      "--track: the pods do not see {} of this shell: add them to the container's env, secrets "
      "from a Secret",
      join(variables, ", "));
}

int run_kube(const std::vector<std::string>& arguments) {
  KubeFlags flags;
  PodJob& job = flags.job;
  Options options(kKubeAbout, "gantrain kube");
  options.add(flags);
  options.app().footer(kKubeFooter);
  const auto words = training_words(options, arguments);
  if (!words) return 0;
  if (options.given("--image") && job.image.empty())
    fail(Exit::kUsage, "--image needs a name: REGISTRY/gantrain:cuda");
  const auto planned = planned_config(*words, "a manifest for Kubernetes");
  if (!planned) return 0;
  const Config& config = planned->config;
  refuse_flags_of_the_pods(config);
  decide_ranks(flags, config);
  decide_names(flags, config, options.given("--name"));
  const std::string run_dir = decide_training(job, config, *words);
  const std::string text = manifest(job);
  check_training(config, {.nodes = job.nodes, .ranks_per_node = job.ranks, .on_gpu = job.gpus > 0});
  warn_of_gaps(job, config, options.given("--image"));
  deliver(flags.request,
          {.what = "manifest",
           .text = text,
           .run_dir = run_dir,
           .taker = "kubectl apply -f",
           .piped = "kubectl apply -f -"});
  return 0;
}

}  // namespace

Verb kube_verb() {
  const auto describe = [] { return description_of<KubeFlags>("kube", kKubeAbout); };
  return {"kube",
          "a Job, JobSet or TrainJob for Kubernetes that saves and resumes",
          describe,
          run_kube};
}

}  // namespace gantrain
