// SPDX-License-Identifier: Apache-2.0
#include "inspect/machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "distributed/options.h"
#include "launch/where/environment.h"
#include "launch/where/network.h"
#include "ops/gpu/library_info.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What `gantrain doctor` finds out about the CUDA library and those that it needs.
struct CudaProbe {
  bool built = false;
  std::vector<std::string> missing;  // libraries that the loader does not find
  std::string error;                 // why the CUDA library cannot be loaded; "" where it can
  // Where it can, "architectures" ("sm_80 sm_90") and, of ops/gpu/library_info.h, "versions" (name
  // -> text) and, where a GPU is visible, "devices".
  Json found = Json::object();
};

constexpr double kSeconds = 120;
// The loader's place is part of the ABI.
#if defined(__aarch64__)
constexpr const char* kLoader = "/lib/ld-linux-aarch64.so.1";
#else
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
#endif

struct ChildEnd {
  std::string output;
  std::string trouble;  // "" for a child that ended by itself with status 0
};

std::string trouble_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("it died of signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("it ended with status {}", WEXITSTATUS(status));
  return "";
}

// Runs `body` in a child, which writes to the descriptor that it is given.
ChildEnd run_child(const std::function<void(int)>& body) {
  Pipe pipe = make_pipe();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return {"", "no process could be started: " + errno_text()};
  if (child == 0) {
    body(pipe.write.get());
    _exit(0);
  }
  pipe.write.close();
  ChildEnd end;
  const double limit = monotonic_seconds() + kSeconds;
  char buffer[4096];
  for (;;) {
    pollfd file{pipe.read.get(), POLLIN, 0};
    const double left = limit - monotonic_seconds();
    if (left <= 0 || poll(&file, 1, static_cast<int>(left * 1e3) + 1) == 0) {
      signal_process(child, SIGKILL);
      end.trouble = fmt::format("no answer in {} seconds", kSeconds);
      break;
    }
    const ssize_t count = read(pipe.read.get(), buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) end.output.append(buffer, static_cast<size_t>(count));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (end.trouble.empty()) end.trouble = trouble_of(status);
  return end;
}

void silence_standard_error() {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDERR_FILENO);
}

// The loader's own list, as ldd prints it: "\tlibcublas.so.13 => not found". (With --list instead
// of the variable it ends at the first that is missing.)
std::vector<std::string> missing_libraries(const std::string& library) {
  const ChildEnd end = run_child([&](int out) {
    dup2(out, STDOUT_FILENO);
    silence_standard_error();
    setenv("LD_TRACE_LOADED_OBJECTS", "1", /*overwrite=*/1);
    execl(kLoader, kLoader, library.c_str(), nullptr);
    _exit(127);
  });
  std::vector<std::string> missing;
  for (const std::string& line : split(end.output, '\n')) {
    if (line.find("=> not found") != std::string::npos)
      missing.push_back(trim(line.substr(0, line.find("=>"))));
  }
  return missing;
}

std::string call_text(void* library, const char* name) {
  const auto function = reinterpret_cast<CudaLibraryText>(dlsym(library, name));
  return function == nullptr ? "" : function();
}

// Runs in the child.
Json load(const std::string& path, bool with_devices) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {{"error", dlerror()}};
  Json found = {{"architectures", call_text(library, kCudaArchitectures)}};
  const auto add = [&](const char* key, const char* function) {
    const Json parsed = Json::parse(call_text(library, function), nullptr, false);
    if (!parsed.is_discarded()) found[key] = parsed;
  };
  add("versions", kCudaVersions);
  if (with_devices) add("devices", kCudaDevices);
  return found;
}

// Loads the library in a process of its own, so that a failure, a crash or a driver that answers
// nothing does no harm to this one. Takes seconds where the libraries are not in the disk's cache.
// CUDA is started only `with_devices`.
CudaProbe probe_cuda_library(const std::string& path, bool with_devices) {
  CudaProbe probe;
  probe.built = !path.empty();
  if (!probe.built) return probe;
  probe.missing = missing_libraries(path);
  const ChildEnd end = run_child([&](int out) {
    silence_standard_error();
    write_whole(out, load(path, with_devices).dump());
    _exit(0);  // without the destructors of libraries
  });
  const Json found = Json::parse(end.output, nullptr, false);
  if (found.is_discarded()) {
    probe.error = end.trouble.empty() ? "it gave no answer" : end.trouble;
  } else {
    probe.error = found.value("error", "");
    probe.found = found;
  }
  return probe;
}

