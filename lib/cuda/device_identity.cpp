// SPDX-License-Identifier: Apache-2.0
#include "distributed/device_identity.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <type_traits>

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

static_assert(std::is_same_v<decltype(&gantrain_read_device), gantrain::ReadDevice>,
              "the trainer calls it through this type");
