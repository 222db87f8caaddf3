// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli.h"
#include "config/config.h"
#include "config/message.h"
#include "cuda_probe.h"
#include "device_choice.h"
#include "distributed/options.h"
#include "doctor_facts.h"
#include "launch/foreign.h"
#include "launch/interfaces.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/proc.h"
#include "util/text.h"
#include "verb_requests.h"

namespace gantrain {

namespace {

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

void add_gpus(Json& facts,
              const GpuDriver& driver,
              const GpuOutlook& outlook,
              const CudaProbe& probe) {
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
}

void add_cuda_library(Json& facts, const CudaProbe& probe, bool gpu) {
  facts["cuda library"] = !probe.built          ? "not built"
                          : probe.error.empty() ? "built"
                                                : "built, but cannot be loaded: " + probe.error;
  facts["cuda missing"] = probe.missing;
  facts["architectures"] = probe.architectures.empty() ? "none" : probe.architectures;
  for (const char* name : {"cuda runtime", "nccl", "cudnn"})
    facts[name] = probe.versions.value(name, "none");
  facts["cuda devices"] = "no GPU";
  facts["peer access"] = "no GPU";
  if (!gpu) return;
  const std::string trouble = !probe.built           ? "the CUDA library is not built"
                              : !probe.error.empty() ? "the CUDA library cannot be loaded"
                                                     : probe.devices.value("error", "unknown");
  facts["cuda devices"] = probe.devices.value("devices", Json(trouble));
  facts["peer access"] = probe.devices.value("peer access", trouble);
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

// What can be seen without LibTorch.
Json facts() {
  const Env env = current_environment();
  const GpuOutlook outlook = gpu_outlook(DeviceKind::kAuto, env);
  const bool gpu = outlook.visible.count > 0;
  Json facts;
  add_machine(facts, env);
  const CudaProbe probe = probe_cuda_library(/*with_devices=*/gpu);
  add_gpus(facts, look_at_driver(), outlook, probe);
  add_cuda_library(facts, probe, gpu);
  add_network(facts, env);
  facts["ranks"] =
      fmt::format("--nproc auto is {}", gpu && outlook.cuda_library ? outlook.visible.count : 1);
  facts["ddp modes"] = has_reducer() ? "dynamic, wrapper, flat" : "flat";
  facts["python"] = "not needed";
  return facts;
}

}  // namespace

int doctor_verb(const std::vector<std::string>& arguments) {
  CLI::App app("What this machine and this build can do.", "gantrain doctor");
  DoctorRequest request;
  app.add_flag("--json", request.json, "one JSON line");
  app.add_flag("--ddp-table",
               request.ddp_table,
               "run small GANs on two CPU ranks in every way of using DistributedDataParallel, and "
               "show what happens");
  if (!parse(app, arguments)) return 0;
  if (!request.ddp_table) request.facts = facts();
  try {
    return call_trainer("doctor", message_of(request).dump(), /*cuda=*/false);
  } catch (const UserError& e) {
    // LibTorch may be what is wrong here; what is known without it is shown all the same.
    if (request.facts.is_null()) throw;
    request.facts["libtorch"] = e.what();
    print_facts(request.facts, request.json);
    throw;
  }
}

}  // namespace gantrain
