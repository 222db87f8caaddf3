// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "launch/where/devices.h"
#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

// The first line of /proc/driver/nvidia/version, of the proprietary and of the open module.
inline std::string closed_module(const std::string& version) {
  return "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + version +
         "  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
}
inline std::string open_module(const std::string& version) {
  return "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version +
         "  Release Build  (dvs-builder@U22-I3-AE18-09-6)  Sun Jul 27 07:02:17 UTC 2025\n";
}

// Folders that look like /dev, /proc and /sys of a machine with NVIDIA's driver.
class FakeMachine {
 public:
  FakeMachine() {
    for (const auto& folder : {roots().dev, roots().proc, roots().sys, roots().lib})
      std::filesystem::create_directories(folder);
    for (const char* other : {"null", "nvidia-uvm", "nvidia-modeset"}) write_file(dev(other), "");
    std::filesystem::create_directories(dev("nvidia-caps"));
  }

  SystemRoots roots() const {
    return {folder_ / "dev", folder_ / "proc", folder_ / "sys", folder_ / "lib"};
  }
  std::filesystem::path dev(const std::string& name) const { return roots().dev / name; }
  void write(const std::filesystem::path& file, const std::string& text) const {
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
  }

  void add_driver(const std::string& line) const {
    write_file(dev("nvidiactl"), "");
    write(roots().proc / "driver/nvidia/version", line);
  }
  // A device file and, with a UUID, what the driver tells of it.
  void add_gpu(int minor, const std::string& uuid = "") const {
    write_file(dev(fmt::format("nvidia{}", minor)), "");
    if (uuid.empty()) return;
    const std::string bus = fmt::format("0000:{:02x}:00.0", 16 + minor);
    write(roots().proc / "driver/nvidia/gpus" / bus / "information",
          fmt::format("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t {}\n"
                      "Bus Type: \t PCIe\nBus Location: \t {}\nDevice Minor: \t {}\n"
                      "GPU Excluded:\t No\n",
                      uuid,
                      bus,
                      minor));
  }
  void add_mig_instance(int minor, int gpu_instance, int compute_instance) const {
    write(roots().proc / fmt::format("driver/nvidia/capabilities/gpu{}/mig/gi{}/ci{}/access",
                                     minor,
                                     gpu_instance,
                                     compute_instance),
          "DeviceFileMinor: 12\n");
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace gantrain
