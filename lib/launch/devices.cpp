// SPDX-License-Identifier: Apache-2.0
#include "launch/devices.h"

#include <algorithm>
#include <set>

#include "launch/foreign.h"
#include "util/cores.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

int64_t driver_devices(const std::filesystem::path& dev) {
  std::error_code none;
  if (!std::filesystem::exists(dev / "nvidiactl", none)) return 0;
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dev, none)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, "nvidia") && parse_int(name.substr(6)).value_or(-1) >= 0) ++count;
  }
  return count;
}

// Counts the devices that the mask names, as CUDA does: the first entry that names no device ends
// the list.
int64_t masked(const std::string& mask, int64_t devices) {
  std::set<std::string> seen;
  for (const std::string& part : split(mask, ',')) {
    const std::string id = trim(part);
    const auto index = parse_int(id);
    const bool named = starts_with(id, "GPU-") || starts_with(id, "MIG-");
    if (!named && (!index || *index < 0 || *index >= devices)) break;
    seen.insert(id);
  }
  return static_cast<int64_t>(seen.size());
}

}  // namespace

int64_t visible_gpus(const Env& env, const std::filesystem::path& dev) {
  const int64_t devices = driver_devices(dev);
  const auto mask = env.find("CUDA_VISIBLE_DEVICES");
  return devices == 0 || mask == env.end() ? devices : masked(mask->second, devices);
}

DeviceKind resolve_device(DeviceKind wanted, const World& world, int64_t visible) {
  if (wanted == DeviceKind::kCpu) return DeviceKind::kCpu;
  if (visible == 0) {
    if (wanted == DeviceKind::kAuto) return DeviceKind::kCpu;
    fail(Exit::kEnvironment,
         "--device cuda, but no GPU is visible (NVIDIA driver, CUDA_VISIBLE_DEVICES): use --device "
         "cpu, or run where a GPU is");
  }
  if (world.role == World::Role::kLauncher && world.ranks.local_world > visible) {
    fail(Exit::kEnvironment,
         "{} ranks on this node, but {} visible GPU{}: use --nproc {}, or --device cpu",
         world.ranks.local_world,
         visible,
         visible == 1 ? "" : "s",
         visible);
  }
  return DeviceKind::kCuda;
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

}  // namespace gantrain
