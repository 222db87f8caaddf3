// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gantrain {

// Folders in which a driver shows itself. Tests give others.
struct SystemRoots {
  std::filesystem::path dev = "/dev";
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path wsl = "/usr/lib/wsl/lib";  // libraries of Windows' driver, in WSL
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

// The newest CUDA that the user-mode driver library (libcuda.so.1) of this process's library path
// supports; {0, 0} where there is none. It is newer than the kernel module's where NVIDIA's
// forward-compatibility package is installed. Loads the library in a process of its own, so this
// one stays without it.
CudaVersion cuda_of_driver_library();

// Whether GPUs cannot be used because the driver is older than kNeededDriver. An unknown version is
// not too old: CUDA itself will say it.
bool is_too_old(const std::string& driver_version);

}  // namespace gantrain
