// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <fstream>

#include "cli.h"
#include "config/config.h"
#include "config/message.h"
#include "distributed/options.h"
#include "launch/devices.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"
#include "verb_requests.h"

namespace gantrain {

namespace {

// What follows "KEY:" in a file of /proc, or "".
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(line.substr(0, colon)) == key)
      return trim(line.substr(colon + 1));
  }
  return "";
}

// "8053064 kB" -> "7.7 GB".
std::string gigabytes(const std::string& text) {
  const auto kilobytes = parse_int(text.substr(0, text.find(' ')));
  if (!kilobytes) return "unknown";
  return fmt::format("{:.1f} GB", static_cast<double>(*kilobytes) * 1024 / 1e9);
}

// What can be seen without LibTorch.
DoctorFacts facts() {
  const Env env = current_environment();
  LaunchOptions launch;
#ifdef __OPTIMIZE__
  const char* kind = "optimised";
#else
  const char* kind = "not optimised";
#endif
  const int64_t gpus = visible_gpus(env);
  const bool cuda = has_cuda_library();
  return {.gantrain = fmt::format("{} ({}, {})", kVersion, __VERSION__, kind),
          .cpu = proc_value("/proc/cpuinfo", "model name"),
          .threads = threads_per_rank(launch, env, 1),
          .memory = gigabytes(proc_value("/proc/meminfo", "MemTotal")),
          .memory_free = gigabytes(proc_value("/proc/meminfo", "MemAvailable")),
          .gpus = gpus,
          .cuda_library = cuda ? "built" : "not built",
          .ranks = fmt::format("--nproc auto is {}", gpus > 0 && cuda ? gpus : 1),
          .ddp_modes = has_reducer() ? "dynamic, wrapper, flat" : "flat",
          .python = "not needed"};
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
  request.facts = facts();
  return call_trainer("doctor", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace gantrain