// "7.7 GB" of an entry of /proc/meminfo.
std::string gigabytes(const char* key) {
  const int64_t bytes = proc_bytes("/proc/meminfo", key);
  return bytes == 0 ? "unknown" : fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

void add_machine(Json& facts, const Env& env) {
#ifdef __OPTIMIZE__
  const char* kind = "optimised";
#else
  const char* kind = "not optimised";
#endif
  facts["gantrain"] = fmt::format("{} ({}, {})", kVersion, __VERSION__, kind);
  facts["cpu"] = proc_value("/proc/cpuinfo", "model name");
  facts["cpu vectors"] = has_fast_vectors() ? "AVX2" : "no AVX2: slower";
  facts["threads"] = threads_per_rank({}, env, 1);
  facts["memory"] = gigabytes("MemTotal");
  facts["memory free"] = gigabytes("MemAvailable");
}

// What `--device auto` would do. A refusal is a fact here, and what the user came to read.
std::string device_text(const GpuOutlook& outlook, const CudaProbe& probe) {
  try {
    if (decide_device(DeviceKind::kAuto, outlook) == DeviceKind::kCpu)
      return "--device auto is cpu: no GPU is visible";
    if (!probe.error.empty()) fail(Exit::kEnvironment, "the CUDA library cannot be loaded");
    return "--device auto is cuda";
  } catch (const UserError& e) {
    return fmt::format("exit {}: {}", static_cast<int>(e.code()), e.what());
  }
}

Json gpu_list(const GpuDriver& driver) {
  Json all = Json::array();
  for (const GpuDevice& gpu : driver.devices) {
    Json one = {{"file", fmt::format("/dev/nvidia{}", gpu.minor)},
                {"model", gpu.model},
                {"bus", gpu.bus},
                {"uuid", gpu.uuid}};
    if (driver.wsl) one["file"] = "/dev/dxg";
    if (gpu.mig_instances > 0) one["MIG instances"] = gpu.mig_instances;
    all.push_back(one);
  }
  return all;
}

// Where the user-mode driver library comes from: the driver's own, or the package that makes up for
// an old one.
std::string driver_library(const GpuOutlook& outlook, const Env& env) {
  if (!is_too_old(outlook.driver)) return "the driver's own";
  if (outlook.compatibility < kNeededCuda)
    return fmt::format("no {} in its usual places (gantrain help gpus)", kCompatibilityPackage);
  for (const std::string& folder : split(variable(env, "LD_LIBRARY_PATH"), ':')) {
    const std::string library = folder + "/libcuda.so.1";
    std::error_code none;
    if (!folder.empty() && std::filesystem::exists(library, none)) return library;
  }
  return "one that supports CUDA " + outlook.compatibility.text();
}

void add_gpus(Json& facts,
              const GpuDriver& driver,
              const GpuOutlook& outlook,
              const CudaProbe& probe,
              const Env& env) {
  const CudaVersion newest = std::max(newest_cuda(driver.version), outlook.compatibility);
  facts["gpus"] = outlook.visible.count;
  if (!outlook.visible.note.empty()) facts["gpus note"] = outlook.visible.note;
  facts["device"] = device_text(outlook, probe);
  facts["gpu list"] = gpu_list(driver);
  const bool none = driver.version.empty() && driver.devices.empty() && driver.forbidden == 0;
  facts["driver"] = none                     ? "none"
                    : driver.wsl             ? "of Windows"
                    : driver.version.empty() ? "unknown"
                                             : driver.version;
  facts["driver cuda"] =
      none ? "none"
      : newest == CudaVersion{}
          ? "unknown"
          : fmt::format("up to {}; this program needs {}", newest.text(), kNeededCuda.text());
  facts["driver library"] = none ? "none" : driver_library(outlook, env);
}

void add_cuda_library(Json& facts, const CudaProbe& probe, bool gpu) {
  facts["cuda library"] = !probe.built          ? "not built"
                          : probe.error.empty() ? "built"
                                                : "built, but cannot be loaded: " + probe.error;
  facts["cuda missing"] = probe.missing;
  const std::string architectures = probe.found.value("architectures", "");
  facts["architectures"] = architectures.empty() ? "none" : architectures;
  const Json versions = probe.found.value("versions", Json::object());
  for (const char* name : {"cuda runtime", "nccl", "cudnn"})
    facts[name] = versions.value(name, "none");
  facts["cuda devices"] = "no GPU";
  facts["peer access"] = "no GPU";
  if (!gpu) return;
  const Json devices = probe.found.value("devices", Json::object());
  const std::string trouble = !probe.built           ? "the CUDA library is not built"
                              : !probe.error.empty() ? "the CUDA library cannot be loaded"
                                                     : devices.value("error", "unknown");
  facts["cuda devices"] = devices.value("devices", Json(trouble));
  facts["peer access"] = devices.value("peer access", trouble);
}

// The size of /dev/shm, and what is wrong with it for NCCL.
void add_shared_memory(Json& facts, int64_t gpus) {
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) != 0) {
    facts["shared memory"] = "no /dev/shm";
    return;
  }
  const auto bytes = static_cast<int64_t>(shared.f_blocks * shared.f_frsize);
  const std::string peers = text_of(facts["peer access"]);
  const std::string trouble = shared_memory_text(bytes, gpus, peers == "all pairs");
  facts["shared memory"] =
      trouble.empty() ? fmt::format("/dev/shm has {} MB", bytes >> 20) : trouble;
}

