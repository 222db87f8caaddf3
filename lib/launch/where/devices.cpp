// SPDX-License-Identifier: Apache-2.0
#include "launch/where/devices.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "util/error.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

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

// Fills in what /proc/driver/nvidia/gpus/<PCI id>/information tells of the devices.
void describe(std::vector<GpuDevice>& devices, const fs::path& proc) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(proc / "driver/nvidia/gpus", none)) {
    const std::string file = entry.path() / "information";
    const auto minor = parse_int(proc_value(file, "Device Minor"));
    for (GpuDevice& device : devices) {
      if (minor != device.minor) continue;
      device.model = proc_value(file, "Model");
      device.bus = proc_value(file, "Bus Location");
      device.uuid = proc_value(file, "GPU UUID");
      // Question marks stand there until the GPU was used for the first time.
      if (device.uuid.find('?') != std::string::npos) device.uuid.clear();
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
  std::ranges::sort(driver.devices, {}, &GpuDevice::minor);
  describe(driver.devices, roots.proc);
}

// Whether one of the folders below, of those whose names begin and end so, holds the library.
bool is_below(const fs::path& folder,
              std::string_view begin,
              std::string_view end,
              const char* library) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!starts_with(name, begin) || !ends_with(name, end)) continue;
    if (fs::exists(entry.path() / library, none)) return true;
  }
  return false;
}

// Whether the library of Windows' driver is here: where WSL has it, or where containers in WSL are
// given it, by Docker's NVIDIA runtime or by CDI. scripts/setup_cuda.sh has the same list.
bool has_windows_driver(const fs::path& lib) {
  std::error_code none;
  return fs::exists(lib / "wsl/lib/libcuda.so.1", none) ||
         is_below(lib, "", "-linux-gnu", "libcuda.so.1") ||
         is_below(lib / "wsl/drivers", "nv", "", "libcuda.so.1.1");
}

constexpr const char* kMask = "CUDA_VISIBLE_DEVICES";
constexpr const char* kOneInstance = "CUDA shows a process one MIG instance";

bool is_mig_name(const std::string& id) { return starts_with(id, "MIG-"); }
bool is_uuid(const std::string& id) { return starts_with(id, "GPU-"); }

// The number that an entry begins with: CUDA reads "1st" as 1.
std::optional<int64_t> leading_number(const std::string& id) {
  size_t digits = 0;
  while (digits < id.size() && std::isdigit(static_cast<unsigned char>(id[digits])) != 0) ++digits;
  return parse_int(id.substr(0, digits));
}

// A list that is meant to hide every GPU: "", "-1", "NoDevFiles" (Slurm), "none", "void" (container
// runtimes).
bool hides_all(const std::string& mask) {
  const std::string first = trim(split(mask, ',').front());
  return trim(mask).empty() || starts_with(first, "-") || first == "NoDevFiles" ||
         first == "none" || first == "void";
}

// What one entry of the list names: `identity` is equal for two entries that name one device.
struct Named {
  std::string identity;
  int64_t mig_instances = 0;
};

std::optional<Named> named_by_number(const std::string& id, const GpuDriver& driver) {
  const auto index = leading_number(id);
  if (!index) return {};
  if (driver.wsl) return Named{std::to_string(*index)};  // nobody knows how many there are
  if (*index >= static_cast<int64_t>(driver.devices.size())) return {};
  const GpuDevice& device = driver.devices[static_cast<size_t>(*index)];
  return Named{std::to_string(device.minor), device.mig_instances};
}

// Any beginning of a UUID that fits one GPU alone names it. Where the driver does not tell all
// UUIDs, what is written is believed.
std::optional<Named> named_by_uuid(const std::string& id, const GpuDriver& driver) {
  std::optional<Named> found;
  for (const GpuDevice& device : driver.devices) {
    if (device.uuid.empty()) return Named{lower(id)};
    if (!starts_with(lower(device.uuid), lower(id))) continue;
    if (found) return {};
    found = Named{std::to_string(device.minor), device.mig_instances};
  }
  return found;
}

struct Mask {
  int64_t devices = 0;
  int64_t mig_instances = 0;  // of all devices that are named
  bool twice = false;
  std::string end;  // the entry that names no device, if any
};

