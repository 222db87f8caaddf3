// SPDX-License-Identifier: Apache-2.0
#include "launch/gpu_driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Releases of NVIDIA's driver by branch, and the CUDA that came with each.
struct Branch {
  int64_t first;  // driver's major version
  CudaVersion cuda;
};
constexpr Branch kBranches[] = {
    {450, {11, 0}}, {455, {11, 1}}, {460, {11, 2}}, {465, {11, 3}}, {470, {11, 4}}, {495, {11, 5}},
    {510, {11, 6}}, {515, {11, 7}}, {520, {11, 8}}, {525, {12, 0}}, {530, {12, 1}}, {535, {12, 2}},
    {545, {12, 3}}, {550, {12, 4}}, {555, {12, 5}}, {560, {12, 6}}, {565, {12, 7}}, {570, {12, 8}},
    {575, {12, 9}}, {580, {13, 0}}, {590, {13, 1}}};

std::string first_line(const fs::path& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line;
}

// The numbers of "550.54.15"; empty for a word that is no version.
std::vector<int64_t> version_numbers(std::string_view word) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split(word, '.')) {
    const auto number = parse_int(part);
    if (!number || *number < 0) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

// The first word that is a version. The line of /proc is "NVRM version: NVIDIA UNIX x86_64 Kernel
// Module  550.54.15  Tue Mar  5 ..." or "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
// 580.65.06  Release Build  (dvs-builder@U16-...)  ...".
std::string version_in(const std::string& line) {
  for (const std::string& part : split(line, ' ')) {
    const std::string word = trim(part);
    if (version_numbers(word).size() >= 2) return word;
  }
  return "";
}

// "Key: \t value" lines.
std::map<std::string, std::string> read_information(const fs::path& file) {
  std::map<std::string, std::string> values;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos)
      values[trim(line.substr(0, colon))] = trim(line.substr(colon + 1));
  }
  return values;
}

// Fills in what /proc/driver/nvidia/gpus/<PCI id>/information tells of the devices.
void describe(std::vector<GpuDevice>& devices, const fs::path& proc) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(proc / "driver/nvidia/gpus", none)) {
    auto values = read_information(entry.path() / "information");
    const auto minor = parse_int(values["Device Minor"]);
    for (GpuDevice& device : devices) {
      if (minor != device.minor) continue;
      device.model = values["Model"];
      device.bus = values["Bus Location"];
      // Question marks stand there until the GPU was used for the first time.
      if (values["GPU UUID"].find('?') == std::string::npos) device.uuid = values["GPU UUID"];
    }
  }
}

// Entries of a folder that are a prefix and a number: "gi7", "ci0".
std::vector<fs::path> numbered(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, prefix) && parse_int(name.substr(prefix.size())).value_or(-1) >= 0)
      found.push_back(entry.path());
  }
  return found;
}

// A compute instance has a folder gpu<minor>/mig/gi<i>/ci<j>.
int64_t mig_instances(const fs::path& proc, int64_t minor) {
  int64_t count = 0;
  const std::string gpu = "gpu" + std::to_string(minor);
  const fs::path mig = proc / "driver/nvidia/capabilities" / gpu / "mig";
  for (const fs::path& gpu_instance : numbered(mig, "gi"))
    count += static_cast<int64_t>(numbered(gpu_instance, "ci").size());
  return count;
}

// A device cgroup (of a batch system) answers EPERM: such a GPU is another job's and does not
// exist here. File permissions answer EACCES.
void look_at_devices(GpuDriver& driver, const SystemRoots& roots) {
  for (const fs::path& file : numbered(roots.dev, "nvidia")) {
    if (faccessat(AT_FDCWD, file.c_str(), R_OK | W_OK, AT_EACCESS) != 0) {
      if (errno == EACCES) ++driver.forbidden;
      continue;
    }
    GpuDevice device;
    device.minor = parse_int(file.filename().string().substr(std::strlen("nvidia"))).value_or(0);
    device.mig_instances = mig_instances(roots.proc, device.minor);
    driver.devices.push_back(device);
  }
  std::sort(driver.devices.begin(),
            driver.devices.end(),
            [](const GpuDevice& a, const GpuDevice& b) { return a.minor < b.minor; });
  describe(driver.devices, roots.proc);
}

}  // namespace

GpuDriver look_at_driver(const SystemRoots& roots) {
  GpuDriver driver;
  driver.version = version_in(first_line(roots.proc / "driver/nvidia/version"));
  if (driver.version.empty())
    driver.version = version_in(first_line(roots.sys / "module/nvidia/version"));
  std::error_code none;
  if (fs::exists(roots.dev / "nvidiactl", none)) {
    look_at_devices(driver, roots);
  } else if (fs::exists(roots.dev / "dxg", none) && fs::exists(roots.wsl / "libcuda.so.1", none)) {
    driver.wsl = true;
    driver.devices.emplace_back();
  }
  return driver;
}

std::string CudaVersion::text() const { return fmt::format("{}.{}", major, minor); }

CudaVersion newest_cuda(const std::string& driver_version) {
  const std::vector<int64_t> numbers = version_numbers(driver_version);
  CudaVersion newest;
  if (numbers.size() < 2) return newest;
  for (const Branch& branch : kBranches) {
    if (numbers[0] >= branch.first) newest = branch.cuda;
  }
  return newest;
}

bool is_too_old(const std::string& driver_version) {
  const std::vector<int64_t> have = version_numbers(driver_version);
  return have.size() >= 2 && have < version_numbers(kNeededDriver);
}

CudaVersion cuda_of_driver_library() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    int version = 0;
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    using GetVersion = int (*)(int*);
    auto* get = library == nullptr
                    ? nullptr
                    : reinterpret_cast<GetVersion>(dlsym(library, "cuDriverGetVersion"));
    if (get != nullptr && get(&version) != 0) version = 0;
    _exit(write(ends[1], &version, sizeof version) == sizeof version ? 0 : 1);
  }
  close(ends[1]);
  int version = 0;
  if (child < 0 || read(ends[0], &version, sizeof version) != sizeof version) version = 0;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return {version / 1000, version % 1000 / 10};  // 13000 is 13.0
}

}  // namespace gantrain
