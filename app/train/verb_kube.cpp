// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "command/flags.h"
#include "command/options.h"
#include "command/pod_job.h"
#include "launch/options.h"
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

constexpr const char* kKubeAbout =
    "Writes a Job, JobSet or TrainJob for Kubernetes, whose pods, one a node, save when they are "
    "told to end, come again and go on.";

struct KubeFlags {
  PodJob job = {.name = ""};  // the preset's, if none is given
  std::optional<int64_t> nproc;
  std::optional<int64_t> gpus;
  std::string output;
  bool json = false;
  bool quiet = false;
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
  field("nproc",
        o.nproc,
        said("--nproc,--nproc-per-node"),
        between(1, 10000),
        "ranks per pod (the GPUs, else 1)");
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
  field("user", job.user, between(1, 2147483647), "number of the user that the pods run as (1000)");
  field("output", o.output, said("-o,--output"), "file to write instead of standard output");
  field("json", o.json, "one JSON line: the manifest, its run folder and its file");
  field("quiet", o.quiet, said("-q,--quiet"), "do not say what can be run next");
}

constexpr const char* kKubeFooter =
    "All other flags, and those after --, are those of gantrain train:\n"
    "  gantrain kube --nnodes 2 --gpus 8 --image REGISTRY/gantrain:cuda --claim runs \\\n"
    "    --data-claim photos -o job.yaml -- --preset stylegan2 --data /data";

// What the manifest decides cannot be said by a flag of the training.
void refuse_flags_of_the_pods(const Config& config) {
  for (const char* key :
       {"launch.nnodes", "launch.node_rank", "launch.master_addr", "launch.master_port"}) {
    if (config.given(key))
      fail(Exit::kUsage,
           "{}: the pods are told that; leave it out, --nnodes before -- says how many pods",
           flag_of(key));
  }
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
  if (flags.nproc && launch.nproc && *flags.nproc != *launch.nproc)
    fail(Exit::kUsage, "--nproc {} and --nproc {}: which?", *flags.nproc, *launch.nproc);
  const std::optional<int64_t> nproc = flags.nproc ? flags.nproc : launch.nproc;
  const bool cpu = launch.device == DeviceKind::kCpu;
  job.gpus = flags.gpus.value_or(cpu ? 0 : nproc.value_or(1));
  if (cpu && job.gpus > 0)
    fail(Exit::kUsage, "--gpus {} with --device cpu: leave one out", job.gpus);
  if (launch.device == DeviceKind::kCuda && job.gpus == 0)
    fail(Exit::kUsage, "--gpus 0 with --device cuda: leave one out");
  job.ranks = nproc.value_or(std::max<int64_t>(job.gpus, 1));
  if (job.gpus > 0 && job.ranks > job.gpus) {
    fail(Exit::kUsage,
         "--nproc {} with --gpus {}: each rank needs a GPU of its own",
         job.ranks,
         job.gpus);
  }
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
                          (origin == "preset " || std::ranges::count(names, origin.substr(7)) > 0);
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

// The folder of the runs in a pod, and where the volume has to be for it.
std::string decide_run_folder(PodJob& job, const Config& config) {
  const auto said = [&](const char* key) { return fs::path(text_of(config.get(key))); };
  const bool own = !said("run.run_dir").empty();
  const bool out = config.given("run.out");
  fs::path run = own ? said("run.run_dir") : (out ? said("run.out") : fs::path()) / job.name;
  if (run.is_absolute()) {
    run = run.lexically_normal();
    const fs::path folder = run.parent_path();
    job.mount = (folder == folder.root_path() ? run : folder).string();
  }
  const fs::path full = (job.mount / run).lexically_normal();
  const std::string first = full.begin() == full.end() ? "" : std::next(full.begin())->string();
  for (const char* system :
       {"", "bin", "dev", "etc", "lib", "lib64", "opt", "proc", "sbin", "sys", "usr"}) {
    if (first == system)
      fail(Exit::kUsage,
           "--run-dir {}: a volume there would hide what the image needs; name a folder such as "
           "/runs/{}",
           run.string(),
           job.name);
  }
  return full.string();
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
  const bool is_file = full.has_extension() && full.parent_path() != full.root_path();
  job.data_mount = (is_file ? full.parent_path() : full).string();
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
  const bool said = config.origin("launch.nproc").find("--nproc") != std::string::npos;
  if (!said) job.training.insert(job.training.end(), {"--nproc", std::to_string(job.ranks)});
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
  if (!job.image.empty()) return;
  job.image = job.gpus > 0 ? "gantrain:cuda" : fmt::format("gantrain:{}", kVersion);
  warn("no --image: {}, which the cluster has to know; {} help containers", job.image, program());
}

void deliver(const KubeFlags& flags, const std::string& text, const std::string& run_dir) {
  const std::string& file = flags.output;
  if (!file.empty()) {
    if (fs::is_directory(file)) fail(Exit::kUsage, "-o {}: a folder; name a file", file);
    check_folder_of("-o", file);
    write_file(file, text);
  }
  if (flags.json) {
    fmt::print("{}\n", Json{{"manifest", text}, {"run_dir", run_dir}, {"file", file}}.dump());
  } else if (file.empty()) {
    fmt::print("{}", text);
  }
  if (flags.quiet) return;
  info("next    {}",
       file.empty() ? command_line() + " | kubectl apply -f -"
                    : "kubectl apply -f " + shell_quote(file));
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
  const std::optional<Config> config = planned_config(*words, "a manifest for Kubernetes");
  if (!config) return 0;
  refuse_flags_of_the_pods(*config);
  decide_ranks(flags, *config);
  decide_names(flags, *config, options.given("--name"));
  const std::string run_dir = decide_training(job, *config, *words);
  const std::string text = manifest(job);
  check_training(*config,
                 {.nodes = job.nodes, .ranks_per_node = job.ranks, .on_gpu = job.gpus > 0});
  if (job.claim.empty())
    warn("no --claim: the run is lost with its pod, and a pod that comes again begins anew");
  deliver(flags, text, run_dir);
  return 0;
}

}  // namespace

Verb kube_verb() {
  const auto describe = [] { return description_of<KubeFlags>("kube", kKubeAbout); };
  return {"kube",
          "a Job, JobSet or TrainJob for Kubernetes that saves and goes on",
          describe,
          run_kube};
}

}  // namespace gantrain