void add_network(Json& facts, const Env& env) {
  const std::vector<Interface> all = network_interfaces();
  Json list = Json::array();
  for (const Interface& one : all) {
    list.push_back({{"name", one.name},
                    {"state", one.up ? "up" : "down"},
                    {"addresses", join(one.addresses, " ")}});
  }
  facts["interfaces"] = list;
  const std::string nccl = variable(env, "NCCL_SOCKET_IFNAME");
  const std::vector<std::string> chosen = nccl_interfaces(all, nccl);
  facts["nccl network"] =
      fmt::format("{} ({})",
                  chosen.empty() ? "none" : join(chosen, " "),
                  nccl.empty() ? "NCCL_SOCKET_IFNAME is not set" : "NCCL_SOCKET_IFNAME=" + nccl);
  const std::string gloo = variable(env, "GLOO_SOCKET_IFNAME");
  facts["gloo network"] =
      gloo.empty()
          ? "one node: lo; several: that of the host's name (GLOO_SOCKET_IFNAME is not set)"
          : gloo + " (GLOO_SOCKET_IFNAME)";
  facts["infiniband"] = infiniband_devices();
}

// {"name": "eth0", "state": "up"} -> "eth0, state up"; the first member says what it is.
std::string in_words(const Json& value) {
  if (!value.is_object()) return text_of(value);
  std::string words;
  for (const auto& [name, member] : value.items()) {
    if (text_of(member).empty()) continue;
    words += words.empty() ? text_of(member) : fmt::format(", {} {}", name, text_of(member));
  }
  return words;
}

void print_fact(const std::string& name, const Json& value) {
  const Json rows = value.is_array() ? value : Json::array({value});
  if (rows.empty()) fmt::print("{:<15} none\n", name);
  for (size_t i = 0; i < rows.size(); ++i)
    print_text("{:<15} {}\n", i == 0 ? name : "", in_words(rows[i]));
}

}  // namespace

Json machine_facts(const GpuOutlook& outlook, const std::string& cuda_library) {
  const Env env = current_environment();
  const bool gpu = outlook.visible.count > 0;
  Json facts;
  add_machine(facts, env);
  const CudaProbe probe = probe_cuda_library(cuda_library, /*with_devices=*/gpu);
  add_gpus(facts, look_at_driver(), outlook, probe, env);
  add_cuda_library(facts, probe, gpu);
  add_shared_memory(facts, outlook.visible.count);
  add_network(facts, env);
  facts["ranks"] = gpu && outlook.cuda_library
                       ? fmt::format("--nproc auto is {}", outlook.visible.count)
                       : "--nproc auto is measured where a run is long enough, else 1";
  facts["ddp modes"] = has_reducer() ? "dynamic, wrapper, flat" : "flat";
  facts["python"] = "not needed";
  return facts;
}

void print_facts(const Json& facts, bool json) {
  if (json) {
    fmt::print("{}\n", facts.dump());
    return;
  }
  for (const auto& [name, value] : facts.items()) print_fact(name, value);
}

}  // namespace gantrain
