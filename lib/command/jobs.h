// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gantrain {

// A training as a job of Slurm. Texts that are empty leave the choice to the cluster.
struct BatchJob {
  std::string name = "gantrain";
  std::string partition;
  std::string account;
  std::string qos;
  std::string time;    // "30" (minutes), "2:30:00", "1-12", "36h", "UNLIMITED"
  std::string memory;  // of a node: "64G"
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t cpus_per_rank = 5;
  std::string gpus_per_node;          // "8", "a100:8"; empty or "0": none
  bool task_per_rank = false;         // srun starts every rank, not one launcher a node
  int64_t requeues = 20;              // how often the job may start again
  std::vector<std::string> sbatch;    // more flags of sbatch, each a word
  std::vector<std::string> srun;      // more flags of srun, each a word
  std::string program = "gantrain";   // path of gantrain on the cluster
  std::string torch;                  // PyTorch's libraries that it is told of; empty: none
  std::vector<std::string> training;  // its arguments, with --run-dir, without --resume
  std::string run_dir;                // the folder that --run-dir names
  std::string resume = "auto";        // what --resume is to say as long as run_dir has no state
};

// Returns the number of GPUs that "8" or "a100:8" asks for on each node, 0 for "". Throws
// UserError(kUsage) for other texts.
int64_t gpu_count(const std::string& gpus_per_node);

// Returns the seconds of a time limit, or nothing if there is none. Throws UserError(kUsage) if the
// text is neither one of Slurm's forms nor a duration.
std::optional<int64_t> time_limit(const std::string& text);

// Returns the text of a batch script for sbatch. In the job, srun starts gantrain on every node.
// Slurm announces the end of the allocation with SIGUSR1, five minutes or a quarter of the time
// limit before; gantrain then saves and ends with 75, and the script puts the job back into the
// queue, up to `requeues` times. The new start goes on in the same run folder. So it does with 6, a
// rank that died, if the run has a newer state than before. All other exit codes of gantrain become
// those of the job. Throws UserError(kUsage) that names the flag whose value
// Slurm could not read.
std::string batch_script(const BatchJob& job);

// A training as pods of Kubernetes, one a node. Texts that are empty leave the choice to the
// cluster.
struct PodJob {
  std::string kind = "job";  // "job", "jobset" or "trainjob"
  std::string name = "gantrain";
  std::string space;  // namespace
  std::string image;
  int64_t nodes = 1;
  int64_t ranks = 1;  // of a pod
  int64_t gpus = 0;   // of a pod
  int64_t cpus_per_rank = 5;
  std::string memory;                 // of a pod: "64Gi"
  std::string shm = "1Gi";            // size of /dev/shm; "0": what the container has
  int64_t grace = 60;                 // seconds from the stop signal to the end of a pod
  int64_t restarts = 20;              // of all, after a failure that another try may mend
  int64_t user = 1000;                // that the pods run as
  std::string secret;                 // a Secret by whose entry "secret" the pods know each other
  std::string claim;                  // the PersistentVolumeClaim of the runs; empty: none
  std::string mount = "/runs";        // where it is mounted
  std::string data_claim;             // that of the pictures; empty: none
  std::string data_mount;             // where it is mounted
  std::vector<std::string> training;  // the arguments of gantrain, with --run-dir
};

// Returns how long a job's name may be: the names of its pods may have 63 letters.
size_t longest_job_name(const PodJob& job);

// Returns the objects that `kubectl apply` takes, in YAML:
//   job       a Job of batch/v1; with several nodes also a headless Service, which gives the pods
//             their names
//   jobset    a JobSet of jobset.x-k8s.io/v1alpha2
//   trainjob  a TrainJob of trainer.kubeflow.org/v1alpha1 and the TrainingRuntime that it names
// A pod that ends with 75 or is disrupted comes again and is not counted; one that ends with 2 to 5
// ends the job; after other codes all pods may start again `restarts` times. Several pods that
// share neither a volume nor a secret get a Secret made of random numbers. Throws
// UserError(kUsage) that names the flag whose value Kubernetes would refuse.
std::string manifest(const PodJob& job);

}  // namespace gantrain
