// SPDX-License-Identifier: Apache-2.0
#include "train/memory/memory_shortage.h"

#include "support/catch.h"
#include "util/text.h"

using namespace gantrain;

namespace {

constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;

const char* const kOfAGpu =
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.00 GiB of "
    "which 5.50 MiB is free. Process 4711 has 9.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 70.00 GiB memory in use. Of the allocated memory 60.00 GiB is "
    "allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 2.00 "
    "GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "
    "setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

}  // namespace

TEST_CASE("EveryWayToSayThatMemoryIsShortIsUnderstood") {
  struct Case {
    const char* text;
    bool on_device;
    int64_t asked;
  };
  for (const auto& [text, on_device, asked] : {
           Case{kOfAGpu, true, 20 * kMiB},
           Case{"CUDA out of memory. Tried to allocate more than 1EB memory.", true, 0},
           Case{"CUDA error: out of memory\nCUDA kernel errors might be reported later", true, 0},
           Case{"CUDA driver error: out of memory", true, 0},
           Case{"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                true,
                0},
           Case{"cuDNN error: CUDNN_STATUS_ALLOC_FAILED", true, 0},
           Case{"FIND was unable to find an engine to execute this computation", true, 0},
           Case{"rank 1: all-reduce failed: NCCL error\nLast error:\nCuda failure 'out of memory'",
                true,
                0},
           Case{"Cuda failure 2 'out of memory'", true, 0},
           Case{"[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: "
                "you tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)",
                false,
                32 * kGiB},
           Case{"out of host memory: a tensor of 1125899906842624 bytes cannot be allocated",
                false,
                1024 * 1024 * kGiB},
           Case{"std::bad_alloc", false, 0},
           Case{"std::bad_array_new_length", false, 0},
           Case{
               "Storage size calculation overflowed with sizes=[4611686018427387904, 8]", false, 0},
       }) {
    CAPTURE(text);
    const auto found = shortage_in(text);
    REQUIRE(found);
    CHECK(found->on_device == on_device);
    CHECK(found->asked == asked);
  }
}

TEST_CASE("OtherErrorsAreNoLackOfMemory") {
  for (const char* text : {"",
                           "CUDA error: an illegal memory access was encountered",
                           "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
                           "rank 1: all-reduce failed: Connection closed by peer",
                           "libcudnn.so.9: cannot allocate memory in static TLS block",
                           "mat1 and mat2 shapes cannot be multiplied (4x8 and 4x8)"}) {
    CAPTURE(text);
    CHECK_FALSE(shortage_in(text));
  }
}

TEST_CASE("AGpusSizesAreReadOffItsText") {
  const auto found = shortage_in(kOfAGpu);
  REQUIRE(found);
  CHECK(found->total == 79 * kGiB);
  CHECK(found->free == 11 * kMiB / 2);
  CHECK(found->in_tensors == 60 * kGiB);
  CHECK(found->kept == 2 * kGiB);
}

TEST_CASE("TheMessageHasTheSizesAndTwoWaysOutInThreeLines") {
  const MemoryUser user{"cuda:3", "D backward", 16, 8, false};
  const std::vector<std::string> lines =
      split(shortage_text(*shortage_in(kOfAGpu), user, {}), '\n');
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "out of memory on cuda:3: 20.0 MiB more were asked for; 60.00 GiB in tensors, 2.00 GiB "
        "kept for later ones, 5.5 MiB of 79.00 GiB free");
  CHECK(lines[1] == "give --micro-batch 8 (16 now; --batch stays what it is),");
  CHECK_THAT(lines[2], Catch::StartsWith("or --amp, a smaller --resolution"));
  CHECK_THAT(lines[2], Catch::EndsWith("more GPUs (--nproc)"));
}

TEST_CASE("WaysOutAreThoseThatAreLeft") {
  const MemoryShortage device{.on_device = true}, host{.asked = 5000};
  const auto says = [](const MemoryShortage& shortage, const MemoryUser& user) {
    return shortage_text(
        shortage, user, {.resident = kGiB, .available = 3 * kGiB, .total = 4 * kGiB});
  };
  CHECK_THAT(says(device, {.micro_batch = 16, .amp = true}), !Catch::Contains("--amp"));
  CHECK_THAT(says(device, {.micro_batch = 1}), !Catch::Contains("--micro-batch"));
  CHECK_THAT(says(device, {}), !Catch::Contains("--micro-batch"));  // it does not train yet
  CHECK_THAT(says(device, {.phase = "metrics", .micro_batch = 8}),
             Catch::Contains("metrics.images"));
  CHECK_THAT(says(device, {.phase = "generate"}), Catch::Contains("--device cpu"));
  CHECK_THAT(says(host, {.micro_batch = 8, .ranks_here = 4}),
             Catch::Contains("5000 bytes more were asked for") &&
                 Catch::Contains("this process holds 1.00 GiB") &&
                 Catch::Contains("3.00 GiB of 4.00 GiB left") &&
                 Catch::Contains("--micro-batch 4") &&
                 Catch::Contains("fewer ranks here (--nproc, 4 now)") && !Catch::Contains("--amp"));
}

TEST_CASE("TheHostsMemoryIsRead") {
  const HostMemory host = host_memory();
  CHECK(host.resident > 0);
  CHECK(host.available > 0);
  CHECK(host.total >= host.available);
}
