// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// A lack of memory, as far as the text of an error tells of it. Sizes are in bytes; 0: not told.
struct MemoryShortage {
  bool on_device = false;  // else the host's memory
  int64_t asked = 0;       // by the allocation that failed
  int64_t total = 0;       // of the device
  int64_t free = 0;        // on the device
  int64_t in_tensors = 0;  // of this process
  int64_t kept = 0;        // by this process, for later tensors
};

// Reads what LibTorch's allocators, CUDA, cuBLAS, cuDNN, NCCL and the C++ library say when memory
// is short. Nothing where the text speaks of something else.
std::optional<MemoryShortage> shortage_in(std::string_view text);

// The host's memory as this process finds it, in bytes.
struct HostMemory {
  int64_t resident = 0;  // of this process
  int64_t available = 0;
  int64_t total = 0;
  int64_t limit = 0;  // of this process's address space (ulimit -v); 0: none
};
HostMemory host_memory();

// What needed the memory.
struct MemoryUser {
  std::string device = "";  // "cuda:3"
  std::string phase = "";   // what was going on: "D backward", or the name of a verb
  int64_t micro_batch = 0;  // images that a rank computes with at a time; 0: it does not train yet
  int64_t ranks_here = 1;   // which share the host's memory
  bool amp = false;         // computes in half precision already
  bool graphs = false;      // may record phases as graphs, which keep their memory
};

// Says in up to three lines what was asked for, what there is, and what can be made smaller. Whose
// message it is (rank, host, phase) is for the caller to say.
std::string shortage_text(const MemoryShortage& shortage,
                          const MemoryUser& user,
                          const HostMemory& host);

}  // namespace gantrain