// The first entry decides whether the list holds numbers, UUIDs or MIG instances; one of another
// kind ends it.
Mask read_mask(const std::string& mask, const GpuDriver& driver) {
  Mask result;
  std::set<std::string> seen;
  const std::string first = trim(split(mask, ',').front());
  for (const std::string& part : split(mask, ',')) {
    const std::string id = trim(part);
    std::optional<Named> named;
    if (is_mig_name(first)) {
      if (is_mig_name(id)) named = Named{lower(id), 1};
    } else if (is_uuid(first)) {
      if (is_uuid(id)) named = named_by_uuid(id, driver);
    } else {
      named = named_by_number(id, driver);
    }
    if (!named) {
      result.end = id.empty() ? "an empty entry" : id;
      break;
    }
    if (!seen.insert(named->identity).second) result.twice = true;
    result.mig_instances += named->mig_instances;
    ++result.devices;
  }
  return result;
}

// How CUDA counts `gpus` devices that hold that many MIG instances.
VisibleGpus shown(int64_t gpus, int64_t mig_instances, const std::string& note) {
  if (mig_instances == 0) return {gpus, note, false};
  if (gpus == 1 && mig_instances == 1) return {1, note, false};
  return {1, fmt::format("{}, of {} here", kOneInstance, mig_instances), false};
}

VisibleGpus masked(const std::string& mask, const GpuDriver& driver) {
  const auto machine = static_cast<int64_t>(driver.devices.size());
  const std::string text = fmt::format("{}={}", kMask, mask);
  if (hides_all(mask)) return {0, text + " hides every GPU", false};
  const Mask read = read_mask(mask, driver);
  if (read.twice)
    return {0, text + " names a device twice, for which CUDA shows none at all", true};
  if (read.devices == 0) {
    return {0,
            fmt::format("{}: {} names none of this machine's {} (numbers start at 0)",
                        text,
                        read.end,
                        counted(machine, "GPU")),
            true};
  }
  std::string note;
  if (!read.end.empty())
    note = fmt::format("{}: {} names no device, which ends the list", text, read.end);
  else if (read.devices < machine)
    note = fmt::format("{} hides {} of {}", text, machine - read.devices, counted(machine, "GPU"));
  // UUIDs may have been believed; only under WSL does nobody know how many GPUs there are.
  const int64_t gpus = driver.wsl ? read.devices : std::min(read.devices, machine);
  return shown(gpus, read.mig_instances, note);
}

// What follows "GPUs are visible" where they are too few: " (reason)".
std::string in_brackets(const std::string& note) { return note.empty() ? "" : " (" + note + ")"; }

