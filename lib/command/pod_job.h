// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantrain {

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
