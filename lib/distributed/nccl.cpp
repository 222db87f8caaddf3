// SPDX-License-Identifier: Apache-2.0
// Part of the CUDA library, with the kernels: the one place that names NCCL. It takes nothing of
// gantrain but headers, since the library is loaded before the trainer.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <type_traits>

#include "distributed/backend.h"
#include "distributed/meeting.h"
#include "util/error.h"

// ProcessGroupNCCL::Options holds an ncclConfig_t by value, and LibTorch 2.11 was compiled with the
// one of NCCL 2.28.9. Another header may give it another size, and then every member behind it, the
// group it is split from among them, would be read at a wrong place.
static_assert(NCCL_VERSION_CODE == NCCL_VERSION(2, 28, 9),
              "LibTorch 2.11 was built with NCCL 2.28.9: compile with that version's nccl.h");

namespace {

using gantrain::BackendSettings;

// As NCCL counts: 22809 is 2.28.9.
std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

// At run time a later NCCL 2 will do: each keeps the functions and the layouts of those before it,
// and the configuration says by its own size and version how it was compiled. An earlier one lacks
// functions or misreads the configuration, and a NCCL 3 promises nothing.
void check_version() {
  const int found = c10d::getNcclVersionNumber();
  if (found >= NCCL_VERSION_CODE && found / 10000 == NCCL_MAJOR) return;
  // Not fail(), whose printable() this library does not have.
  throw gantrain::UserError(
      gantrain::Exit::kEnvironment,
      fmt::format("NCCL {} is loaded, LibTorch needs {} or a later NCCL {}: take that libnccl.so "
                  "out of LD_LIBRARY_PATH and LD_PRELOAD, or install nvidia-nccl-cu13=={}",
                  version_text(found),
                  version_text(NCCL_VERSION_CODE),
                  NCCL_MAJOR,
                  version_text(NCCL_VERSION_CODE)));
}

// What the user has set stays.
void set_default(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*overwrite=*/0);
}

void set_defaults(const BackendSettings& settings) {
  // A failed collective ends the process with the reason, without aborting the communicators: those
  // may hang themselves, and the launcher ends all ranks at once. The alternatives go on computing
  // with half a sum, or wait. This is LibTorch's default too; it is what the launcher relies on.
  // Where a lost rank does not end the run, the launcher tells of the loss, and what hangs is
  // aborted: the watchdog would end those who are left a moment after they went on.
  set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", settings.may_abort ? "0" : "3");
  // A second watchdog kills the process if the first has not moved for 8 minutes, as it may while
  // CUDA is busy. It stays on, for workers that no launcher of ours watches, but behind every other
  // deadline, all of which can say more.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(settings.timeout).count();
  set_default("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", std::to_string(seconds + 300));
  // At a failure every rank would first write a trace into /tmp and wait for the others to do so:
  // litter, and a minute in which the cause is not told. The watchdog of LibTorch 2.11 sleeps that
  // minute, four times the second value, also where nothing is written.
  set_default("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
  set_default("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0");
  // Left as it is: NCCL_DEBUG. NCCL writes to standard output, which carries only what was asked
  // for, and tells its last error to LibTorch without it. Left as they are too:
  // TORCH_NCCL_BLOCKING_WAIT (off: with it every wait() is a wait of the host),
  // TORCH_NCCL_RETHROW_CUDA_ERRORS (on: the watchdog may be the first to see a kernel's fault, and
  // its text is the cause), TORCH_NCCL_CUDA_EVENT_CACHE (on: events are reused and not destroyed
  // under CUDA's lock), TORCH_NCCL_PROPAGATE_ERROR (off: the launcher tells the other ranks).
}

}  // namespace

extern "C" c10d::Backend* gantrain_make_nccl(c10d::Store* store, const BackendSettings& settings) {
  check_version();
  set_defaults(settings);
  // Not a high-priority stream: it would take multiprocessors from the backward pass in which a
  // bucket is reduced, and nobody has measured here that this pays. TORCH_NCCL_HIGH_PRIORITY=1
  // chooses it. The configuration stays NCCL's default, so that calls block: LibTorch's other mode
  // polls, and Group::join() has a deadline for the first, which alone may take long.
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
  options->timeout = settings.timeout;
  const auto held = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(held,
                                                     static_cast<int>(settings.ranks.rank),
                                                     static_cast<int>(settings.ranks.world),
                                                     options)
      .release();
}

namespace {

// As nvidia-smi writes it, without "GPU-" or "MIG-" in front. In a process that was given a MIG
// instance, CUDA tells the instance's own number.
void write_uuid(const cudaUUID_t& uuid, char* text, int size) {
  int at = 0;
  for (int i = 0; i < 16 && at + 4 < size; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += std::snprintf(text + at,
                        static_cast<size_t>(size - at),
                        dash ? "-%02x" : "%02x",
                        static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
}

}  // namespace

extern "C" int gantrain_read_device(int index, char* pci, int pci_size, char* uuid, int uuid_size) {
  cudaDeviceProp properties{};
  const cudaError_t found = cudaGetDeviceProperties(&properties, index);
  if (found != cudaSuccess) return found;
  write_uuid(properties.uuid, uuid, uuid_size);
  return cudaDeviceGetPCIBusId(pci, pci_size, index);
}

extern "C" bool gantrain_peers_reach() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return false;
  for (int i = 0; i < devices * devices; ++i) {
    const int from = i / devices, to = i % devices;
    int can = from == to ? 1 : 0;
    if (from != to) cudaDeviceCanAccessPeer(&can, from, to);
    if (can == 0) return false;
  }
  return true;
}

static_assert(std::is_same_v<decltype(&gantrain_peers_reach), gantrain::PeersReach>,
              "the trainer calls it through this type");
static_assert(std::is_same_v<decltype(&gantrain_read_device), gantrain::ReadDevice>,
              "the trainer calls it through this type");