[[noreturn]] void refuse_old_driver(const GpuOutlook& outlook) {
  fail(Exit::kEnvironment,
       "{} here, but the NVIDIA driver {} supports CUDA up to {}, and this program is made for "
       "CUDA {}: install driver {} or newer or, on data-centre GPUs with driver {} or newer, "
       "NVIDIA's package {} (gantrain help gpus), or use --device cpu",
       counted(outlook.visible.count, "GPU"),
       outlook.driver,
       newest_cuda(outlook.driver).text(),
       kNeededCuda.text(),
       kNeededDriver,
       kCompatibleDriver,
       kCompatibilityPackage);
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
  } else if (fs::exists(roots.dev / "dxg", none) && has_windows_driver(roots.lib)) {
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

CudaVersion cuda_of_driver_library(const std::string& name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    int version = 0;
    void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
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

fs::path compatibility_folder(const Env& env, const fs::path& local) {
  std::vector<fs::path> places;
  const std::string conda = variable(env, "CONDA_PREFIX");
  if (!conda.empty()) places.push_back(fs::path(conda) / "cuda-compat");
  // The second is that of NVIDIA's own container images.
  for (const char* place : {"cuda/compat", "cuda/compat/lib"}) places.push_back(local / place);
  const std::string toolkit = fmt::format("cuda-{}.", kNeededCuda.major);
  for (const fs::path& folder : numbered(local, toolkit)) places.push_back(folder / "compat");
  std::error_code none;
  for (const fs::path& place : places) {
    const fs::path library = place / "libcuda.so.1";
    if (fs::exists(library, none) && cuda_of_driver_library(library) >= kNeededCuda) return place;
  }
  return {};
}

VisibleGpus visible_gpus(const Env& env, const GpuDriver& driver) {
  if (driver.devices.empty()) {
    if (driver.forbidden == 0) return {};
    return {0,
            fmt::format("{} here, but this user may not open /dev/nvidia*: join the group that may",
                        counted(driver.forbidden, "GPU")),
            true};
  }
  const auto mask = env.find(kMask);
  if (mask != env.end()) return masked(mask->second, driver);
  int64_t instances = 0;
  for (const GpuDevice& device : driver.devices) instances += device.mig_instances;
  return shown(static_cast<int64_t>(driver.devices.size()), instances, "");
}

DeviceKind decide_device(DeviceKind wanted, const GpuOutlook& outlook) {
  const VisibleGpus& visible = outlook.visible;
  if (wanted == DeviceKind::kCpu) return DeviceKind::kCpu;
  if (visible.count == 0) {
    if (wanted == DeviceKind::kAuto && !visible.mistaken) return DeviceKind::kCpu;
    fail(Exit::kEnvironment,
         "{}no GPU is visible{}: {}, or use --device cpu",
         wanted == DeviceKind::kCuda ? "--device cuda, but " : "",
         in_brackets(visible.note.empty() ? "no NVIDIA driver with a GPU" : visible.note),
         visible.note.empty() ? "run where a GPU is" : "change that");
  }
  if (is_too_old(outlook.driver) && outlook.compatibility < kNeededCuda) refuse_old_driver(outlook);
  if (!outlook.cuda_library) {
    fail(
        Exit::kEnvironment,
        "{} visible, but this build has no CUDA library (libgantrain_cuda.so): {}, or use --device "
        "cpu",
        counted(visible.count, "GPU") + (visible.count == 1 ? " is" : " are"),
        outlook.way_out);
  }
  return DeviceKind::kCuda;
}

void check_ranks_have_gpus(const World& world, const VisibleGpus& visible) {
  if (world.role == World::Role::kWorker) {
    choose_device(visible.count, world.ranks);
    return;
  }
  if (world.ranks.local_world <= visible.count) return;
  fail(Exit::kEnvironment,
       "{} on this node, but {}{}: use --nproc {}, or --device cpu",
       counted(world.ranks.local_world, "rank"),
       counted(visible.count, "visible GPU"),
       in_brackets(visible.note),
       visible.count);
}

int64_t choose_device(int64_t visible, const RankInfo& ranks) {
  if (visible == 1) return 0;
  if (ranks.local_rank >= 0 && ranks.local_rank < visible) return ranks.local_rank;
  fail(
      Exit::kEnvironment,
      "local rank {} of {} has no GPU of its own: {} visible; start as many ranks per node as GPUs",
      ranks.local_rank,
      ranks.local_world,
      visible);
}

int64_t threads_per_rank(const LaunchOptions& options, const Env& env, int64_t local_world_size) {
  if (options.threads) return *options.threads;
  const std::string said = split(variable(env, "OMP_NUM_THREADS"), ',').front();
  const int64_t user = parse_int(trim(said)).value_or(0);
  if (user >= 1) return user;
  return std::max<int64_t>(usable_cores() / std::max<int64_t>(local_world_size, 1), 1);
}

bool has_fast_vectors() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

std::string slow_cpu_text(bool fast_vectors) {
  if (fast_vectors) return "";
  return "cpu     this processor has no AVX2: gantrain runs, but slower";
}

IdleThreads idle_threads(const Env& env, int64_t cores) {
  // The watch needs a sleeping thread for each core and each rank.
  constexpr int64_t kMostWatchedCores = 32;
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    const auto said = env.find(name);
    if (said == env.end() || said->second.empty()) continue;
    return {{}, std::string("idle threads wait as ") + name + "=" + said->second + " says"};
  }
  if (cores > kMostWatchedCores) {
    return {{{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "1000"}},
            "idle threads spin for about 20 us, then sleep (OMP_WAIT_POLICY overrides this)"};
  }
  return {
      {{"OMP_WAIT_POLICY", "active"}, {"GOMP_SPINCOUNT", "8000"}, {"GANTRAIN_WATCH_THREADS", "1"}},
      "idle threads spin for about 0.1 ms, then sleep; they sleep at once while other programs "
      "compute (OMP_WAIT_POLICY overrides this)"};
}

void set_variables_of_libtorch() {
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  for (const auto& [name, value] : idle_threads(current_environment(), usable_cores()).variables)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
}

}  // namespace gantrain
