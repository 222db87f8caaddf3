// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/options.h"
#include "launch/where/environment.h"

namespace gantrain {

// Folders in which a driver shows itself. Tests give others.
struct SystemRoots {
  std::filesystem::path dev = "/dev";
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path lib = "/usr/lib";  // below it those of Windows' driver, in WSL
};

// What the driver's files tell of one GPU; a text is empty where they do not tell it.
struct GpuDevice {
  int64_t minor = 0;          // its device file is /dev/nvidia<minor>
  std::string model;          // "NVIDIA H100 80GB HBM3"
  std::string uuid;           // "GPU-8932f937-..."
  std::string bus;            // PCI id, "0000:19:00.0"
  int64_t mig_instances = 0;  // MIG compute instances that it is divided into; 0: it is whole
  bool operator==(const GpuDevice&) const = default;
};

struct GpuDriver {
  std::string version;             // of the kernel module, "580.65.06"; "" where it is not known
  std::vector<GpuDevice> devices;  // those that this process may open, by minor number
  int64_t forbidden = 0;           // GPUs whose device files' permissions keep this user out
  bool wsl = false;  // under WSL, which hides how many GPUs there are: devices holds one
};

// Looks at files alone: loads no library, opens no device, takes well under a millisecond. A GPU
// that a container or a batch system has not given to this process does not count, nor does a
// driver without GPUs.
GpuDriver look_at_driver(const SystemRoots& roots = {});

// A version of CUDA; 13.0 is {13, 0}.
struct CudaVersion {
  int64_t major = 0;
  int64_t minor = 0;
  auto operator<=>(const CudaVersion&) const = default;  // NOLINT(modernize-use-nullptr)
  std::string text() const;
};

// What this program's CUDA libraries are made for, and the first driver that has it.
constexpr CudaVersion kNeededCuda{13, 0};
constexpr const char* kNeededDriver = "580.65";

// The newest CUDA that drivers of this version support by themselves; {0, 0} where the version is
// empty, no version or older than the table.
CudaVersion newest_cuda(const std::string& driver_version);

// The newest CUDA that a user-mode driver library supports, by default the one of this process's
// library path; {0, 0} where there is none. It is newer than the kernel module's where NVIDIA's
// forward-compatibility package is installed. Loads the library in a process of its own, so this
// one stays without it.
CudaVersion cuda_of_driver_library(const std::string& library = "libcuda.so.1");

// NVIDIA's forward-compatibility package of kNeededCuda, and the first driver that it is made for.
constexpr const char* kCompatibilityPackage = "cuda-compat-13-0";
constexpr const char* kCompatibleDriver = "535";

// The folder of that package's libraries: the first of its usual places, below $CONDA_PREFIX and
// `local`, whose library supports kNeededCuda; empty where there is none.
std::filesystem::path compatibility_folder(const Env& env,
                                           const std::filesystem::path& local = "/usr/local");

// Whether GPUs cannot be used because the driver is older than kNeededDriver. An unknown version is
// not too old: CUDA itself will say it.
bool is_too_old(const std::string& driver_version);

// The GPUs that CUDA would show this process.
struct VisibleGpus {
  int64_t count = 0;
  std::string note;       // why they are fewer than the machine has, or than were asked for; or ""
  bool mistaken = false;  // none is visible, though GPUs are here and nobody chose to hide them
};

// Finds them without a CUDA library: the driver's GPUs, less what CUDA_VISIBLE_DEVICES hides. That
// variable is read as CUDA reads it and never rewritten: numbers from 0, or UUIDs or their
// beginnings, or names of MIG instances; the first entry that names no device ends the list, and
// CUDA shows no device where one is named twice. Of MIG instances CUDA shows a process one, and no
// whole GPU beside it.
VisibleGpus visible_gpus(const Env& env, const GpuDriver& driver);

// What decides between a CPU and the GPUs.
struct GpuOutlook {
  VisibleGpus visible;
  std::string driver;         // its version; "" where it is not known
  CudaVersion compatibility;  // cuda_of_driver_library(), asked for where the driver is too old
  bool cuda_library = true;   // whether libgantrain_cuda.so was built
  // How this installation gets one.
  std::string way_out = "build it with GANTRAIN_CUDA=ON ./scripts/build.sh release";
};

// Decides between kCpu and kCuda; a pure function. Throws UserError(kEnvironment), with the reason
// and the way out, if cuda is asked for and no GPU is visible, and if GPUs are visible which cannot
// be used: then only a user who asks for it gets a CPU.
DeviceKind decide_device(DeviceKind wanted, const GpuOutlook& outlook);

// Throws UserError(kEnvironment) if a launcher would start more ranks on this node than there are
// visible GPUs, or if this worker has none to compute on.
void check_ranks_have_gpus(const World& world, const VisibleGpus& visible);

// The index, among the visible GPUs, of the one that a rank computes on: the only one, or else the
// one whose index is the local rank. Throws UserError(kEnvironment) with both numbers if there is
// none for this rank.
int64_t choose_device(int64_t visible, const RankInfo& ranks);

// The number of threads of a rank: --threads; without it the user's OMP_NUM_THREADS; without that
// the cores of the affinity mask divided by the ranks of this node, at least 1.
int64_t threads_per_rank(const LaunchOptions& options, const Env& env, int64_t local_world_size);

// Whether this CPU has the vector instructions (AVX2, FMA) that kernels and LibTorch are fast with;
// true on processors of another family.
bool has_fast_vectors();

// What a CPU without them means for a run, in one line; "" for one that has them.
std::string slow_cpu_text(bool fast_vectors);

// How the threads that LibTorch computes with (GNU OpenMP's) wait for work. A step of a small
// network has a thousand short operators: a thread that sleeps between them costs more than it
// helps (stylegan2-tiny, two threads: 8.7 s/kimg; spinning 4.8, one thread 6.4). As the library's
// threads come they spin for some 10 ms; beside other busy programs they then take the very cores
// that the rest of their own team needs. So ours spin shortly, and use_threads() of core/parallel.h
// watches whether the machine is busy.
struct IdleThreads {
  Env variables;     // to be set before LibTorch is loaded; empty where the user has set his own
  std::string text;  // for the dry run: "idle threads spin for some 0.1 ms and sleep then, ..."
};

// Decides from the environment and the machine's number of cores: a user's OMP_WAIT_POLICY or
// GOMP_SPINCOUNT is obeyed.
IdleThreads idle_threads(const Env& env, int64_t cores);

// Sets what LibTorch reads from this process's environment once, when it is loaded: the variables
// of idle_threads(), and, unless the user says more, that c10d does not log what it also throws.
void set_variables_of_libtorch();

}  // namespace gantrain
